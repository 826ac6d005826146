"""List the files that data and runs are read from, so that no command overwrites one of them."""

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from surelabel.config import DataConfig, RunConfig
from surelabel.data import SOURCES
from surelabel.data.sources import array_files
from surelabel.data.sources.image_files import table_images
from surelabel.data.sources.tables import table_file
from surelabel.errors import SurelabelError
from surelabel.files import refuse_overwriting
from surelabel.runs.locate import DATA_PATHS, config_from_here
from surelabel.runs.run_dir import RunDir


def list_named_paths(config: DataConfig) -> Iterator[Path]:
    """Yield every file and folder that these settings name; names of benchmarks are not paths."""
    bundled = {name for source in SOURCES for name in source.BUNDLED}
    settings = {name: getattr(config, name) for name in DATA_PATHS}
    # A root may be a folder called cifar10; as a source or a test set, that is the benchmark.
    paths = [path for name, path in settings.items() if name not in ("source", "test") or path not in bundled]
    yield from (Path(path) for path in (*paths, *config.options.values()) if isinstance(path, str) and path)


def list_input_files(config: DataConfig) -> Iterator[Path]:
    """Yield the data, every other file that these settings name, and the files of a table.

    Other folders, such as `root`, may hold outputs as well.
    """
    data = {Path(name) for name in (config.source, config.test) if name is not None}
    yield from (path for path in list_named_paths(config) if path in data or not path.is_dir())
    for source in (name for name in (config.source, config.test) if name is not None):
        if array_files.is_single_array(source):
            yield from array_files.label_files(Path(source))
        if table_file.accepts(source):
            with contextlib.suppress(SurelabelError):  # an unreadable table protects only itself
                yield from (table_images(config.model_copy(update={"source": source})) or {}).values()


def refuse_overwriting_inputs(
    outputs: Iterable[Path], runs: Iterable[RunDir] = (), more: Iterable[Path] = (), option: str = "--out"
) -> None:
    """Raise if an output is a file of these runs or of their data, one of `more`, or not ours."""
    refuse_overwriting(outputs, chain(more, *map(list_files_of_run, runs)), option)


def list_files_of_run(run: RunDir) -> Iterator[Path]:
    """Yield the files of a run and those it was trained on.

    Relative paths are resolved both from here and from the folder in which the run was started.
    """
    yield from run.own_files()
    yield from list_configured_files(config_from_here(run))
    started_in = Path(run.environment().get("folder", "."))
    yield from (started_in / path for path in list_configured_files(run.config()))


def list_configured_files(config: RunConfig) -> Iterator[Path]:
    """Yield the files that a configuration reads, and its folders of data."""
    yield from list_input_files(config.data)
    others = (config.noise and config.noise.path, config.model.weights, config.train.warm_start)
    yield from (Path(name) for name in others if name and not Path(name).is_dir())
