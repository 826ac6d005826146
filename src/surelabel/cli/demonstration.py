"""`surelabel demo`."""

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from surelabel import screen
from surelabel.cli.application import Json, app
from surelabel.cli.stopping import saying_how_to_resume


@app.command()
def demo(
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of weights, order and noise.")] = 0,
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Fewer end sooner and show less.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the two runs in this new folder.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to draw. Default: surelabel-demo/memorisation.png")
    ] = None,
    json: Json = False,
) -> None:
    """Show the effect: cross entropy and CAR on digits with 40 % wrong labels, in less than a minute."""
    from surelabel import demo

    figure = figure or (out or Path("surelabel-demo")) / "memorisation.png"
    demo.check_places(out, figure)
    epochs = epochs or demo.EPOCHS
    runs, results = {}, {}
    with contextlib.ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="surelabel-demo-")))
        stack.enter_context(saying_how_to_resume(None))
        with screen.progress() as progress:
            for method in demo.METHODS:
                progress.title = demo.SHOWN_NAMES[method]
                runs[method] = demo.train(method, folder / method, seed, epochs, progress)
                results[method] = demo.figures(runs[method])
        noise = demo.noise_rate(runs["car"])
        demo.draw(runs, figure)
        memorised = {method: demo.memorised_over_epochs(run) for method, run in runs.items()}
    if json:
        screen.say_json({**results, "seed": seed, "noise": noise, "epochs": epochs, "figure": figure})
        return
    _show_demo(results, memorised, noise)
    screen.say(f"Figure: {figure}" + (f"   Runs: {out}" if out else ""))


def _show_demo(results: dict[str, dict[str, float]], memorised: dict[str, Any], noise: float) -> None:
    from surelabel import demo

    screen.say()
    names = [demo.SHOWN_NAMES[method] for method in results]
    rows = [(text, *(figures[key] for figures in results.values())) for key, text in demo.SHOWN_FIGURES.items()]
    screen.say_table(("", *names), rows)
    if screen.is_terminal():
        screen.say("\nWrong labels that the network repeats, from the first epoch to the last:")
        for method, shares in memorised.items():
            screen.say(f"  {demo.SHOWN_NAMES[method]:14s} {screen.sparkline(shares)}  {100 * shares[-1]:.0f} %")
    screen.say()
    for sentence in demo.story(results, noise):
        screen.say_prose(sentence)
    screen.say()
