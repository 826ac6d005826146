"""Write a table as Markdown, csv and LaTeX."""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from surelabel.files import replace_text
from surelabel.paper.results import Entry, Summary, Table
from surelabel.paper.tables import RULES, Published, find_scale

Grid = list[list[str]]
_CAR = {"paper": "the paper's text", "code": "its authors' code"}


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write NAME.md, NAME.csv and NAME.tex into `folder`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = table_files(table.preset.name, folder)
    for path, form in zip(paths, _FORMATS.values(), strict=True):
        replace_text(path, form(table))
    return paths


def table_files(name: str, folder: Path) -> list[Path]:
    """Return the files of a table by the name of its preset."""
    return [folder / f"{name}.{suffix}" for suffix in _FORMATS]


def to_markdown(table: Table) -> str:
    """Return the table as in the paper, then every number by every rule."""
    head = f"# {table.preset.title}\n\nScale {table.scale}; ours trained with protocol {table.protocol}, "
    head += f"CAR as in {_CAR[table.car]}."
    legend = (
        f"Ours in percent, mean ± standard deviation over seeds (number of seeds), {RULES[table.rule]}; "
        "after the stroke the published number, and ours minus it. Empty: not run, or not published."
    )
    if not find_scale(table.scale).is_published:
        legend += " Published numbers are of the full protocol: "
        legend += "at this scale the order of methods compares, not the accuracy."
    grid, listing = (_markdown_table(rows) for rows in (_grid(table, _format_both), _listing(table)))
    return "\n\n".join([head, legend, grid, "## By every rule", listing]) + "\n"


def to_latex(table: Table) -> str:
    """Return the table as in the paper: our numbers, and the published ones in brackets."""
    rows = _grid(table, _format_latex)
    body = [" & ".join(map(_escape, row)) + r" \\" for row in rows]
    width = len(rows[0])
    lines = [
        f"% scale {table.scale}, protocol {table.protocol}, CAR as in {_CAR[table.car]}, {RULES[table.rule]}; "
        "in brackets as published, and ours minus it",
        rf"\begin{{tabular}}{{l{'c' * (width - 1)}}}",
        r"\toprule",
        body[0],
        r"\midrule",
        *body[1:],
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def to_csv(table: Table) -> str:
    """Return one line for each cell and measure."""
    rules = table.preset.rules
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = list(table.entries[0].cell) if table.entries else []
    ours = [f"{rule}_{part}" for rule in rules for part in ("mean", "std")]
    theirs = ["published_mean", "published_std", "published_protocol", "published_source", "published_note"]
    columns = ["table", *keys, "measure", "scale", "protocol", "car", "num_planned", "num_done", *ours, *theirs]
    writer.writerow([*columns, "difference", "also_published"])
    for entry in table.entries:
        writer.writerow(
            [
                table.preset.name,
                *(entry.cell[key] for key in keys),
                entry.measure.key,
                table.scale,
                table.protocol,
                table.car,
                entry.num_planned,
                entry.num_done,
                *(part for rule in rules for part in _summary_parts(entry.summaries[rule])),
                *_published_parts(entry),
                _number(entry.difference(table.rule)),
                "; ".join(
                    f"{_format_published(number)} ({number.protocol}, {number.source})"
                    for number in entry.published[1:]
                ),
            ]
        )
    return text.getvalue()


_FORMATS: dict[str, Callable[[Table], str]] = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


def _grid(table: Table, format_entry: Callable[[Entry, str], str]) -> Grid:
    """Return header and rows; each measure has its column."""
    preset = table.preset
    rows: dict[tuple[str, ...], None] = {}
    columns: dict[tuple[str, ...], None] = {}
    found = {}
    for entry in table.entries:
        row = tuple(entry.cell[key] for key in preset.rows)
        column = (*(entry.cell[key] for key in preset.columns), entry.measure.title)
        rows[row], columns[column] = None, None
        found[row, column] = format_entry(entry, table.rule)
    names_measure = len(preset.measures) > 1 or not preset.columns
    names = [" ".join(column if names_measure else column[:-1]) for column in columns]
    header = [*preset.rows, *names]
    return [header, *([*row, *(found.get((row, column), "") for column in columns)] for row in rows)]


def _listing(table: Table) -> Grid:
    rules = table.preset.rules
    keys = list(table.entries[0].cell) if table.entries else []
    header = [*keys, "measure", "seeds", *(RULES[rule] for rule in rules), "published", "whose protocol", "difference"]
    return [
        header,
        *(
            [
                *(entry.cell[key] for key in keys),
                entry.measure.title,
                f"{entry.num_done} of {entry.num_planned}",
                *(_format_summary(entry.summaries[rule]) for rule in rules),
                "; ".join(map(_format_published, entry.published)),
                "; ".join(number.protocol for number in entry.published),
                _signed(entry.difference(table.rule)),
            ]
            for entry in table.entries
        ),
    ]


def _markdown_table(rows: Grid) -> str:
    header, *rest = rows
    lines = [header, ["---"] * len(header), *rest]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def _format_both(entry: Entry, rule: str) -> str:
    ours, theirs = _format_summary(entry.summaries[rule]), _format_comparison(entry, rule)
    return f"{ours} / {theirs}".strip() if theirs else ours


def _format_latex(entry: Entry, rule: str) -> str:
    theirs = _format_comparison(entry, rule)
    return " ".join(filter(None, [_format_summary(entry.summaries[rule]), f"[{theirs}]" if theirs else ""]))


def _format_comparison(entry: Entry, rule: str) -> str:
    """Return the published number, and ours minus it."""
    theirs = _format_published(entry.published[0]) if entry.published else ""
    return ", ".join(filter(None, [theirs, _signed(entry.difference(rule))]))


def _format_summary(summary: Summary | None) -> str:
    if summary is None:
        return ""
    return f"{_format_mean(summary.mean, summary.std)} ({summary.num_seeds})"


def _format_published(number: Published) -> str:
    return number.note if number.mean is None else _format_mean(number.mean, number.std)


def _format_mean(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


def _summary_parts(summary: Summary | None) -> Sequence[str]:
    return ("", "") if summary is None else (_number(summary.mean), _number(summary.std))


def _published_parts(entry: Entry) -> Sequence[str]:
    if not entry.published:
        return ("",) * 5
    first = entry.published[0]
    return (_number(first.mean), _number(first.std), first.protocol, first.source, first.note)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def _escape(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%").replace("±", r"$\pm$")
