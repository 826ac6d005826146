"""Wire configuration, data, methods and the engine into a training run."""
