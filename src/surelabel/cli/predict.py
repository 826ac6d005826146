"""`surelabel predict`: predict the classes of new data."""

from pathlib import Path
from typing import Annotated

import typer

from surelabel import console
from surelabel.cli.audit import NUM_SHOWN
from surelabel.cli.options import Json, Run, Trust, app
from surelabel.cli.output import output_file

TAU_MEANING = (
    "probability is that of the predicted class. tau says how much inputs like this one counted in training; it is "
    "not the probability that the prediction is right."
)


@app.command()
def predict(
    run: Run,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Inputs like those of the run; labels are not needed.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="File to write. Default: RUN/predictions-DATA.csv")
    ] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Predict the classes of new data, with a probability for each class."""
    from surelabel import api
    from surelabel.config import DataConfig
    from surelabel.data.protected_files import list_input_files, refuse_overwriting_inputs
    from surelabel.runs.run_dir import RunDir
    from surelabel.training.predictor import FIXED_COLUMNS, class_column, predictions, write_csv

    opened = RunDir.open(run)
    file = output_file(out or run / f"predictions-{Path(data).resolve().stem}.csv")
    refuse_overwriting_inputs([file], [opened], list_input_files(DataConfig(source=data)))
    model = api.load(run, trust=trust)
    columns = predictions(model, data)
    write_csv(file, columns)
    num_rows, classes = len(columns["id"]), [class_column(name) for name in model.class_names]
    head = [{name: values[row] for name, values in columns.items()} for row in range(min(NUM_SHOWN, num_rows))]
    if json:
        console.say_json({"csv": file, "rows": num_rows, "classes": model.class_names, "head": head})
        return
    shown = [name for name in FIXED_COLUMNS if name in columns]
    rows = [[*(row[name] for name in shown), max(row[name] for name in classes)] for row in head]
    console.say_table([*shown, "probability"], rows)
    if "tau" in shown:
        console.say_prose(TAU_MEANING)
    console.say(f"{num_rows} rows, with a probability for each of {len(classes)} classes: {file}")
