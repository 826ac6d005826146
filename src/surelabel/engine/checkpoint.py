"""Save and restore a run: its position, and everything needed to resume it bit for bit."""

import shlex
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from surelabel.core.method import Method
from surelabel.core.stages import Pass, View
from surelabel.engine import distributed
from surelabel.engine.state_file import read_state, write_state
from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir

KEYS = {"modules", "optimiser", "position", "plan", "history", "notes", "best", "metrics", "precision", "random"}
"""What every state has."""


@dataclass
class Position:
    """The next batch to train on, by stage, epoch and pass, and the counters of this epoch."""

    finished: list[str] = field(default_factory=list)
    """Names of the stages that have ended."""
    stage: str = ""
    """The current stage; empty between stages."""
    epoch: int = 0
    """The current or last finished epoch of the stage, counted from 1."""
    run_epoch: int = 0
    """The same over all stages."""
    is_over: bool = False
    """Whether the stage has had its last epoch."""
    is_open: bool = False
    """Whether the epoch has begun and not ended."""
    pass_number: int = 0
    batch_number: int = 0
    num_samples: int = 0
    """Rows trained on in this epoch."""
    seconds: float = 0.0
    """Training time of this epoch in earlier processes."""


@dataclass
class Snapshot:
    """The content of a checkpoint besides modules, optimiser and random generators."""

    position: Position
    plan: list[Pass]
    history: list[dict[str, Any]]
    notes: dict[str, Any]
    best: dict[str, Any] | None
    """Score and networks of the stage's best epoch, for stages that keep it."""
    metrics: dict[str, Any]
    """What `Metrics.state` returned."""
    precision: dict[str, Any]
    """What the precision plugin of Fabric returned: the scale of 16-mixed."""


def pack_plan(plan: list[Pass]) -> list[dict[str, Any]]:
    """Turn a plan into plain data, with each step by the name of its function."""
    return [{"step": p.step.__name__, "views": {name: dict(vars(v)) for name, v in p.views.items()}} for p in plan]


def unpack_plan(packed: list[dict[str, Any]], method: Method) -> list[Pass]:
    """Turn plain data into a plan whose steps are those of `method`."""
    return [Pass(getattr(method, p["step"]), {name: View(**v) for name, v in p["views"].items()}) for p in packed]


def save(run_dir: RunDir, modules: dict[str, torch.nn.Module], optimiser: Any, snapshot: Snapshot) -> None:
    """Write the state; all ranks must call, because tables may be sharded, and the first writes."""
    state = {
        "modules": {name: module.state_dict() for name, module in modules.items()},
        "optimiser": None if optimiser is None else optimiser.state_dict(),
        "position": asdict(snapshot.position),
        "plan": pack_plan(snapshot.plan),
        "history": snapshot.history,
        "notes": snapshot.notes,
        "best": snapshot.best,
        "metrics": snapshot.metrics,
        "precision": snapshot.precision,
        "random": torch.get_rng_state(),
        "cuda_random": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    if distributed.is_first():
        run_dir.write_stream(run_dir.state_file.name, lambda file: write_state(file, state))


def load(run_dir: RunDir, device: torch.device, is_mapped: bool = False) -> dict[str, Any]:
    """Return the saved state as plain data; nothing in it is executed.

    If `is_mapped`, tensors are read from the file when they are used.
    """
    file, place = run_dir.state_file, shlex.quote(str(run_dir.path))
    if not file.exists():
        raise RunError(f"{run_dir.path}: no state to resume from; delete the folder and start again")
    remedy = f"restore it from a copy, or delete it and train from the beginning: surelabel resume {place}"
    run_dir.checked(file.name, remedy)
    try:
        state = read_state(file, device, is_mapped)
    except Exception as error:  # safetensors and the tree in its header have a dozen
        fault = " ".join(str(error).split()) or type(error).__name__
    else:
        if isinstance(state, dict) and state.keys() >= KEYS:
            return state
        fault = "parts of it are missing"
    raise RunError(f"{file}: not readable as resume state: {fault}; {remedy}")


def restore(state: dict[str, Any], modules: dict[str, torch.nn.Module], method: Method) -> Snapshot:
    """Load a state into the modules and the random generators; return the rest."""
    for name, module in modules.items():
        try:
            module.load_state_dict(state["modules"][name])
        except RuntimeError as error:  # the method kept other tables in the version that saved it
            fault = " ".join(str(error).split())
            raise RunError(f"the saved state does not fit this version; start a new run: {fault}") from None
    torch.set_rng_state(state["random"].cpu())
    if state["cuda_random"] and len(state["cuda_random"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([s.cpu() for s in state["cuda_random"]])
    return Snapshot(
        position=Position(**state["position"]),
        plan=unpack_plan(state["plan"], method),
        history=state["history"],
        notes=state["notes"],
        best=state["best"],
        metrics=state["metrics"],
        precision=state["precision"],
    )
