"""`surelabel review`: decide on suspicious labels on a local page."""

from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import console
from surelabel.cli.options import Run, app, warn_of_damage
from surelabel.files import refuse_overwriting

if TYPE_CHECKING:
    from surelabel.runs.decisions import Journal


@app.command()
def review(
    run: Run,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of the page; 0 chooses a free one.")
    ] = 0,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name to store with each decision. Default: your user name on this computer"),
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Decide independently of other annotators, whose decisions you see only after your own.",
        ),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Start with N labels drawn at random, which estimate how many are wrong."
        ),
    ] = None,
    accept_damage: Annotated[
        bool,
        typer.Option("--accept-damage", help="Accept the loss of decisions in a damaged decisions.jsonl, and exit."),
    ] = False,
) -> None:
    """Go through suspicious labels on a local page; decisions are kept in RUN/decisions.jsonl."""
    from surelabel import api
    from surelabel.reviewing.review import CSV_NAME
    from surelabel.reviewing.server import find_user, open_page, serve
    from surelabel.runs.decisions import DECIDED, FILE_NAME, Journal
    from surelabel.runs.run_dir import RunDir

    def announce(address: str) -> None:
        console.say(address)
        console.tell("the page is on this computer only; Ctrl-C ends it, and decisions are kept")
        if open_browser:
            open_page(address)

    run_dir = RunDir.open(run)
    if accept_damage:
        _accept(Journal(run / FILE_NAME, by or find_user()))
        return
    refuse_overwriting([run / CSV_NAME])  # it is written in the end
    warn_of_damage(run, Journal(run / FILE_NAME).damage())
    corpus = api.reopen_data(run_dir)
    journal = serve(run_dir, corpus, port, ready=announce, by=by, annotator=annotator, random=random)
    count = sum(decision.action in DECIDED for decision in journal.decisions().values())
    console.say(f"{count} label{'s'[: count != 1]} decided" + (f": {run / CSV_NAME}" if count else ""))
    for pair in journal.agreement():
        kappa = "not defined" if pair.kappa is None else f"{pair.kappa:.2f}"
        agreed = f"{pair.num_agreed} of {pair.num_rows}"
        console.say(f"{pair.one} and {pair.other} agree on {agreed} labels; Cohen's kappa: {kappa}")


def _accept(journal: "Journal") -> None:
    damage, count = journal.accept_damage(), len(journal.decisions())
    console.say(f"{journal.path}: {damage}: accepted" if damage else f"{journal.path}: is not damaged")
    console.say(f"{count:,} decision{'s'[: count != 1]} can be read")
