"""The last table: CAR and cross entropy with three ways to estimate targets."""

from typing import Any

from surelabel.jobs.trial import Trial
from surelabel.paper.tables.ablation import NOISES
from surelabel.paper.tables.cifar_settings import CarSetting, car_setting
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Preset
from surelabel.paper.tables.scales import CIFARS

STRATEGIES: dict[str, dict[str, Any]] = {
    "car": {},
    "temporal_ensembling": {"targets": "temporal_ensembling"},
    "none": {"targets": "none"},
}
METHODS = ("car", "cross_entropy")


def _of_car(setting: CarSetting, strategy: str) -> dict[str, Any]:
    return setting.options(**STRATEGIES[strategy])


def _of_cross_entropy(setting: CarSetting, strategy: str) -> dict[str, Any]:
    """E_c and alpha as CAR has them; there is no confidence to compare with delta. Without estimation it is plain, as in Table 1."""
    estimated = {"targets": strategy, "correction_start": setting.correction_start, "momentum": setting.momentum}
    return {"none": {}}.get(strategy, estimated)


_OPTIONS = dict(zip(METHODS, (_of_car, _of_cross_entropy), strict=True))


def trials(plan: Plan) -> list[Trial]:
    """Every method, strategy, data set, noise and seed."""
    return [
        trial
        for method, options in _OPTIONS.items()
        for strategy in STRATEGIES
        for data in CIFARS
        for noise in NOISES[data]
        for trial in plan.cifar_trials(
            {"method": method, "strategy": strategy},
            data,
            noise,
            method,
            options(car_setting(plan.scale, data, noise), strategy),
        )
    ]


STRATEGIES_PRESET = Preset(
    "strategies",
    "Last table: CAR and cross entropy with different target estimation strategies",
    trials,
    rows=("method", "strategy"),
    columns=("data", "noise"),
    published="strategies",
)
