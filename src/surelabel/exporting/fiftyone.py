"""Fields for the samples of a FiftyOne dataset, as `Dataset.set_values` takes them.

    content = json.load(open("fiftyone.json"))
    for name, values in content["fields"].items():
        dataset.set_values(name, values, key_field=content["key_field"])

`mistakenness` is P(wrong): between 0 and 1, and high for labels that look wrong, like the field
that FiftyOne's `compute_mistakenness` adds. Samples are found by their id, if the rows are called
so, and otherwise by their file.
"""

import json
import re
from pathlib import Path
from typing import Any

from surelabel.errors import DataError
from surelabel.exporting.material import Material

FILE_NAME = "fiftyone.json"
_SAMPLE_ID = re.compile(r"[0-9a-f]{24}")


def write(folder: Path, material: Material) -> None:
    """Write the fields by sample."""
    key_field, keys = _keys(material)
    columns: dict[str, list[Any]] = {
        "mistakenness": [round(float(value), 6) for value in material.p_wrong],
        "given_label": material.names("given"),
        "suggested_label": material.names("suggested"),
        "cleaned_label": material.names("label"),
        "decided_by": material.names("decided_by"),
    }
    kind = material.of_audit("kind")
    if kind is not None:
        columns["issue"] = [str(one) for one in kind.tolist()]
    fields = {name: dict(zip(keys, values, strict=True)) for name, values in columns.items()}
    content = {"key_field": key_field, "classes": list(material.cleaned.class_names), "fields": fields}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / FILE_NAME).write_text(text + "\n", encoding="utf-8")


def _keys(material: Material) -> tuple[str, list[str]]:
    """Return the field by which samples are found, and its value for each row."""
    ids, files = material.ids, material.files
    if all(_SAMPLE_ID.fullmatch(name) for name in ids):
        return "id", ids
    if files is None or any(name not in files for name in ids):
        raise DataError("--format fiftyone: the rows are neither called by sample ids of FiftyOne nor image files")
    return "filepath", [str(files[name].resolve()) for name in ids]
