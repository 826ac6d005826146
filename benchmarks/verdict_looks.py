"""What looks at labels settle: random samples drawn anew many times, for benchmarks/verdicts.py."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import verdict_targets

SIZES = (10, 25, 50, 100, 200)
"""Random labels that are looked at."""
NUM_SUSPECTS = 40
NUM_EXPORTS = 10
"""How many of the samples are also exported."""
NEAR = 0.05
GAIN = 0.02
"""Share of the labels that the best threshold must correct for export to be judged."""

Row = dict[str, Any]


def looks(run: Any, clean_by_id: dict[str, str], draws: int) -> Iterator[Row]:
    """Yield a line for each size: how often intervals hold, and how far estimates are off."""
    from surelabel.verdicts.audit import Auditor

    auditor = Auditor(run)
    names, columns = auditor.found.class_names, auditor.found.columns
    number = {name: place for place, name in enumerate(names)}
    clean = np.array([number.get(clean_by_id[str(id)], -3) for id in columns["id"]])
    wrong = columns["given"] != clean
    best = best_gain(auditor, clean)
    for size in (size for size in SIZES if 2 * size <= len(wrong)):
        rng = np.random.default_rng(size)
        rows = [
            draw(auditor, clean, wrong, rng.permutation(len(wrong))[:size], at < NUM_EXPORTS) for at in range(draws)
        ]
        found = {name: float(np.mean([row[name] for row in rows if name in row])) for name in rows[0]}
        yield {"looks": size, "best_gain": best, "true_rate": float(wrong.mean()), **found}
    yield {"looks": "suspects", "best_gain": best, "gain": after_suspects(auditor, clean, wrong)}


def draw(auditor: Any, clean: np.ndarray, wrong: np.ndarray, rows: np.ndarray, with_export: bool) -> Row:
    """Return how one sample turns out."""
    found = answered(wrong, rows, is_sample=True)
    after = auditor.updater.update(found)
    (low, high), size = after.interval(slice(None), 0.95), len(wrong)
    gap = abs(float(after.p_wrong.sum()) - wrong.sum()) / size
    row = {
        "holds": float(low - 0.5 <= wrong.sum() <= high + 0.5),
        "width": (high - low) / size,
        "gap": gap,
        "plain_gap": abs(wrong[rows].mean() - wrong.mean()),
        "near": float(gap <= NEAR),
    }
    return row | ({"gain": gain(auditor, found, clean)} if with_export else {})


def answered(wrong: np.ndarray, rows: np.ndarray, is_sample: bool) -> Any:
    """Return what a person who knows the truth answers."""
    from surelabel.verdicts.random_sample import Sample
    from surelabel.verdicts.reviewed import Answers

    decided = np.zeros(len(wrong), dtype=bool)
    decided[rows] = True
    none, every = np.zeros(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)
    sample = Sample(rows, wrong[rows], none, every, len(wrong), len(rows)) if is_sample else None
    return Answers(decided, wrong & decided, sample)


def gain(auditor: Any, answers: Any, clean: np.ndarray) -> float:
    """Return by how much default export raises the share of right labels, beside the answers."""
    from surelabel.verdicts.answers import NO_CLASS, Review
    from surelabel.verdicts.audit import assemble
    from surelabel.verdicts.corrections import Rules, accept

    labels = np.where(answers.is_decided, np.maximum(clean, NO_CLASS), NO_CLASS)
    audit = assemble(
        auditor.found,
        auditor.updater.update(answers),
        Review(answers, answers.is_decided, labels),
        is_updated=True,
        power=auditor.power,
        may_follow_inputs=auditor.may_follow_inputs,
    )
    names = np.array([*auditor.found.class_names, "(unknown class)"])
    truth = dict(zip(map(str, auditor.found.columns["id"]), names[np.where(clean < 0, -1, clean)], strict=True))
    right = np.array([truth[str(id)] for id in audit.columns["id"]])
    given, suggested, changed = audit.columns["given"], audit.columns["suggested"], accept(audit, Rules()).rows
    return float(((suggested == right)[changed].sum() - (given == right)[changed].sum()) / len(right))


def after_suspects(auditor: Any, clean: np.ndarray, wrong: np.ndarray) -> float:
    """Return the same after the first suspects were looked at."""
    rows = np.argsort(-auditor.calibration.p_wrong, kind="stable")[:NUM_SUSPECTS]
    return gain(auditor, answered(wrong, rows, is_sample=False), clean)


def best_gain(auditor: Any, clean: np.ndarray) -> float:
    """Return what accepting the first suggestions would gain with the best of all thresholds."""
    columns = auditor.found.with_p_wrong(np.ones(len(clean)))
    order = np.argsort(-auditor.calibration.p_wrong, kind="stable")
    change = (columns["suggested"] == clean).astype(float) - (columns["given"] == clean)
    change = np.where(columns["suggested"] == columns["given"], 0, change)
    return float(max(0, np.cumsum(change[order]).max()) / len(clean))


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table, then the goals."""
    names = ["data", "seed", "looks", "holds", "width", "off by", "a plain sample", "within 5 points"]
    yield verdict_targets.header([*names, "export gains", "best threshold"])
    for row in rows:
        cells = [f"{row[name]:.3f}" if name in row else "-" for name in ("holds", "width", "gap", "plain_gap", "near")]
        ends = [f"{row[name]:+.3f}" if name in row else "-" for name in ("gain", "best_gain")]
        yield verdict_targets.as_line([row["data"], str(row["seed"]), str(row["looks"]), *cells, *ends])
    yield ""
    yield from goals(rows)


def goals(rows: list[Row]) -> Iterator[str]:
    """Yield what is wanted of looks, with pass or MISS."""
    sampled = [row for row in rows if "holds" in row]
    for size in SIZES:
        own = [row for row in sampled if row["looks"] == size]
        if not own:
            continue
        held = float(np.mean([row["holds"] for row in own]))
        yield line(f"after {size} looks the interval holds in 95 % of the draws", held >= 0.95, f"{held:.3f}")
        behind = [name_of(row) for row in own if row["gap"] > row["plain_gap"]]
        yield line(f"after {size} looks nearer than a plain sample", not behind, listed(behind))
    last = [row for row in sampled if row["looks"] == SIZES[-1]]
    far = [name_of(row) for row in last if row["near"] < 0.9]
    yield line("after 200 looks within 5 points in 90 % of the draws", not far, listed(far))
    poor = [name_of(row) for row in last if row["best_gain"] >= GAIN and row["gain"] < row["best_gain"] / 2]
    yield line("after 200 looks export gains half of what the best threshold would", not poor, listed(poor))
    worse = [f"{name_of(row)} {row['looks']}" for row in rows if row.get("gain", 0) < 0]
    yield line("export after looks makes no set worse, on average", not worse, listed(worse))


def name_of(row: Row) -> str:
    """Return the data set and seed of a line."""
    return f"{row['data']} {row['seed']}"


def listed(names: list[str]) -> str:
    """Return the names of sets that miss a goal."""
    return ", ".join(names) or "none missed"


def line(text: str, is_good: bool, figure: str) -> str:
    """Return a goal with its outcome."""
    return f"- {text}: {'pass' if is_good else 'MISS'} ({figure})"
