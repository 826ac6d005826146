"""The command `surelabel`. PyTorch and other heavy packages are imported inside the commands: --help is quick."""
# ruff: noqa: I001  (the order of imports is the order in which --help lists the commands)

from surelabel.cli.application import app
from surelabel.cli.demonstration import demo
from surelabel.cli.training import fit, plan, resume
from surelabel.cli.results import audit, predict
from surelabel.cli.reporting import report
from surelabel.cli.drawing import figures
from surelabel.cli.reviewing import review
from surelabel.cli.exporting import export
from surelabel.cli.reproducing import reproduce
from surelabel.cli.listing import methods
from surelabel.cli.noising import noise

__all__ = [
    "app",
    "audit",
    "demo",
    "export",
    "figures",
    "fit",
    "main",
    "methods",
    "noise",
    "plan",
    "predict",
    "report",
    "reproduce",
    "resume",
    "review",
]


def main() -> None:
    """The console entry point."""
    app(prog_name="surelabel")
