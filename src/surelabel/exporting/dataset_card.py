"""A dataset card in Markdown with the figures of the audit."""

from collections.abc import Mapping
from typing import Any

import surelabel
from surelabel.exporting.material import Material
from surelabel.verdicts.classes import Rate
from surelabel.verdicts.markdown import escape, table

SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
"""The hub's words for the number of rows."""
COLUMNS = (
    ("label", "class after cleaning"),
    ("given_label", "class before cleaning"),
    ("suggested_label", "the likeliest class by the audit"),
    ("p_wrong", "probability that the given label is wrong"),
    ("decided_by", "who chose the label: nobody (kept as given), model, or person"),
    ("decided_at", "when, if somebody did"),
    ("changed", "whether the label differs from the given one"),
)


def make_card(material: Material, splits: Mapping[str, str]) -> str:
    """Return README.md for the hub: metadata in YAML, then what the audit found.

    `splits` has the beginning of the file names of each split.
    """
    import yaml

    front = yaml.safe_dump(_metadata(material, splits), sort_keys=False, allow_unicode=True)
    lines = ["# Labels audited and cleaned with surelabel", "", *_introduction(material), ""]
    lines += ["## What the audit found", "", *(f"- {escape(text)}" for text in material.audit.sentences())]
    lines += [f"- Warning: {escape(text)}" for text in material.audit.warnings]
    lines += ["", "## Wrong labels by given class", "", *_classes(material)]
    lines += ["", "## Where labels come from", "", *_counts(material), "", "## Columns", ""]
    lines += table(("column", "meaning"), COLUMNS)
    return f"---\n{front}---\n\n" + "\n".join(lines) + "\n"


def _metadata(material: Material, splits: Mapping[str, str]) -> dict[str, Any]:
    size = next((word for most, word in SIZES.items() if len(material) < most), "n>1M")
    kind = "text" if material.texts is not None else "image" if material.files is not None else "tabular"
    files = [{"split": name, "path": f"data/{stem}-*.parquet"} for name, stem in splits.items()]
    return {
        "pretty_name": "Cleaned labels",
        "size_categories": [size],
        "task_categories": [f"{kind}-classification"],
        "tags": ["label-noise", "surelabel"],
        "configs": [{"config_name": "default", "data_files": files}],
    }


def _introduction(material: Material) -> list[str]:
    facts = material.facts or {}
    method = f", method `{facts['method']}`" if "method" in facts else ""
    return [
        f"{len(material):,} rows in {len(material.cleaned.class_names):,} classes. Every label has been judged by "
        f"surelabel {surelabel.__version__}{method}; the columns below say which labels were changed, and by whom."
    ]


def _classes(material: Material) -> list[str]:
    rows = [[name, f"{rate.num_labels:,}", *_rate(rate)] for name, rate in material.audit.class_rates.items()]
    return table(("given class", "labels", "estimated wrong", "95 % interval"), rows)


def _rate(rate: Rate) -> tuple[str, str]:
    if rate.rate is None or rate.interval is None:
        return "-", "-"
    low, high = rate.interval
    return f"{100 * rate.rate:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"


def _counts(material: Material) -> list[str]:
    rows = [[name.replace("_", " "), f"{count:,}"] for name, count in material.cleaned.counts().items()]
    return table(("rows", "number"), rows)
