"""Find the columns of a table that hold inputs, labels, true labels, ids and splits."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from surelabel.config import DataConfig
from surelabel.data.images.load import is_image
from surelabel.data.sources.tables.content import JUDGED_ROWS, Content, judge_content
from surelabel.data.sources.tables.features import is_list, is_text
from surelabel.data.sources.tables.table import Table
from surelabel.errors import ConfigError

LABELS = ("label", "labels", "class", "target", "y", "category", "fine_label")
"""Common names of label columns; the first that a table has is taken."""
PATHS = ("path", "file", "filename", "file_name", "image", "img", "image_path", "filepath")
"""Common names of columns with paths of images."""

TEXTS = (
    *("text", "texts", "sentence", "review", "comment", "content", "body", "message", "question", "description"),
    *("document", "tweet", "utterance", "abstract", "headline", "title"),
)
"""Common names of columns of text."""

_LABEL_LIKE = re.compile(r"(.*_)?labels?(_.*)?|class|target|category|y", re.IGNORECASE)
"""Columns that would reveal the label if they were features, such as clean_label."""
_INDEX = ("", "unnamed: 0", "__index_level_0__")
"""What pandas calls the row numbers that it writes next to the columns."""


@dataclass(frozen=True)
class Roles:
    """The columns that a table is read from; None if it has no such column."""

    label: str | None
    clean: str | None
    id: str | None
    split: str | None
    image: str | None
    """Paths, bytes, or the {bytes, path} of the Hugging Face hub."""
    text: str | None = None
    features: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Those of the features that are categories; the others are numbers."""
    is_encoded: bool = False
    """Whether features have to be encoded: some are categories, or missing."""
    notes: tuple[str, ...] = ()
    """Choices that may surprise the user."""
    shown: tuple[str, ...] = ()
    """Columns that are only read to be shown."""
    group: str | None = None

    @property
    def used(self) -> list[str]:
        """All columns that have a role, each once."""
        single = (self.label, self.clean, self.id, self.split, self.image, self.text, self.group)
        named = (*single, *self.features, *self.shown)
        return list(dict.fromkeys(name for name in named if name is not None))


def find_roles(table: Table, config: DataConfig, needs_label: bool = True, is_test: bool = False) -> Roles:
    """Find the columns that the configuration names, or those with common names.

    A test set needs no given labels if it has the true ones.
    """
    _refuse_several_inputs(config)
    clean = _configured(table, config.clean_column, "clean_column", may_be_missing=is_test or not needs_label)
    row_id = _configured(table, config.id_column, "id_column", may_be_missing=not needs_label)
    row_id = row_id or _common(table, ("id",))
    may_lack_group = is_test or not needs_label or config.labels is not None
    group = _configured(table, config.group, "group", may_be_missing=may_lack_group)
    image = _image_column(table, config)
    taken = {name for name in (clean, row_id, image, group) if name is not None}
    label, notes = _label_column(table, config, taken)
    if label is None and is_test:
        label = clean
    if label is None and needs_label and config.labels is None:
        raise _no_label(table, config, taken)
    split = _common(table, ("split",), (label, *(config.feature_columns or ())))
    if image is not None:
        return Roles(label, clean, row_id, split, image, notes=notes, group=group)
    rest = [name for name in table.names if name not in {*taken, label, split}]
    inputs = _find_inputs(table, config, rest)
    return Roles(
        label,
        clean,
        row_id,
        split,
        None,
        inputs.text,
        inputs.features,
        inputs.categories,
        notes=(*notes, *inputs.notes),
        group=group,
    )


def _refuse_several_inputs(config: DataConfig) -> None:
    given = [name for name in ("path_column", "text_column", "feature_columns") if getattr(config, name)]
    if len(given) > 1:
        names = " and ".join(f"data.{name}" for name in given)
        raise ConfigError(f"{names}: a table has images, text or features; choose one of them")


def _configured(table: Table, name: str | None, option: str, may_be_missing: bool = False) -> str | None:
    """Return the column that the configuration names."""
    if name is None or name in table.names:
        return name
    if may_be_missing:
        return None
    raise table.error(f"there is no column {name!r}, which data.{option} names; available: {', '.join(table.names)}")


def _common(table: Table, common: Iterable[str], taken: Iterable[str | None] = ()) -> str | None:
    """Return the first of the common names that the table has, ignoring case."""
    return next(iter(_all_common(table, common, taken)), None)


def _all_common(table: Table, common: Iterable[str], taken: Iterable[str | None]) -> list[str]:
    by_lower = {name.lower(): name for name in reversed(table.names) if name not in taken}
    return [by_lower[name] for name in common if name in by_lower]


def _label_column(table: Table, config: DataConfig, taken: set[str]) -> tuple[str | None, tuple[str, ...]]:
    if config.label_column is not None:
        return (config.label_column if config.label_column in table.names else None), ()
    features = config.feature_columns or ()
    possible = _all_common(table, LABELS, {*taken, *features})
    if len(possible) < 2:
        return next(iter(possible), None), ()
    others = ", ".join(possible[1:])
    return possible[0], (f"{possible[0]!r} is taken as the label, not {others}; data.label_column names another",)


