"""How far a trial is, as its folder tells."""

from pathlib import Path
from typing import Literal

from surelabel.errors import RunError
from surelabel.jobs.trial import Trial
from surelabel.overrides import dotted
from surelabel.runs.run_dir import RunDir

SHOWN_FIELDS = 3


def standing(trial: Trial, path: Path) -> Literal["new", "begun", "done"]:
    """Whether the run at `path` is still to begin, to go on, or done; an error if something else is there."""
    if RunDir(path).is_free:
        return "new"
    if not RunDir(path).has_begun:
        raise RunError(f"{path}: not empty, and not a run directory; move it away")
    run = RunDir.open(path)
    found = Trial(trial.cell, run.config())
    # The name leaves out where a run trains and where its data lie: these may be other ones.
    if found.name != trial.name:
        raise RunError(f"{path}: holds a run of another configuration: {_differences(found, trial)}; move it away")
    if not run.is_done:
        return "begun"
    run.metrics()  # what tables read: a run is not done if it cannot be read
    return "done"


def _differences(found: Trial, wanted: Trial) -> str:
    there, here = (dict(dotted(trial.config.model_dump(mode="json"))) for trial in (found, wanted))
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    texts = [f"{name} is {there.get(name)} there and {here.get(name)} here" for name in names[:SHOWN_FIELDS]]
    return ", ".join(texts) + ", ..." * (len(names) > SHOWN_FIELDS)
