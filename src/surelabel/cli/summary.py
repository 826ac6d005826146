"""What the commands say of a finished run."""

from typing import TYPE_CHECKING, Any

from surelabel import screen
from surelabel.processes import is_further_process

if TYPE_CHECKING:
    from surelabel.runs import RunDir
    from surelabel.verdicts import Audit

NUM_SHOWN = 5
"""Rows that `fit` and `predict` show."""
AUDIT_COLUMNS = ("rank", "id", "given", "suggested", "quality", "suggested_probability", "tau")
"""What of the ranked table fits on a screen."""


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
    say_suspicious(table)
    say_measures(table)
    screen.say("\nThe most suspicious:")
    say_ranked(table, NUM_SHOWN)
    screen.say(f"\nNext:\n  surelabel report {run.path}     a page to look at")
    screen.say(f"  surelabel review {run.path}     go through the suspects")
    screen.say(f"  surelabel export {run.path}     the cleaned labels")


def say_suspicious(table: "Audit") -> None:
    screen.say(f"Labels that look wrong: {table.num_suspicious} of {len(table)} (quality below 0.5)")
    if 2 * table.num_suspicious > len(table):
        screen.say_prose(
            "That is more than half. Perhaps the network has not learned the classes yet: train longer first."
        )


def say_measures(table: "Audit") -> None:
    """How good the verdict is, where the truth is known."""
    measured = table.measures()
    if measured:
        ranked = f"AUROC of quality {measured['quality_auroc']:.3f}; " if "quality_auroc" in measured else ""
        wrong, right = measured["wrong_labels"], measured["suggested_accuracy"]
        text = f"The true labels are known here: {wrong:.1%} are wrong; {ranked}suggestions are right in {right:.1%}"
        screen.say_prose(text.replace("%", " %"))


def say_ranked(table: "Audit", count: int) -> None:
    has_tau = any(row["tau"] == row["tau"] for row in table.head(1))
    columns = [name for name in AUDIT_COLUMNS if name != "tau" or has_tau] + ["clean"] * ("clean" in table.columns)
    shown = [name.replace("suggested_probability", "p(suggested)") for name in columns]
    screen.say_table(shown, [[row[name] for name in columns] for row in table.head(count)])
