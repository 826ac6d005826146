"""Where the data of a run are, seen from here: a run keeps paths as they were given, relative to the folder that it began in."""

from pathlib import Path

from surelabel.config import RunConfig, validate
from surelabel.overrides import set_field
from surelabel.runs.run_dir import RunDir

DATA_PATHS = ("source", "root", "test", "labels", "trusted")
"""Settings of data that may be paths."""


def moved_paths(run: RunDir) -> dict[str, str]:
    """Paths in the run's configuration at which nothing is from here, but was from where the run began; by dotted setting."""
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
    """The run's configuration, with paths that lead to its data from the current folder."""
    content = run.config().model_dump()
    for name, path in moved_paths(run).items():
        set_field(content, name, path)
    return validate(content)
