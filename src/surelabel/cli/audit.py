"""`surelabel audit`; `fit` and `resume` print the same findings when they end."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import console
from surelabel.cli.options import Json, Run, Trust, app
from surelabel.cli.output import output_file
from surelabel.files import refuse_overwriting

if TYPE_CHECKING:
    from surelabel.verdicts import Audit
    from surelabel.verdicts.budget import Expected

NUM_SHOWN = 5
"""Rows that `fit` and `predict` show."""
NUM_CLASSES = 10
"""Classes with the most wrong labels that `audit` shows."""
AUDIT_COLUMNS = ("rank", "id", "given", "suggested", "p_wrong", "quality", "suggested_probability", "tau")
"""Columns of the ranked table that fit on a screen."""
SHORT_NAMES = {"suggested_probability": "p(suggested)", "p_wrong": "p(wrong)"}


@app.command()
def audit(
    run: Run,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Judge the labels of these new data of the same classes, without training."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Where to write. Default: RUN/audit.csv, or RUN/audit-NAME.csv with --data"
        ),
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Number of rows to show.")] = 20,
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Say what a review of the first N labels would find. Default: several lengths"
        ),
    ] = None,
    min_probability: Annotated[
        float, typer.Option(metavar="P", min=0, max=1, help="P(wrong) from which a label looks wrong.")
    ] = 0.5,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Rank the labels of a finished run by suspicion and estimate how many are wrong."""
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import audit

    opened = RunDir.open(run)
    name = "audit.csv" if data is None else f"audit-{Path(data).resolve().stem}.csv"
    file = output_file(out or run / name)
    if out is None and data is None:
        refuse_overwriting([file])
    else:  # only then: the readers of data load PyTorch
        from surelabel.config import DataConfig
        from surelabel.data.protected_files import list_input_files, refuse_overwriting_inputs

        refuse_overwriting_inputs([file], [opened], [] if data is None else list_input_files(DataConfig(source=data)))
    if data is None:
        table = audit(opened, min_probability=min_probability)
    else:
        from surelabel import api

        table = api.audit(opened, data=data, min_probability=min_probability, trust=trust)
    table.to_csv(file)
    plans = table.budgets() if budget is None else [table.expected(budget)]
    if json:
        content = {"csv": file, **table.summary(), "budgets": [plan.to_dict() for plan in plans]}
        console.say_json({**content, "top": list(table.head(top))})
        return
    say_ranked(table, top)
    console.say()
    say_findings(table)
    say_classes(table)
    say_plans(plans, table)
    console.say(f"\nAll {len(table):,} rows: {file}")


def say_findings(table: "Audit") -> None:
    """Print how many labels are wrong, what a review would find, and warnings."""
    limit = f"P(wrong) is {table.min_probability:g} or more"
    console.say(f"Labels that look wrong: {table.num_suspicious:,} of {len(table):,} ({limit})")
    for text in table.sentences():
        console.say_prose(text)
    for text in table.warnings:
        console.say_prose(f"Warning: {text}")


def say_ranked(table: "Audit", count: int) -> None:
    """Print the first rows of the ranked table."""
    has_tau = any(row["tau"] == row["tau"] for row in table.head(1))  # NaN if the method has none
    columns = [name for name in AUDIT_COLUMNS if name != "tau" or has_tau] + ["clean"] * ("clean" in table.columns)
    shown = [SHORT_NAMES.get(name, name) for name in columns]
    console.say_table(shown, [[row[name] for name in columns] for row in table.head(count)])


def say_classes(table: "Audit") -> None:
    """Print the classes with the largest fractions of wrong labels, and the most confused pairs."""
    rates = sorted(table.class_rates.items(), key=lambda item: -(item[1].rate or 0))[:NUM_CLASSES]
    shown = [[name, rate.num_labels, rate.rate, *(rate.interval or (None, None))] for name, rate in rates]
    left = len(table.class_names) - len(shown)
    console.say(
        f"\nWrong labels by given class{f' (the {len(shown)} worst; {left} more with --json)' if left else ''}:"
    )
    console.say_table(["given", "labels", "wrong", "at least", "at most"], shown)
    pairs = [[pair.given, pair.true, round(pair.num_labels), pair.share_of_given] for pair in table.confused_pairs()]
    if pairs:
        console.say("\nMost confused:")
        console.say_table(["given", "probably", "labels", "of given"], pairs)


def say_plans(plans: "Sequence[Expected]", table: "Audit") -> None:
    """Print what reviews of several lengths would find."""
    if not plans:
        return
    rows = [
        [
            plan.budget,
            f"{plan.num_wrong:,.0f} ({plan.low:,.0f} to {plan.high:,.0f})",
            _share(plan.precision, plan.precision_low, plan.precision_high),
            _share(plan.recall, plan.recall_low, plan.recall_high),
        ]
        for plan in plans
    ]
    console.say(f"\nHow far to look; the first {table.worth_a_look.budget:,} are worth it:")
    console.say_table(["look at the first", "wrong among them", "in %", "of all wrong ones, in %"], rows)


def _share(share: float, low: float, high: float) -> str:
    return f"{100 * share:.0f} ({100 * low:.0f} to {100 * high:.0f})"
