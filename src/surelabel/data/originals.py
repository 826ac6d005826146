"""The original images of rows, to be looked at: files of the data set, or bytes in its tables.

They are found by the ids of the rows that were loaded, never by a path from outside. A file must
still be inside its folder: a link that was put there since leads nowhere.
"""

from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from surelabel.config import DataConfig
from surelabel.data.corpus import Corpus
from surelabel.data.images.decode import decode_to_look_at
from surelabel.data.images.encode import Encoded, Files
from surelabel.data.images.stream import StreamedImages
from surelabel.data.sources import folder
from surelabel.data.sources.objects import is_object
from surelabel.data.sources.tables import parquet_folder, table_file
from surelabel.data.sources.tables.images import TableImages
from surelabel.data.sources.tables.rows import TablePart, row_ids


class Originals:
    """Encoded images by the ids of their rows."""

    def __init__(self, place: Mapping[str, tuple[Encoded, int]]) -> None:
        self.place = place

    def __contains__(self, id: object) -> bool:
        return id in self.place

    def read(self, id: str, max_side: int) -> Image.Image:
        """Decode the image of a row, upright, and scaled down to `max_side` if it is larger.

        Raise Unreadable if it cannot be decoded, or only with too much memory.
        """
        encoded, position = self.place[id]
        return decode_to_look_at(encoded, position, max_side)


def find_originals(config: DataConfig, corpus: Corpus) -> Originals | None:
    """Return the original images of training and held-out rows; None if there are none."""
    parts = corpus.labelled_parts
    if not corpus.train.is_image:
        return None
    if all(isinstance(rows.x, StreamedImages) for rows in parts):
        streamed = [(rows.x.encoded, rows.ids) for rows in parts if isinstance(rows.x, StreamedImages)]
        return Originals({str(id): (encoded, at) for encoded, ids in streamed for at, id in enumerate(ids)})
    source = config.source
    if is_object(source):
        return None
    ids = {str(id) for rows in parts for id in rows.ids}
    if table_file.accepts(source):
        return _of_table(table_file.read_table(config, needs_label=False), config, ids)
    if parquet_folder.accepts(source):
        return _of_table(parquet_folder.read_table(config), config, ids)
    if folder.accepts(source):
        return _of_folder(Path(source), sorted(ids))
    return None


def _of_table(part: TablePart, config: DataConfig, ids: set[str]) -> Originals | None:
    if part.roles.image is None:
        return None
    encoded = TableImages.of(part.table, part.roles.image, config.image_root).encoded()
    return Originals({str(id): (encoded, at) for at, id in enumerate(row_ids(part)) if str(id) in ids})


def _of_folder(root: Path, ids: list[str]) -> Originals:
    encoded = Files([root / id for id in ids], root)
    return Originals({id: (encoded, at) for at, id in enumerate(ids)})
