"""Write the files of an export other than images."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.exporting.selection import Cleaned
from surelabel.files import write_csv, write_parquet
from surelabel.runs.decisions import REMOVE, UNSURE, Decision
from surelabel.runs.decisions_csv import write_decisions
from surelabel.runs.samples import TopK
from surelabel.verdicts.evidence import CHUNK_VALUES

README = """Cleaned labels, written by surelabel. Rows are in the order of the run's labels.parquet in every file,
without those that a person has removed; rows.npy has their positions there.

cleaned.csv, cleaned.parquet  id, label (after cleaning), given (by you, before any cleaning; of merged classes the name
                              that stayed), suggested, probability (of the suggestion), p_wrong (of the given label; at
                              least, where an earlier run changed it), decided_by (model, person or nobody), decided_at
                              (blank where an earlier run or review decided), split, changed. --labels reads label,
                              given and decided_by
decisions.csv                 id, label, decided_at, action (keep, relabel, remove or unsure) and by of the rows that
                              persons have decided on, and what annotators who disagree have decided (disagreement);
                              --trusted leaves out the rows with the action remove
removed.csv                   id, given, decided_at, by of the rows for which none of the classes fits
unsure.csv                    the same of rows that a person was unsure of: they stay, and somebody else should look
                              In csv files text that a spreadsheet would run as a formula, because it begins with one
                              of = + - @ and is no number, has a ' before it, which --labels and --trusted remove from
                              ids. Labels in cleaned.csv and decisions.csv are written as they are.
labels.npy, given_labels.npy  class numbers after and before cleaning; class_names.json has the names in the order of
                              the numbers. The model changes a label only if its suggestion is likely right (surelabel
                              export --help); other labels that look wrong (p_wrong of 0.5 or more) stay as given:
                              review them first.
keep_mask.npy                 False where the label is suspected to be wrong and no person has decided on it; belongs
                              to labels.npy
label_issues.csv              cleanlab's columns: is_label_issue, label_quality (1 - p_wrong), given_label,
                              predicted_label
pred_probs.npy                (N, K) probabilities of the trained network. It was trained on these rows: they are not
                              out of sample. With more than 32 classes only the 16 most probable ones are exact.
hf_labels.parquet             id, label and given as class labels of Hugging Face datasets
images/CLASS/NAME             the image folder, with --images; surelabel itself trains on copies, not on links
label_studio.json, label_studio.xml, fiftyone.json, label_issues.parquet (cleanlab), datalab/ and hf/ are written with
                              --format: docs/integrations.md
export.json                   rules, counts, expected number of right labels, time, and a hash of every file; needed
                              to undo the export

Train on the result:
    surelabel fit DATA --labels cleaned.csv --trusted decisions.csv

A column for a Hugging Face data set whose rows have an id:
    from datasets import Dataset
    cleaned = Dataset.from_parquet("hf_labels.parquet")
    label = dict(zip(cleaned["id"], cleaned["label"]))
    data = data.add_column("cleaned", [label[str(name)] for name in data["id"]])
    data = data.cast_column("cleaned", cleaned.features["label"])
"""


def write_tables(
    folder: Path,
    cleaned: Cleaned,
    probability: TopK,
    disputed: Mapping[str, Mapping[str, Decision]] | None = None,
) -> None:
    """Write all tables and arrays into an existing folder.

    `disputed` are the opinions of annotators who disagree, by id and name.
    """
    columns = cleaned.columns
    # Labels are byte for byte those of the data: programs match them with classes.
    _write_csv(folder / "cleaned.csv", columns, as_they_are=("label", "given", "suggested"))
    _write_cleaned_parquet(folder / "cleaned.parquet", cleaned)
    write_decisions(folder / "decisions.csv", cleaned.decisions, disputed)
    for name, action in (("removed.csv", REMOVE), ("unsure.csv", UNSURE)):
        rows = [(one.id, one.given, one.time, one.by) for one in cleaned.list_decisions(action)]
        write_csv(folder / name, ("id", "given", "decided_at", "by"), rows)
    _write_issues(folder / "label_issues.csv", cleaned)
    _write_hugging_face(folder / "hf_labels.parquet", cleaned)
    np.save(folder / "labels.npy", cleaned.numbers("label"))
    np.save(folder / "given_labels.npy", cleaned.numbers("given"))
    np.save(folder / "keep_mask.npy", cleaned.keep)
    _write_probability(folder / "pred_probs.npy", probability, cleaned.position)
    np.save(folder / "rows.npy", cleaned.position)
    names = json.dumps(list(cleaned.class_names), indent=2, ensure_ascii=False)
    (folder / "class_names.json").write_text(names + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(README, encoding="utf-8")


def _write_probability(path: Path, probability: TopK, rows: np.ndarray) -> None:
    """Write the (N, K) probabilities of rows as an array, some rows at a time."""
    shape, size = (len(rows), probability.num_classes), max(1, CHUNK_VALUES // probability.num_classes)
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(rows), size):
            probability.dense(rows[start : start + size]).tofile(file)


def _write_csv(path: Path, columns: Mapping[str, np.ndarray], as_they_are: Iterable[str] = ()) -> None:
    write_csv(path, tuple(columns), zip(*map(_cells, columns.values()), strict=True), as_they_are=as_they_are)


def _write_cleaned_parquet(path: Path, cleaned: Cleaned) -> None:
    import pyarrow as pa

    write_parquet(path, pa.table({name: pa.array(values.tolist()) for name, values in cleaned.columns.items()}))


def _write_issues(path: Path, cleaned: Cleaned) -> None:
    """Write the columns of `CleanLearning.get_label_issues`, with names instead of numbers."""
    columns = {
        "is_label_issue": ~cleaned.keep,
        "label_quality": 1 - cleaned.columns["p_wrong"].astype(np.float64),
        "given_label": cleaned.columns["given"],
        "predicted_label": cleaned.columns["suggested"],
    }
    _write_csv(path, columns)


def _write_hugging_face(path: Path, cleaned: Cleaned) -> None:
    """Write a table with the schema metadata in which `datasets` looks for class names."""
    import pyarrow as pa

    label = {"names": list(cleaned.class_names), "_type": "ClassLabel"}
    features = {"id": {"dtype": "string", "_type": "Value"}, "label": label, "given": label}
    table = pa.table(
        {
            "id": pa.array(cleaned.columns["id"].tolist(), pa.string()),
            **{name: pa.array(cleaned.numbers(name), pa.int64()) for name in ("label", "given")},
        }
    )
    described = json.dumps({"info": {"features": features}})
    write_parquet(path, table.replace_schema_metadata({"huggingface": described}))


def _cells(values: np.ndarray) -> list[Any]:
    """Format numbers with six digits; leave other values as they are."""
    return [f"{value:.6g}" for value in values] if values.dtype.kind == "f" else values.tolist()
