"""List the files that a data source is read from, so that no command overwrites one of them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from surelabel.config import DataConfig
from surelabel.data.arrays import npy
from surelabel.data.originals import table_images
from surelabel.data.tables import table_file
from surelabel.errors import SurelabelError


def input_files(config: DataConfig) -> Iterator[Path]:
    """Yield every file and folder that these settings name, and those the files lead to."""
    sources = [name for name in (config.source, config.test) if name is not None]
    named = [*sources, config.root, config.labels, config.trusted, *config.options.values()]
    yield from (Path(name) for name in named if isinstance(name, str))
    for source in sources:
        if npy.accepts(source):
            yield from npy.label_files(Path(source))
        if table_file.accepts(source):
            with contextlib.suppress(SurelabelError):  # an unreadable table protects only itself
                yield from (table_images(config.model_copy(update={"source": source})) or {}).values()
