"""The tables of benchmarks/verdicts.py, and what is wanted of the audit at default settings."""

import statistics
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from verdict_data import CLASS, INPUTS, REAL

Row = dict[str, Any]

MUST_KNOW = ("digits", "cancer", "iris", "csv12", "embeasy")
"""Rows on which the audit must claim to know the rate of wrong labels."""
CLEAN, RANDOM = "digitsclean", "digitsrandom"
IMAGES = ("photos", "human")
FEATURES = ("news", "humanpatches")
"""Rows of about 10,000 x 400 features or more."""
COUNTED = ("AUROC ahead", "claims to know", "a third of errors gone")
"""Wishes that need not hold on every row: they are counted."""
ROUNDING = 5e-4

LEVELS = (0, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.01)
"""Ends of ranges of P(wrong)."""
COLUMNS: dict[str, Callable[[Row], str]] = {
    "data": lambda row: row["data"],
    "seed": lambda row: str(row["seed"]),
    "AUROC": lambda row: number(row["auroc"]),
    "cleanlab": lambda row: number(row["cleanlab"]) + ("*" if row["cleanlab_left_out"] else ""),
    "AP": lambda row: number(row["average_precision"]),
    "cleanlab's AP": lambda row: number(row["cleanlab_average_precision"]),
    "true rate": lambda row: percent(row["true_rate"]),
    "estimated": lambda row: percent(row["rate"], 0),
    "interval": lambda row: f"{percent(row['low'], 0)}-{percent(row['high'], 0)}",
    "off by": lambda row: percent(gap(row)),
    "holds": lambda row: "yes" if holds(row) else "NO",
    "claim": lambda row: row["claim"],
    "in doubt": lambda row: "yes" if row["in_doubt"] else "no",
    "calibration error": lambda row: number(row["calibration_error"]),
    "flagged": lambda row: str(row["flagged"]),
    "precision": lambda row: number(row["precision"], 2),
    "recall": lambda row: number(row["recall"], 2),
    "right before": lambda row: percent(row["right_before"]),
    "after export": lambda row: percent(row["right_after"]),
    "accept all": lambda row: percent(row["right_after_all"]),
    "seconds": lambda row: number(row["seconds"], 0),
    "of these verdict": lambda row: number(row["verdict_seconds"], 1),
}
MEANS = ("auroc", "cleanlab", "average_precision", "gap", "calibration_error", "precision", "recall")


def number(value: float | None, digits: int = 3) -> str:
    """Format a figure that may be unknown."""
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float, digits: int = 1) -> str:
    """Format a fraction as percent."""
    return f"{100 * value:.{digits}f}"


def gap(row: Row) -> float:
    """Return how far the estimated rate is from the true one."""
    return abs(float(row["rate"] - row["true_rate"]))


def holds(row: Row) -> bool:
    """Return whether the interval holds the true rate."""
    return bool(row["low"] - ROUNDING <= row["true_rate"] <= row["high"] + ROUNDING)


def gone(row: Row) -> float:
    """Return the fraction of wrong labels that default export removes."""
    return float(row["right_after"] - row["right_before"]) / max(row["true_rate"], 1e-9)


