"""The runs of Figures 1 and 3: cross entropy with two schedules, and CAR, with the gradient's share of clean and false labels."""

from surelabel.jobs.trial import Trial
from surelabel.paper.tables.cifar_settings import car_setting
from surelabel.paper.tables.noises import SYMMETRIC
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Preset

DATA, NOISE = "cifar10", SYMMETRIC[1]


def trials(plan: Plan) -> list[Trial]:
    """The three columns of the figures. (c) of Figure 3 is CAL, which on CIFAR-10 is CAR: beta is 0."""
    scale = plan.scale
    by_steps = scale.optimiser.model_copy(update={"schedule": scale.multi_step})
    runs = {
        "cross_entropy_multi_step": ("cross_entropy", {}, by_steps),
        "cross_entropy_cosine": ("cross_entropy", {}, scale.optimiser),
        "car": ("car", car_setting(scale, DATA, NOISE).options(), scale.optimiser),
    }
    return [
        trial
        for training, (method, options, optimiser) in runs.items()
        for trial in plan.cifar_trials(
            {"training": training}, DATA, NOISE, method, options, optimiser=optimiser, gradient_share=True
        )[:1]  # a figure shows one run
    ]


MEMORISATION = Preset(
    "memorisation", "Figures 1 and 3: memorisation and gradients", trials, rows=("training",), columns=("data", "noise")
)
