"""A folder for the Hugging Face hub: parquet files with provenance columns, and a dataset card.

    datasets.load_dataset("OUT/hf")

Every row has its cleaned label, the given one, the suggestion, P(wrong), who decided and when.
Texts are included; images are with `--images copy`.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.exporting.dataset_card import make_card
from surelabel.exporting.material import Material

FOLDER = "hf"
ROWS_AT_ONCE = 500
CLASS_COLUMNS = {"label": "label", "given_label": "given", "suggested_label": "suggested"}
"""Columns of class labels, and where the cleaned table has them."""
VALUE_COLUMNS = {"p_wrong": "float64", "decided_by": "string", "decided_at": "string", "changed": "bool"}


def write(folder: Path, material: Material) -> None:
    """Write a parquet file per split, and the card."""
    place = folder / FOLDER / "data"
    place.mkdir(parents=True)
    split, token = np.array(material.names("split")), _token(material)
    stems = {name: f"{name}-{token}" for name in dict.fromkeys(split.tolist())}
    for name, stem in stems.items():
        _write_split(place / f"{stem}-00000-of-00001.parquet", material, np.flatnonzero(split == name))
    (folder / FOLDER / "README.md").write_text(make_card(material, stems), encoding="utf-8")


def _token(material: Material) -> str:
    """Return a hash of the rows: `datasets` caches by file name, and would show old ones."""
    digest = hashlib.sha256("\n".join([*material.ids, *material.names("label")]).encode())
    digest.update(material.p_wrong.tobytes())
    return digest.hexdigest()[:8]


def _write_split(path: Path, material: Material, rows: np.ndarray) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(material)
    with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE].tolist()
            columns = dict(_columns(material, part))
            writer.write_table(pa.Table.from_pydict(columns, schema=schema))


def _columns(material: Material, rows: list[int]) -> Iterator[tuple[str, list[Any]]]:
    columns, ids = material.cleaned.columns, [material.ids[row] for row in rows]
    yield "id", ids
    if material.texts is not None:
        yield "text", [material.texts.get(name) for name in ids]
    if _has_images(material) and material.files is not None:
        files = [material.files[name] for name in ids]
        yield "image", [{"bytes": file.read_bytes(), "path": file.name} for file in files]
    for name, source in CLASS_COLUMNS.items():
        yield name, material.cleaned.numbers(source)[rows].tolist()
    for name in VALUE_COLUMNS:
        yield (
            name,
            [columns[name][row].item() if hasattr(columns[name][row], "item") else columns[name][row] for row in rows],
        )


def _schema(material: Material) -> Any:
    """Return the schema with the metadata in which `datasets` looks for its features."""
    import pyarrow as pa

    label = {"names": list(material.cleaned.class_names), "_type": "ClassLabel"}
    fields: dict[str, Any] = {"id": pa.string()}
    features: dict[str, Any] = {"id": {"dtype": "string", "_type": "Value"}}
    if material.texts is not None:
        fields["text"], features["text"] = pa.string(), {"dtype": "string", "_type": "Value"}
    if _has_images(material):
        fields["image"] = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        features["image"] = {"_type": "Image"}
    for name in CLASS_COLUMNS:
        fields[name], features[name] = pa.int64(), label
    kinds = {"float64": pa.float64(), "string": pa.string(), "bool": pa.bool_()}
    for name, kind in VALUE_COLUMNS.items():
        fields[name], features[name] = kinds[kind], {"dtype": kind, "_type": "Value"}
    described = json.dumps({"info": {"features": features}})
    return pa.schema(list(fields.items()), metadata={"huggingface": described})


def _has_images(material: Material) -> bool:
    return material.has_images and material.files is not None