def header(names: list[str]) -> str:
    """Return the head of a Markdown table."""
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def as_line(cells: list[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def detail_line(row: Row) -> str:
    """Return the line of one data set and seed."""
    return as_line([show(row) for show in COLUMNS.values()])


def group(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the rows of all seeds by data set."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["data"], []).append(row)
    return found


def mean(rows: list[Row], name: str) -> float | None:
    """Return the mean of a figure over the seeds that have it."""
    values = [gap(row) if name == "gap" else row[name] for row in rows]
    values = [value for value in values if value is not None]
    return statistics.fmean(values) if values else None


def mean_table(rows: list[Row]) -> Iterator[str]:
    """Yield the table of means over seeds."""
    names = ["data", "seeds", "AUROC", "cleanlab", "AP", "off by", "calibration error", "precision", "recall"]
    yield header([*names, "intervals that hold", "claims to know", "right before", "after export", "seconds"])
    for data, own in group(rows).items():
        figures = {name: mean(own, name) for name in MEANS}
        yield as_line(
            [
                data,
                str(len(own)),
                *(number(figures[name]) if name != "gap" else percent(figures[name] or 0.0) for name in MEANS),
                f"{sum(map(holds, own))}",
                f"{sum(row['claim'] == 'known' for row in own)}",
                *(percent(statistics.fmean(row[name] for row in own)) for name in ("right_before", "right_after")),
                number(mean(own, "seconds"), 0),
            ]
        )


def by_level(p_wrong: Any, wrong: Any) -> list[list[float]]:
    """Return for each level the number of labels, their sum of P(wrong), and of wrong ones."""
    chosen = [(p_wrong >= low) & (p_wrong < high) for low, high in pairwise(LEVELS)]
    return [[float(rows.sum()), float(p_wrong[rows].sum()), float(wrong[rows].sum())] for rows in chosen]


def level_table(rows: list[Row]) -> Iterator[str]:
    """Yield what P(wrong) said and what was true, over all rows with and without doubt."""
    yield header(["doubt", *(f"{low:g} to {min(high, 1):g}" for low, high in pairwise(LEVELS))])
    for in_doubt in (False, True):
        own = [row["by_level"] for row in rows if row["in_doubt"] == in_doubt]
        if own:
            sums = [[sum(one[level][part] for one in own) for part in range(3)] for level in range(len(LEVELS) - 1)]
            cells = [f"{said / n:.2f}: {true / n:.2f} ({n:,.0f})" if n else "-" for n, said, true in sums]
            yield as_line(["yes" if in_doubt else "no", *cells])


def passed(is_good: bool | None) -> str:
    """Return pass or MISS; - if the wish does not apply."""
    return "-" if is_good is None else "pass" if is_good else "MISS"


def judge_row(data: str, own: list[Row]) -> dict[str, bool | None]:
    """Return which wishes one data set meets, by name, over its seeds."""
    known = [row for row in own if row["claim"] == "known"]
    ours, theirs = mean(own, "auroc"), mean(own, "cleanlab")
    precision, error, off = (mean(known, name) for name in ("precision", "calibration_error", "gap"))
    ranked = data != RANDOM and ours is not None and theirs is not None
    return {
        "AUROC >= cleanlab - .01": ours >= theirs - 0.01 if ranked else None,
        "AUROC ahead": ours > theirs if ranked else None,
        "claims to know": 2 * len(known) > len(own),
        "then off by <= 5 points": None if off is None else off <= 0.05,
        "then precision >= .75": None if precision is None else precision >= 0.75,
        "then calibration <= .08": None if error is None else error <= 0.08,
        "intervals hold": all(map(holds, own)),
        "export never worse": all(row["right_after"] >= row["right_before"] for row in own),
        "a third of errors gone": statistics.fmean(map(gone, own)) >= 1 / 3 if data not in (CLEAN, RANDOM) else None,
    }


def wanted(rows: list[Row]) -> Iterator[str]:
    """Yield the wishes by data set, then those over all."""
    judged = {data: judge_row(data, own) for data, own in group(rows).items()}
    if not judged:
        return
    names = list(next(iter(judged.values())))
    yield header(["data", *names])
    for data, results in judged.items():
        cells = ["no" if name in COUNTED and results[name] is False else passed(results[name]) for name in names]
        yield as_line([data, *cells])
    yield ""
    yield from overall(rows, judged)


def overall(rows: list[Row], judged: dict[str, dict[str, bool | None]]) -> Iterator[str]:
    """Yield the wishes over all data sets, with pass or MISS."""

    def met(name: str) -> list[str]:
        return [data for data, results in judged.items() if results[name]]

    def missed(name: str) -> list[str]:
        return [data for data, results in judged.items() if results[name] is False]

    def line(text: str, is_good: bool, figure: str) -> str:
        return f"- {text}: {passed(is_good)} ({figure})"

    for name in (
        "AUROC >= cleanlab - .01",
        "then off by <= 5 points",
        "then precision >= .75",
        "then calibration <= .08",
    ):
        yield line(f"{name}, on every row", not missed(name), ", ".join(missed(name)) or "none missed")
    ahead, behind = len(met("AUROC ahead")), len(missed("AUROC ahead"))
    yield line("AUROC ahead on two thirds", 3 * ahead >= 2 * (ahead + behind), f"{ahead} of {ahead + behind}")
    known = met("claims to know")
    lacking = [data for data in MUST_KNOW if data in judged and data not in known]
    figure = f"{len(known)}: {', '.join(known)}" + (f"; not on {', '.join(lacking)}" if lacking else "")
    yield line(f"claims to know on 8 rows, {', '.join(MUST_KNOW)} among them", len(known) >= 8 and not lacking, figure)
    yield from by_noise(rows, line)
    worse = [f"{row['data']} {row['seed']}" for row in rows if row["right_after"] < row["right_before"]]
    yield line("export never worse, on any row and seed", not worse, ", ".join(worse) or "none worse")
    better = met("a third of errors gone")
    yield line("a third of the errors gone on 8 rows", len(better) >= 8, f"{len(better)}: {', '.join(better)}")
    yield from special(rows, line)


def by_noise(rows: list[Row], line: Callable[[str, bool, str], str]) -> Iterator[str]:
    """Yield what is wanted of intervals and doubt, by what mistakes depend on."""
    for noise in (CLASS, INPUTS):
        own = [row for row in rows if row["noise"] == noise]
        if own:
            missed = [f"{row['data']} {row['seed']}" for row in own if not holds(row)]
            figure = f"{len(own) - len(missed)} of {len(own)}" + (f"; not {', '.join(missed)}" if missed else "")
            yield line(f"{noise}: intervals hold in 95 % of runs", len(missed) <= 0.05 * len(own), figure)
    real = [row for row in rows if row["noise"] == REAL]
    if real:
        missed = sorted({row["data"] for row in real if not holds(row)})
        yield line("real: intervals hold on all sets but one", len(missed) <= 1, ", ".join(missed) or "none missed")
    alarms = [f"{row['data']} {row['seed']}" for row in rows if row["noise"] == CLASS and row["in_doubt"]]
    total = sum(row["noise"] == CLASS for row in rows)
    figure = f"{len(alarms)} of {total}" + (f": {', '.join(alarms)}" if alarms else "")
    yield line("class: doubt in at most 10 % of runs", len(alarms) <= 0.1 * total, figure)
    for noise in (INPUTS, REAL):
        own = [row for row in rows if row["noise"] == noise]
        silent = [f"{row['data']} {row['seed']}" for row in own if not row["in_doubt"]]
        off = [
            name
            for name, row in zip(silent, (row for row in own if not row["in_doubt"]), strict=True)
            if gap(row) > 0.05
        ]
        if own:
            share = f"no doubt in {len(silent)} of {len(own)} runs"
            yield f"- {noise}: {share}, of which {len(off)} are off by over 5 points"


def special(rows: list[Row], line: Callable[[str, bool, str], str]) -> Iterator[str]:
    """Yield what is wanted of the sets without errors and with random labels, and of time."""
    by_data = group(rows)
    if CLEAN in by_data:
        most = max(row["flagged"] / row["rows"] for row in by_data[CLEAN])
        changed = max(row["changed"] for row in by_data[CLEAN])
        figure = f"{percent(most)} % flagged, {changed} changed"
        yield line("none wrong: at most 1 % flagged, none changed", most <= 0.01 and not changed, figure)
    if RANDOM in by_data:
        claims = [row["claim"] for row in by_data[RANDOM]]
        yield line("random labels: cannot tell", set(claims) == {"cannot tell"}, ", ".join(claims))
    for data in (name for name in IMAGES if name in by_data):
        timed = [row for row in by_data[data] if row["seconds"] and row["verdict_seconds"]]
        if timed:
            added = max(row["verdict_seconds"] / (row["seconds"] - row["verdict_seconds"]) for row in timed)
            yield line(f"the verdict adds at most 10 % on {data}", added <= 0.1, f"{percent(added)} %")
    for data in (name for name in FEATURES if name in by_data):
        seconds = [row["seconds"] for row in by_data[data] if row["seconds"]]
        if seconds:
            yield line(f"{data} in a minute", max(seconds) <= 60, f"{max(seconds):.0f} s")


def by_method(rows: list[Row]) -> Iterator[str]:
    """Yield the table of finished runs by method and noise, with means over runs."""
    yield header(
        ["method", "noise", "runs", "AUROC", "gap of the rate", "calibration error", "intervals that hold the truth"]
    )
    for data, own in sorted(group(rows).items()):
        method, noise = data.split(", ", 1)
        figures = [number(mean(own, name)) for name in ("auroc", "gap", "calibration_error")]
        yield as_line([f"`{method}`", noise, str(len(own)), *figures, str(sum(map(holds, own)))])
