"""The command `surelabel`: one module per command, and options.py for what they share.

PyTorch and other heavy packages are imported inside the commands, so that --help is fast.
"""

from surelabel.cli.audit import audit
from surelabel.cli.backbones import backbones
from surelabel.cli.demo import demo
from surelabel.cli.export import export
from surelabel.cli.figures import figures
from surelabel.cli.fit import fit
from surelabel.cli.gate import gate
from surelabel.cli.methods import methods
from surelabel.cli.noise import noise
from surelabel.cli.options import app
from surelabel.cli.plan import plan
from surelabel.cli.predict import predict
from surelabel.cli.report import report
from surelabel.cli.reproduce import reproduce
from surelabel.cli.resume import resume
from surelabel.cli.review import review
from surelabel.cli.settings import settings
from surelabel.cli.tune import tune
from surelabel.console import protect_outputs

__all__ = [
    "app",
    "audit",
    "backbones",
    "demo",
    "export",
    "figures",
    "fit",
    "gate",
    "main",
    "methods",
    "noise",
    "plan",
    "predict",
    "report",
    "reproduce",
    "resume",
    "review",
    "settings",
    "tune",
]


def main() -> None:
    """Run the command line."""
    protect_outputs()
    app(prog_name="surelabel")
