"""`surelabel predict` and `surelabel audit`: what a finished run says."""

from pathlib import Path
from typing import Annotated

import typer

from surelabel import screen
from surelabel.cli.application import Json, Run, Trust, app
from surelabel.cli.summary import NUM_SHOWN, say_classes, say_findings, say_plans, say_ranked
from surelabel.errors import ConfigError


@app.command()
def predict(
    run: Run,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Inputs like those of the run; labels are not needed.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Where to write. Default: RUN/predictions-DATA.csv")
    ] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Classes, probabilities and confidence (tau) of new data."""
    from surelabel import api
    from surelabel.config import DataConfig
    from surelabel.data.input_files import input_files, refuse_losing
    from surelabel.predictions import FIXED_COLUMNS, class_column, predictions, write_csv
    from surelabel.runs.run_dir import RunDir

    refuse_losing(out, [RunDir.open(run)], input_files(DataConfig(source=data)))
    model, file = api.load(run, trust=trust), _file(out, run / f"predictions-{Path(data).resolve().stem}.csv")
    columns = predictions(model, data)
    write_csv(file, columns)
    num_rows, classes = len(columns["id"]), [class_column(name) for name in model.class_names]
    head = [{name: values[row] for name, values in columns.items()} for row in range(min(NUM_SHOWN, num_rows))]
    if json:
        screen.say_json({"csv": file, "rows": num_rows, "classes": model.class_names, "head": head})
        return
    shown = [name for name in FIXED_COLUMNS if name in columns]
    rows = [[*(row[name] for name in shown), max(row[name] for name in classes)] for row in head]
    screen.say_table([*shown, "probability"], rows)
    screen.say(f"{num_rows} rows, with a probability for each of {len(classes)} classes: {file}")


def _file(out: Path | None, default: Path) -> Path:
    """Where to write, if that is possible."""
    file = not_a_folder(out or default, "FILE.csv")
    if not file.parent.is_dir():
        raise ConfigError(f"--out {file}: there is no folder {file.parent}; expected FILE.csv in a folder that exists")
    return file


def not_a_folder(file: Path, expected: str) -> Path:
    """What --out names, if a file can be written there."""
    if file.is_dir():
        raise ConfigError(f"--out {file}: is a folder; expected {expected}")
    return file


@app.command()
def audit(
    run: Run,
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Where to write. Default: RUN/audit.csv")] = None,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Rows to show.")] = 20,
    budget: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Say what looking at the first N labels would find.")
    ] = None,
    min_probability: Annotated[
        float, typer.Option(metavar="P", min=0, max=1, help="P(wrong) from which a label looks wrong.")
    ] = 0.5,
    json: Json = False,
) -> None:
    """All labels of a finished run, the most suspicious first, and how many of them are wrong. Nothing is trained."""
    from surelabel.data.input_files import refuse_losing
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import audit

    refuse_losing(out, [RunDir.open(run)])
    table, file = audit(run, min_probability=min_probability), _file(out, run / "audit.csv")
    table.to_csv(file)
    plans = table.budgets() if budget is None else [table.expected(budget)]
    if json:
        content = {"csv": file, **table.summary(), "budgets": [plan.to_dict() for plan in plans]}
        screen.say_json({**content, "top": list(table.head(top))})
        return
    say_ranked(table, top)
    screen.say()
    say_findings(table)
    say_classes(table)
    say_plans(plans)
    screen.say(f"\nAll {len(table):,} rows: {file}")
