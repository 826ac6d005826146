"""Table 4: CAR without each of its three components.

On CIFAR-10 beta is 0, so CAR without the reverse term is CAR: two trials with one name, which run once and show twice.
"""

from typing import Any

from surelabel.jobs.trial import Trial
from surelabel.paper.tables.cifar_settings import car_setting
from surelabel.paper.tables.noises import SYMMETRIC, noises_of
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Preset
from surelabel.paper.tables.scales import CIFARS

VARIANTS: dict[str, dict[str, Any]] = {
    "car": {},
    "without_reverse_term": {"reverse_weight": 0.0},
    "without_target_estimation": {"targets": "none"},
    "without_indicator": {"confidence": "max_probability"},
}
NOISES = {data: noises_of(data, (SYMMETRIC[1], SYMMETRIC[3])) for data in CIFARS}


def trials(plan: Plan) -> list[Trial]:
    """Every variant, data set, noise and seed."""
    return [
        trial
        for variant, changes in VARIANTS.items()
        for data in CIFARS
        for noise in NOISES[data]
        for trial in plan.cifar_trials(
            {"variant": variant}, data, noise, "car", car_setting(plan.scale, data, noise).options(**changes)
        )
    ]


ABLATION = Preset(
    "ablation",
    "Table 4: influence of the three components of CAR",
    trials,
    rows=("variant",),
    columns=("data", "noise"),
    published="ablation",
)
