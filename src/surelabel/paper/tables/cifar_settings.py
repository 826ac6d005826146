"""The hyper-parameters of CAR that the paper's appendix selects for each data set and noise."""

from dataclasses import dataclass, replace
from typing import Any

from surelabel.paper.tables.noises import ASYMMETRIC, BLOCK, SYMMETRIC
from surelabel.paper.tables.scales import NUM_CLASSES, Scale


@dataclass(frozen=True)
class CarSetting:
    """lambda, beta, E_c, alpha and delta, by the names of the method's options."""

    penalty_weight: float
    reverse_weight: float
    correction_start: int
    momentum: float = 0.9
    threshold: float = 0.0

    def options(self, **changes: Any) -> dict[str, Any]:
        """Options of the method, with `changes` over them."""
        return {**vars(self), **changes}


_EASY = CarSetting(0.5, 0.0, 60)
_HARD = CarSetting(10.0, 0.1, 60, threshold=0.95)
_HARDEST = CarSetting(50.0, 0.1, 60)
_SUPERCLASS = CarSetting(10.0, 0.1, 20)

PUBLISHED: dict[tuple[str, str], CarSetting] = {
    **{("cifar10", noise): _EASY for noise in (*SYMMETRIC, ASYMMETRIC)},
    **{("cifar100", noise): _HARD for noise in SYMMETRIC[:3]},
    ("cifar100", SYMMETRIC[3]): _HARDEST,
    **{("cifar100", noise): _SUPERCLASS for noise in (ASYMMETRIC, BLOCK)},
}
CLOTHING1M = CarSetting(50.0, 0.1, 60, momentum=0.8)
WEBVISION = CarSetting(50.0, 0.1, 200)


def car_setting(scale: Scale, data: str, noise: str) -> CarSetting:
    """The published setting, or what the scale makes of it."""
    published = PUBLISHED[data, noise]
    if scale.initial_gradient is None:
        return published
    return replace(
        published,
        penalty_weight=round(scale.initial_gradient * (NUM_CLASSES[data] - 1), 6),
        correction_start=scale.start_epoch(published.correction_start),
        threshold=0.0,
    )
