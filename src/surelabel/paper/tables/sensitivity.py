"""The runs of Figures 10 and 11: one hyper-parameter of CAR at a time, 60 % symmetric noise."""

from collections.abc import Callable

from surelabel.jobs.trial import Trial
from surelabel.paper.tables.cifar_settings import PUBLISHED, car_setting
from surelabel.paper.tables.noises import SYMMETRIC
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Preset
from surelabel.paper.tables.scales import CIFARS

NOISE = SYMMETRIC[2]
GRID: dict[str, tuple[float, ...]] = {
    "penalty_weight": (0.5, 10.0, 50.0),
    "reverse_weight": (0.0, 0.1, 0.3, 0.5),
    "correction_start": (20, 60, 100),
    "momentum": (0.7, 0.9, 0.99),
    "threshold": (0.0, 0.35, 0.65, 0.95),
}
"""lambda, beta, E_c, alpha and delta. The paper prints the list of delta as [0,0,0.35,0.65,0.95]; the first is 0.0."""


def grid(plan: Plan, data: str) -> dict[str, tuple[float, ...]]:
    """The published values, with lambda and E_c in proportion to the scale's own."""
    ratio = car_setting(plan.scale, data, NOISE).penalty_weight / PUBLISHED[data, NOISE].penalty_weight
    in_proportion: dict[str, Callable[[float], float]] = {
        "penalty_weight": lambda value: round(value * ratio, 6),
        "correction_start": lambda value: plan.scale.start_epoch(int(value)),
    }
    return {
        name: tuple(in_proportion[name](value) if name in in_proportion else value for value in values)
        for name, values in GRID.items()
    }


def trials(plan: Plan) -> list[Trial]:
    """Every data set, hyper-parameter, value and seed; the value is the one that the run has."""
    return [
        trial
        for data in CIFARS
        for parameter, values in grid(plan, data).items()
        for value in values
        for trial in plan.cifar_trials(
            {"parameter": parameter, "value": f"{value:g}"},
            data,
            NOISE,
            "car",
            car_setting(plan.scale, data, NOISE).options(**{parameter: value}),
        )
    ]


SENSITIVITY = Preset(
    "sensitivity",
    "Figures 10 and 11: sensitivity of CAR to its hyper-parameters",
    trials,
    rows=("parameter", "value"),
    columns=("data", "noise"),
)
