"""The runs of Figures 2 (c) and 4: the confidence of clean and false labels on CIFAR-100 for several weights of the reverse term."""

from surelabel.jobs.trial import Trial
from surelabel.paper.tables.cifar_settings import car_setting
from surelabel.paper.tables.noises import SYMMETRIC
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Preset
from surelabel.paper.tables.scales import CIFARS
from surelabel.paper.tables.sensitivity import GRID

NOISE = SYMMETRIC[1]


def trials(plan: Plan) -> list[Trial]:
    """Both data sets; Figure 2 (b) is that of CIFAR-10 with a weight of 0, which is CAR in Table 1."""
    return [
        trial
        for data in CIFARS
        for weight in GRID["reverse_weight"]
        for trial in plan.cifar_trials(
            {"reverse_weight": f"{weight:g}"},
            data,
            NOISE,
            "car",
            car_setting(plan.scale, data, NOISE).options(reverse_weight=weight),
        )[:1]  # a figure shows one run
    ]


CONFIDENCE = Preset(
    "confidence",
    "Figures 2 and 4: confidence of clean and false labels by the weight of the reverse term",
    trials,
    rows=("reverse_weight",),
    columns=("data", "noise"),
)
