"""What the commands say of a finished run."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from surelabel import screen
from surelabel.processes import is_further_process

if TYPE_CHECKING:
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import Audit, Expected

NUM_SHOWN = 5
"""Rows that `fit` and `predict` show."""
NUM_CLASSES = 10
"""Classes that `audit` shows."""
AUDIT_COLUMNS = ("rank", "id", "given", "suggested", "p_wrong", "quality", "suggested_probability", "tau")
"""What of the ranked table fits on a screen."""
SHORT = {"suggested_probability": "p(suggested)", "p_wrong": "p(wrong)"}


def report(run: "RunDir", seconds: float, json: bool) -> None:
    """What `fit` and `resume` say in the end."""
    if is_further_process():
        return
    from surelabel.verdicts import audit

    table, rows = audit(run), run.metrics()
    tested = [next(iter(row["tests"].values()))["top1"] for row in rows if row.get("tests")]
    result = {
        "run": run.path,
        "method": run.config().method.name,
        "epochs": rows[-1]["epoch"],
        "test_accuracy": tested[-1] if tested else None,
        "best_test_accuracy_oracle": max(tested, default=None),
        "measures": table.measures() or None,
        "rows": len(table),
        "suspicious": table.num_suspicious,
        "noise_rate": table.noise_rate.rate,
        "noise_interval": table.noise_rate.interval,
        "seconds": seconds,
    }
    if json:
        screen.say_json(result)
    else:
        _summarise(result, table, run)


def _summarise(result: dict[str, Any], table: "Audit", run: "RunDir") -> None:
    screen.say(f"\n{result['run']}: {result['method']}, {result['epochs']} epochs, {result['seconds']:.0f} s")
    if result["test_accuracy"] is not None:
        best = f"best epoch {result['best_test_accuracy_oracle']:.3f}, known only with the test labels"
        screen.say(f"Test accuracy: {result['test_accuracy']:.3f} in the last epoch ({best})")
    else:
        screen.say("Test accuracy: unknown; give test data with --test, or --set data.test_fraction=0.2")
    say_findings(table)
    screen.say("\nThe most suspicious:")
    say_ranked(table, NUM_SHOWN)
    path = shlex.quote(str(run.path))
    screen.say(f"\nNext:\n  surelabel report {path}     a page to look at")
    screen.say(f"  surelabel review {path}     go through the suspects")
    screen.say(f"  surelabel export {path}     the cleaned labels")


def say_findings(table: "Audit") -> None:
    """How many labels are wrong and what looking at some would bring, with what to doubt about it."""
    limit = f"P(wrong) is {table.min_probability:g} or more"
    screen.say(f"Labels that look wrong: {table.num_suspicious:,} of {len(table):,} ({limit})")
    for text in table.sentences():
        screen.say_prose(text)
    for text in table.warnings:
        screen.say_prose(f"Warning: {text}")


def say_ranked(table: "Audit", count: int) -> None:
    has_tau = any(row["tau"] == row["tau"] for row in table.head(1))
    columns = [name for name in AUDIT_COLUMNS if name != "tau" or has_tau] + ["clean"] * ("clean" in table.columns)
    shown = [SHORT.get(name, name) for name in columns]
    screen.say_table(shown, [[row[name] for name in columns] for row in table.head(count)])


def say_classes(table: "Audit") -> None:
    """The classes with the largest shares of wrong labels, and what these labels probably are."""
    rates = sorted(table.class_rates.items(), key=lambda item: -(item[1].rate or 0))[:NUM_CLASSES]
    shown = [[name, rate.num_labels, rate.rate, *(rate.interval or (None, None))] for name, rate in rates]
    left = len(table.class_names) - len(shown)
    screen.say(f"\nWrong labels by given class{f' (the {len(shown)} worst; {left} more with --json)' if left else ''}:")
    screen.say_table(["given", "labels", "wrong", "at least", "at most"], shown)
    pairs = [[pair.given, pair.true, round(pair.num_labels), pair.share_of_given] for pair in table.confused_pairs()]
    if pairs:
        screen.say("\nMost confused:")
        screen.say_table(["given", "probably", "labels", "of given"], pairs)


def say_plans(plans: "Sequence[Expected]") -> None:
    """What a review of some length would find."""
    rows = [[plan.budget, round(plan.num_wrong), plan.precision, plan.recall] for plan in plans]
    if rows:
        screen.say("\nA review of the first suspects:")
        screen.say_table(["look at", "wrong", "of those", "of all wrong"], rows)
