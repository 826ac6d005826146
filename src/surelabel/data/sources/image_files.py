"""Find the image files that the rows of a source come from, to link or copy them."""

from collections.abc import Iterable
from pathlib import Path

from surelabel.config import DataConfig
from surelabel.data.sources import folder
from surelabel.data.sources.checks import resolve_inside
from surelabel.data.sources.tables import table_file
from surelabel.data.sources.tables.images import TableImages
from surelabel.data.sources.tables.rows import row_ids


def original_files(config: DataConfig, ids: Iterable[str]) -> dict[str, Path] | None:
    """Return the file of each id; None if the inputs are not image files."""
    if table_file.accepts(config.source):
        found = table_images(config)
        return None if found is None else {name: found[name] for name in ids if name in found}
    root = Path(config.source)
    if not folder.accepts(config.source):
        return None
    files = {name: root / name for name in ids}
    return {name: file for name, file in files.items() if resolve_inside(file, root).is_file()} or None


def table_images(config: DataConfig) -> dict[str, Path] | None:
    """Return the image files of a table's rows, by id; None if its inputs are not image files."""
    part = table_file.read_table(config, needs_label=False)
    if part.roles.image is None:
        return None
    images = TableImages.of(part.table, part.roles.image, config.image_root)
    return None if images.paths is None else dict(zip(row_ids(part).tolist(), images.files, strict=True))
