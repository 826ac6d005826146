"""Tasks for Label Studio: images or texts with the suggestion as a prediction.

label_studio.json is a list of tasks in Label Studio's JSON format, most suspicious first, and
label_studio.xml the labelling configuration that they need. The score of a prediction is the
probability that the given label is right: ordered by the lowest score, as Label Studio does for
uncertainty sampling, the suspects come first. Decisions of people are annotations.
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import surelabel
from surelabel.errors import DataError
from surelabel.exporting.material import Material

TASKS, CONFIG = "label_studio.json", "label_studio.xml"
CONTROL = "label"
LOCAL_FILES = "/data/local-files/?d="
"""Under this address Label Studio serves files below its document root."""


def write(folder: Path, material: Material) -> None:
    """Write the tasks and the labelling configuration."""
    kind, values = _inputs(material)
    tasks = [_task(material, row, kind, values) for row in material.by_suspicion()]
    text = json.dumps(tasks, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / TASKS).write_text(text + "\n", encoding="utf-8")
    (folder / CONFIG).write_text(_config(kind, material.cleaned.class_names), encoding="utf-8")


def _inputs(material: Material) -> tuple[str, dict[str, str]]:
    """Return the kind of inputs, and the value that a task has for each id."""
    if material.texts is not None:
        return "text", dict(material.texts)
    if material.files is None:
        raise DataError("--format label-studio: the inputs are neither image files nor texts")
    files = {name: path.resolve() for name, path in material.files.items()}
    # The document root is the folder that contains the data folder.
    root = Path(os.path.commonpath([str(path.parent) for path in files.values()])).parent
    return "image", {name: LOCAL_FILES + quote(path.relative_to(root).as_posix()) for name, path in files.items()}


def _task(material: Material, row: int, kind: str, values: dict[str, str]) -> dict[str, Any]:
    cleaned, name = material.cleaned, material.ids[row]
    if name not in values:
        raise DataError(f"--format label-studio: the row {name!r} has no {kind}")
    suggested = str(cleaned.columns["suggested"][row])
    data = {
        kind: values[name],
        "id": name,
        "given": str(cleaned.columns["given"][row]),
        "suggested": suggested,
        "p_wrong": round(float(material.p_wrong[row]), 6),
        "split": str(cleaned.columns["split"][row]),
    }
    prediction = {
        "model_version": f"surelabel {surelabel.__version__}",
        "score": round(1 - float(material.p_wrong[row]), 6),
        "result": [_choice(kind, suggested)],
    }
    task: dict[str, Any] = {"data": data, "predictions": [prediction]}
    if cleaned.columns["decided_by"][row] == "person":
        task["annotations"] = [{"result": [_choice(kind, str(cleaned.columns["label"][row]))]}]
    return task


def _choice(kind: str, name: str) -> dict[str, Any]:
    return {"from_name": CONTROL, "to_name": kind, "type": "choices", "value": {"choices": [name]}}


def _config(kind: str, class_names: tuple[str, ...]) -> str:
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, kind.capitalize(), {"name": kind, "value": f"${kind}"})
    ElementTree.SubElement(view, "Header", {"value": "Given: $given"})
    choices = ElementTree.SubElement(
        view, "Choices", {"name": CONTROL, "toName": kind, "choice": "single", "showInline": "true"}
    )
    for name in class_names:
        ElementTree.SubElement(choices, "Choice", {"value": name})
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"
