"""Write the method gallery: one page per method, an overview and a table for choosing one.

Everything comes from the method files and the leaderboard: the module docstring (equations, paper,
where we differ from the authors), `surelabel methods NAME` (options, passes, state) and
docs/results/leaderboard-*.csv. The pages are written into the source folder before Sphinx looks for
documents; git ignores them.
"""

import csv
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

NOISES = {"symmetric-40": "40 % symmetric", "pair-30": "30 % pair flip"}
KINDS = {
    "loss": "Losses",
    "correction": "Correction by a transition matrix",
    "label correction": "Label correction",
    "selection": "Selection",
    "regularisation": "Regularisation",
    "semi-supervised": "Semi-supervised",
}
Rows = dict[str, dict[str, str]]


def setup(app: Any) -> dict[str, Any]:
    """Register the generator with Sphinx."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(docs: Path) -> None:
    """Write all pages that have changed, and remove those of methods that no longer exist."""
    from surelabel.cli.methods import describe
    from surelabel.methods import names

    boards = {noise: read_board(docs / "results" / f"leaderboard-{noise}.csv") for noise in NOISES}
    methods = [describe(name) for name in names()]
    folder = docs / "methods"
    pages = {f"{method['name']}.md": method_page(method, boards) for method in methods}
    pages["index.md"] = gallery_page(methods, boards)
    for stale in {path.name for path in folder.glob("*.md")} - set(pages):
        (folder / stale).unlink()
    for name, text in pages.items():
        write_if_changed(folder / name, text)
    write_if_changed(docs / "how-to" / "method-table.inc", choice_tables(methods, boards))


def write_if_changed(path: Path, text: str) -> None:
    """Write a file at once, unless it has this content: Sphinx then reads it again."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def read_board(path: Path) -> Rows:
    """Read a leaderboard by method, and add the rank by test accuracy in the last epoch."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    for rank, name in enumerate(sorted(rows, key=lambda name: -float(rows[name]["test"])), start=1):
        rows[name]["rank"] = f"{rank} of {len(rows)}"
    return rows


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def passes(method: dict[str, Any]) -> str:
    """Return the passes of a step, as the leaderboard has them."""
    return f"{method['forward_passes']} + {method['backward_passes']}"


def method_page(method: dict[str, Any], boards: dict[str, Rows]) -> str:
    """Return the page of one method."""
    name, when = method["name"], method["when"]
    doc = import_module(f"surelabel.methods.{name}").__doc__ or ""
    heading, _, body = doc.strip().partition("\n")
    body = body.strip("\n").rstrip()  # an equation that comes first keeps its indent
    parts = [
        f"# {name}",
        f"**{heading.rstrip()}**",
        method["summary"],
        f"{published(method)} Kind: {method['kind']}.",
        f"## When to use it\n\n{when}" if when else "",
        f"```sh\nsurelabel fit DATA --method {name}\n```",
        f"## What it computes\n\n{link_decisions(body)}" if body else "",
        f"## Cost\n\n{cost(method)}",
        f"## Options\n\n{options(method)}",
        f"## Results on digits\n\n{results(name, boards)}",
        f"Source: `src/surelabel/methods/{name}.py`. [All methods](index.md).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def published(method: dict[str, Any]) -> str:
    """Return the reference to the paper."""
    if method["paper"] == "baseline":
        return "The baseline that every other method is compared with."
    text = f"Paper: {method['paper']}, {method['year']}."
    text = re.sub(r"docs/decisions/(\d{4})", lambda found: decision_link(found[1]), text)
    return re.sub(r"arXiv (\d{4}\.\d{4,5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text)


def link_decisions(text: str) -> str:
    """Turn mentions of decisions and of theory.md in a docstring into links."""
    text = re.sub(r"docs/decisions/(\d{4})", lambda found: decision_link(found[1]), text)
    return re.sub(r"docs/theory\.md", "[the page on theory](../theory.md)", text)


def decision_link(number: str) -> str:
    """Return a link to the decision of that number."""
    (page,) = (Path(__file__).parents[1] / "decisions").glob(f"{number}-*.md")
    return f"[decision {number}](../decisions/{page.name})"


def cost(method: dict[str, Any]) -> str:
    """Return what a step costs and what is stored."""
    state = [f"`{one['name']}` ({' x '.join(one['shape'])})" for one in method["state"]]
    rows = [
        ["Networks", str(method["networks"])],
        [
            "Passes over a batch in one step",
            f"{method['forward_passes']} forward, {method['backward_passes']} backward",
        ],
        ["Stages", ", ".join(method["stages"])],
        ["State per sample (N samples, K classes)", ", ".join(state) or "none"],
    ]
    return table(["", "with default options"], rows)


def options(method: dict[str, Any]) -> str:
    """Return the table of options, and what `surelabel tune` tries."""
    if not method["options"]:
        return "It has no options."
    rows = [
        [f"`{one['name']}`", one["type"], "by rule" if one["default"] is None else f"`{one['default']}`", one["help"]]
        for one in method["options"]
    ]
    first = method["options"][0]["name"]
    text = table(["option", "type", "default", "meaning"], rows)
    text += f"\n\nSet one with `--set method.{first}=VALUE`."
    if tried := method["candidates"]:
        values = "; ".join(
            f"`{name}` " + ", ".join("by rule" if value is None else str(value) for value in tries)
            for name, tries in tried.items()
        )
        text += f" [`surelabel tune`](../tune.md) tries {values}. {method['candidates_from']}"
    return text


def results(name: str, boards: dict[str, Rows]) -> str:
    """Return the rows of this method, of CAR and of cross entropy in both leaderboards."""
    head = ["noise", "method", "rank", "test, last epoch", "test, best epoch (oracle)", "AUROC of verdict", "memorised"]
    rows = []
    for noise, title in NOISES.items():
        for other in dict.fromkeys((name, "car", "cross_entropy")):
            if row := boards[noise].get(other):
                score = f"{float(row['test']):.3f} ± {float(row['std']):.3f}"
                shown = f"**{other}**" if other == name else f"[{other}]({other}.md)"
                more = [f"{float(row[key]):.3f}" for key in ("best_oracle", "auroc", "memorised")]
                rows.append([title, shown, row["rank"], score, *more])
    if not any(name in board for board in boards.values()):
        return "It is not in the leaderboard yet."
    note = (
        "1,438 digits, 100 epochs, three to five seeds, options as [the leaderboard](../results/index.md) chose them."
    )
    return f"{table(head, rows)}\n\n{note} Digits are small and easy; the page says what they do not show."


def gallery_page(methods: list[dict[str, Any]], boards: dict[str, Rows]) -> str:
    """Return the overview: the methods by kind, each with its summary and result."""
    parts = [
        "# Method gallery",
        f"{len(methods)} methods, one file and one page each. `--method NAME` trains with one; "
        "[Choose a method](../how-to/choose-a-method.md) says which.",
        "```{toctree}\n:hidden:\n\n" + "\n".join(method["name"] for method in methods) + "\n```",
    ]
    known = {method["kind"] for method in methods}
    for kind in [*(kind for kind in KINDS if kind in known), *sorted(known - set(KINDS))]:
        rows = [
            [f"[{one['name']}]({one['name']}.md)", str(one["year"]), one["summary"], passes(one), accuracy(one, boards)]
            for one in methods
            if one["kind"] == kind
        ]
        head = ["method", "year", "what it does", "passes", "digits, 40 % wrong"]
        parts.append(f"## {KINDS.get(kind, kind)}\n\n{table(head, rows)}")
    parts.append(
        "Passes: forward + backward passes of a network over a batch in one step. Last column: test accuracy "
        "in the last epoch with 40 % symmetric noise ([how it was measured](../results/index.md))."
    )
    return "\n\n".join(parts) + "\n"


def accuracy(method: dict[str, Any], boards: dict[str, Rows], noise: str = "symmetric-40") -> str:
    """Return the test accuracy in the last epoch."""
    row = boards[noise].get(method["name"])
    return f"{float(row['test']):.3f}" if row else ""


def choice_tables(methods: list[dict[str, Any]], boards: dict[str, Rows]) -> str:
    """Return the table for choosing, the best on digits first."""
    ordered = sorted(methods, key=lambda one: -sum(float(accuracy(one, boards, noise) or 0) for noise in NOISES))
    rows = [
        [
            f"[{one['name']}](../methods/{one['name']}.md)",
            one["when"],
            passes(one),
            ", ".join(f"{' x '.join(state['shape'])}" for state in one["state"]) or "none",
            *(accuracy(one, boards, noise) for noise in NOISES),
        ]
        for one in ordered
    ]
    return table(["method", "when", "passes", "state per sample", *NOISES.values()], rows) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    write_pages(Path(__file__).parents[1])
