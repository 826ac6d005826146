"""Arrays: of inputs and labels by name, from NumPy files and from memory."""