def _no_label(table: Table, config: DataConfig, taken: set[str]) -> Exception:
    if config.label_column is not None:
        which = f"there is no column {config.label_column!r}, which data.label_column names"
    else:
        which = f"there is no label column{' but the clean one' if config.clean_column in taken else ''}"
    return table.error(f"{which}; available: {', '.join(table.names)} (data.label_column names it)")


def _image_column(table: Table, config: DataConfig) -> str | None:
    if config.path_column is not None:
        return _configured(table, config.path_column, "path_column")
    if config.feature_columns is not None:
        return None
    taken = (config.label_column, config.clean_column, config.id_column, config.group)
    labels = _all_common(table, LABELS, ())[: config.label_column is None]
    encoded = [name for name in table.names if holds_bytes(table[name].type) and name not in (*taken, *labels)]
    return (
        next((name for name in encoded if name.lower() in PATHS), None)
        or next(iter(encoded), None)
        or next((name for name in _all_common(table, PATHS, taken) if _holds_image_paths(table[name])), None)
    )


def holds_bytes(kind: Any) -> bool:
    """Return whether a type is bytes, or a struct with bytes as on the Hugging Face hub."""
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0) and holds_bytes(kind.field("bytes").type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _holds_image_paths(column: Any) -> bool:
    """Judge by the first cell that is not blank: a column called file may name anything."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return False
    cells = (cell.as_py() for cell in column)
    return is_image(Path((next((cell for cell in cells if cell and cell.strip()), "") or "x.png").strip()))


class _Inputs(NamedTuple):
    """Either a column of text, or features, some of which are categories."""

    text: str | None = None
    features: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _find_inputs(table: Table, config: DataConfig, rest: list[str]) -> _Inputs:
    """Find the column of text or those of features, and describe the columns that are not used.

    Features are sorted by name, so that their order in a table does not matter.
    """
    if config.text_column is not None:
        return _Inputs(_configured(table, config.text_column, "text_column"))
    named = (*(config.feature_columns or ()), *(config.category_columns or ()))
    for name in named:
        _configured(table, name, "feature_columns" if name in (config.feature_columns or ()) else "category_columns")
    if config.feature_columns is not None:
        held = {name: judge_content(table, name) for name in config.feature_columns}
        return _Inputs(None, config.feature_columns, _choose_categories(held, config, is_named=True))
    held = {name: judge_content(table, name) for name in rest if not reveals_label(name, table, rest)}
    categories = _choose_categories(held, config)
    numbers = [name for name, content in held.items() if content == "numbers" and name not in categories]
    if any(is_list(table, name) for name in numbers):
        categories = ()  # embeddings are trained on as they are
    features = sorted({*numbers, *categories})
    others = [name for name in features if name.lower() not in TEXTS]
    is_chosen = features and config.category_columns is not None
    text = None if is_chosen else _find_text(table, held, is_needed=not others)
    if not features and text is None:
        raise table.error(
            f"no images, text, numbers or categories in {', '.join(table.names)}; name a column with "
            "data.path_column (images), data.text_column or data.feature_columns"
        )
    used = features if text is None else [text]
    notes = tuple(_describe_unused(rest, used, held))
    return _Inputs(None, tuple(features), categories, notes) if text is None else _Inputs(text, notes=notes)


def _choose_categories(held: dict[str, Content], config: DataConfig, is_named: bool = False) -> tuple[str, ...]:
    """Return the columns of categories; of named features, all that are not numbers."""
    if config.category_columns is not None:
        return tuple(name for name in config.category_columns if not is_named or name in held)
    return tuple(
        name for name, content in held.items() if (content != "numbers" if is_named else content == "categories")
    )


def _find_text(table: Table, held: dict[str, Content], is_needed: bool) -> str | None:
    """Return the column of text with a common name; if one is needed, any, the longest first."""
    texts = [name for name, content in held.items() if content == "text"]
    named = [name for name in held if name.lower() in TEXTS]
    common = [name for name in named if name in texts] or (named if is_needed else [])
    common = [name for name in common if is_text(table[name].type)]
    if common:
        return min(common, key=lambda name: TEXTS.index(name.lower()))
    return max(texts, key=lambda name: _length(table, name)) if is_needed and texts else None


def _length(table: Table, name: str) -> int:
    return sum(len(cell or "") for cell in table[name].slice(0, JUDGED_ROWS).to_pylist())


def _describe_unused(rest: list[str], used: list[str], held: dict[str, Content]) -> list[str]:
    """Return notes on the columns that are not used."""
    left_out = [name for name in rest if name not in used]
    if not left_out:
        return []
    said = {"dates": " (dates)", "text": " (text)", "names": " (too many different values)"}
    listed = ", ".join(f"{name or repr('')}{said.get(held.get(name, ''), '')}" for name in left_out)
    texts = [name for name in left_out if held.get(name) == "text"]
    other = f"data.text_column={texts[0]} trains on that text, " if texts else ""
    return [f"not used as features: {listed}; {other}data.feature_columns names others"]


def reveals_label(name: str, table: Table, beside: list[str]) -> bool:
    """Return whether a column may be row numbers or another label; y next to x is a coordinate."""
    if name == "y" and "x" in beside:
        return False
    return bool(name.lower() in _INDEX or name in table.class_names or _LABEL_LIKE.fullmatch(name))
