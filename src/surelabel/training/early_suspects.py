"""Suspects so far: what a run that is still training says about its labels.

Every few epochs of a long run the ten most suspicious labels and the estimated fraction of wrong
ones are shown and written to suspects.json. They come from the running mean of p(given), which the
engine keeps anyway: nothing is computed by the networks for it, and training does not change. The
verdict at the end of the run knows more, and the file is removed then.
"""

import json
import time
from typing import Any

import numpy as np

from surelabel.console import printable
from surelabel.data.corpus import Corpus
from surelabel.engine.loop import Engine, Progress
from surelabel.engine.record import SampleRecord
from surelabel.files import replace_text, unlisted
from surelabel.runs.run_dir import SUSPECTS_FILE, RunDir
from surelabel.verdicts.audit import CONFIDENCE, TOO_WIDE
from surelabel.verdicts.calibration import CurveCalibration
from surelabel.verdicts.evidence import TRAINED

EVERY = 5
"""Epochs between two looks."""
WAIT = 15.0
"""Seconds between two looks, at least: short runs end before anybody could read them."""
COUNT = 10


class EarlySuspects:
    """Shows and writes the suspects so far, at the end of epochs."""

    def __init__(self, run_dir: RunDir, corpus: Corpus, progress: Progress) -> None:
        self.run_dir, self.corpus, self.progress = run_dir, corpus, progress
        self.looked_at = time.monotonic()

    def after_epoch(self, engine: Engine) -> None:
        """Look, if it is time to; only the first process calls."""
        epoch = engine.position.run_epoch
        is_time = epoch % EVERY == 0 and time.monotonic() - self.looked_at >= WAIT
        if not is_time or epoch >= engine.num_epochs or not engine.record.visits.any():
            return
        found = find_suspects(engine.record, self.corpus, epoch, engine.num_epochs)
        replace_text(self.run_dir.path / SUSPECTS_FILE, json.dumps(found, indent=2, allow_nan=False) + "\n", unlisted)
        self.progress.warn(describe(found))
        self.looked_at = time.monotonic()


def find_suspects(record: SampleRecord, corpus: Corpus, epoch: int, num_epochs: int) -> dict[str, Any]:
    """Return the labels with the smallest mean p(given), and the estimated rate of wrong ones."""
    train, names = corpus.train, corpus.class_names
    quality = record.mean_given_probability.double().cpu().numpy()
    given, prediction = train.label.numpy(), record.prediction.cpu().numpy()
    is_open = record.visits.cpu().numpy() > 0
    if train.trusted is not None:
        is_open &= ~train.trusted.numpy()
    columns = {
        "quality": quality,
        "verdict": np.where(is_open, TRAINED, "trusted"),
        "first_learned": record.first_learned.cpu().numpy(),
    }
    calibration = CurveCalibration.fit(columns)
    rate, interval = _estimate_rate(calibration)
    p_wrong = None if rate is None else calibration.p_wrong
    open_rows = np.flatnonzero(is_open)
    order = open_rows[np.argsort(quality[open_rows], kind="stable")][:COUNT]
    suspects = [
        {
            "id": str(train.ids[row]),
            "given": names[given[row]],
            "predicted": names[prediction[row]],
            "mean_given_probability": float(quality[row]),
            "p_wrong": None if p_wrong is None else float(p_wrong[row]),
        }
        for row in order
    ]
    about = {"epoch": epoch, "epochs": num_epochs, "noise_rate": rate, "noise_interval": interval}
    return {**about, "suspects": suspects}


def _estimate_rate(calibration: CurveCalibration) -> tuple[float | None, list[float] | None]:
    """Return the fraction of wrong labels and its interval; None where an audit could not tell."""
    size = len(calibration.p_wrong)
    low, high = (count / size for count in calibration.interval(slice(None), CONFIDENCE))
    if not calibration.is_separated or high - low > TOO_WIDE:
        return None, None
    return float(calibration.p_wrong.mean()), [low, high]


def describe(found: dict[str, Any]) -> str:
    """Return the suspects so far as text, one line each."""
    rate = found["noise_rate"]
    how_many = "how many labels are wrong is not known yet"
    if rate is not None:
        low, high = found["noise_interval"]
        how_many = f"about {100 * rate:.0f} % of the labels are wrong (between {100 * low:.0f} and {100 * high:.0f} %)"
    lines = [f"suspects so far, epoch {found['epoch']} of {found['epochs']}: {how_many}; the most suspicious:"]
    for suspect in found["suspects"]:
        is_learned = suspect["predicted"] == suspect["given"]
        now = "learned late" if is_learned else f"predicted {suspect['predicted']}"
        lines.append(printable(f"  {suspect['id']}: given {suspect['given']}, {now}", keep=""))
    return "\n".join(lines)
