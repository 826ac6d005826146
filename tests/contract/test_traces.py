"""Numbers of every method at a fixed seed, recorded in traces/, so that a change shows in review.

On the processor and PyTorch of the recording everything is compared exactly; elsewhere only the
first step, to 1e-4, because sums in another order drift apart from there on. To record again:

    SURELABEL_RECORD_TRACES=1 pytest tests/contract/test_traces.py
"""

import hashlib
import json
import os
import platform
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel import methods
from surelabel.api import fit
from surelabel.console import Silent

pytestmark = pytest.mark.training

TRACES = Path(__file__).parent / "traces"
RECORD = "SURELABEL_RECORD_TRACES"
COLUMNS = ("quality", "suggested", "suggested_probability", "prediction", "given_probability", "first_learned", "tau")
FINAL = ("given_accuracy", "correction_accuracy", "tests")


class FirstStep(Silent):
    """Keeps the loss of the first step."""

    loss: float | None = None

    def step(self, _epoch, _batch, _num_batches, loss):
        self.loss = float(loss) if self.loss is None else self.loss


def fingerprint() -> dict:
    """Everything that affects the last bits."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    found = [
        re.search(rf"^{name}\s*: (.*)$", text, re.MULTILINE) for name in ("model name", "cpu family", "model", "flags")
    ]
    facts = "\n".join(one[1] for one in found if one)
    return {
        "processor": hashlib.sha256(facts.encode()).hexdigest()[:16] if facts else platform.processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def trace_of(settings: dict, out: Path) -> dict:
    """Train, and return the numbers to compare."""
    first = FirstStep()
    run = fit(settings, out, progress=first)
    rows, samples = run.metrics(), run.samples()
    return {
        "first_step": first.loss,
        "terms": [row["terms"] for row in rows],
        "final": {name: rows[-1][name] for name in FINAL if name in rows[-1]},
        "verdict": {name: samples[name].to_pylist() for name in COLUMNS},
    }


@pytest.mark.filterwarnings("default:recorded on another processor")
@pytest.mark.parametrize("name", methods.names())
def test_numbers_are_those_that_were_recorded(name, tiny, tmp_path):
    found, file = trace_of(tiny(name), tmp_path / "run"), TRACES / f"{name}.json"
    if os.environ.get(RECORD):
        content = {"fingerprint": fingerprint(), **found}
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content, indent=1).replace("\n   ", " ").replace("\n  ]", " ]") + "\n")
    recorded = json.loads(file.read_text())
    assert found["first_step"] == pytest.approx(recorded["first_step"], rel=1e-4), "the first step"
    if recorded.pop("fingerprint") != fingerprint():
        warnings.warn("recorded on another processor or PyTorch: only the first step is compared", stacklevel=1)
        return
    for part, values in recorded.items():
        assert found[part] == values, part


def test_every_recording_is_of_a_method():
    assert {file.stem for file in TRACES.glob("*.json")} == set(methods.names())
