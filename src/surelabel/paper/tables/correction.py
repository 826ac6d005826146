"""The table of correction accuracy: how many targets end at the clean label. Its runs are those of CAR in Table 1."""

from surelabel.jobs.trial import Trial
from surelabel.paper.tables.cifar_settings import car_setting
from surelabel.paper.tables.noises import noises_of
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import CORRECTION, LAST, Preset
from surelabel.paper.tables.scales import CIFARS


def trials(plan: Plan) -> list[Trial]:
    """CAR on every data set, noise and seed."""
    return [
        trial
        for data in CIFARS
        for noise in noises_of(data)
        for trial in plan.cifar_trials(
            {"method": "car"}, data, noise, "car", car_setting(plan.scale, data, noise).options()
        )
    ]


CORRECTION_PRESET = Preset(
    "correction",
    "Correction accuracy on CIFAR-10 and CIFAR-100",
    trials,
    rows=("method",),
    columns=("data", "noise"),
    measures=(CORRECTION,),
    rules=(LAST,),
    published="correction",
)
