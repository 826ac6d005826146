"""Find the data of a run from the current folder; its paths are relative to where it began."""

from pathlib import Path

from surelabel.config import RunConfig
from surelabel.runs.run_dir import RunDir

DATA_PATHS = ("source", "root", "test", "labels", "trusted", "image_root")
"""Settings of `data` that may be paths."""


def moved_paths(run: RunDir) -> dict[str, str]:
    """Return paths that exist only as seen from where the run began, by dotted setting."""
    config, began = run.config(), Path(run.environment().get("folder", "."))
    paths = {f"data.{name}": getattr(config.data, name) for name in DATA_PATHS}
    if config.noise is not None:
        paths["noise.path"] = config.noise.path
    return {
        name: str(began / path)
        for name, path in paths.items()
        if path is not None and not Path(path).exists() and (began / path).exists()
    }


def config_from_here(run: RunDir) -> RunConfig:
    """Return the run's configuration with paths that are valid in the current folder."""
    config = run.config()
    for name, path in moved_paths(run).items():
        part, field = name.split(".")
        # No need to validate again: a path replaces a path.
        config = config.model_copy(update={part: getattr(config, part).model_copy(update={field: path})})
    return config
