"""Runs on data whose labels are wrong by themselves: one seed, the paper's scale only."""

from typing import Any

from surelabel.config import DataConfig, MethodConfig, ModelConfig, OptimiserConfig, RunConfig, TrainConfig
from surelabel.jobs.trial import Trial
from surelabel.paper.tables.original_protocols import Original

SEED = 0


def own_or_shared(
    methods: dict[str, dict[str, Any]],
    protocol: str,
    originals: dict[str, Original],
    shared: Original,
    data: DataConfig,
    model: ModelConfig,
) -> list[Trial]:
    """One trial for each method; with the original protocol, only for those whose own is known and for CAR, whose own is shared."""
    known = {"car": {}, "original": originals}[protocol]
    left_out = {"car": set(), "original": set(methods) - set(originals) - {"car"}}[protocol]
    return [
        Trial({"method": method}, _run(method, options, known.get(method, shared), data, model))
        for method, options in methods.items()
        if method not in left_out
    ]


def _run(method: str, options: dict[str, Any], how: Original, data: DataConfig, model: ModelConfig) -> RunConfig:
    optimiser: OptimiserConfig = how.optimiser
    return RunConfig(
        data=data.model_copy(update={"epoch": how.epoch or "all"}),
        method=MethodConfig(name=method, options={**options, **how.options}),
        model=model,
        optimiser=optimiser,
        train=TrainConfig(epochs=how.epochs, batch_size=how.batch_size, seed=SEED),
    )
