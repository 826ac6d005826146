"""The runs of figures that no table has: memorisation, confidence and sensitivity."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from surelabel.paper.tables.cifar_settings import PUBLISHED, SYMMETRIC, car_setting
from surelabel.paper.tables.cifar_tables import car_options
from surelabel.paper.tables.preset import CifarRow, Plan, cifar_preset
from surelabel.paper.tables.scales import CIFARS, Protocol, Scale

GRID: dict[str, tuple[float, ...]] = {
    "penalty_weight": (0.5, 10.0, 50.0),
    "reverse_weight": (0.0, 0.1, 0.3, 0.5),
    "correction_start": (20, 60, 100),
    "momentum": (0.7, 0.9, 0.99),
    "threshold": (0.0, 0.35, 0.65, 0.95),
}
"""lambda, beta, E_c, alpha and delta. The paper prints the values of delta as [0,0,0.35,0.65,0.95],
where the first is 0.0."""


def _multi_step(scale: Scale, *_: str) -> Protocol:
    by_steps = scale.protocol.optimiser.model_copy(update={"schedule": scale.multi_step})
    return replace(scale.protocol, optimiser=by_steps)


def _memorisation(_: Plan) -> Iterator[CifarRow]:
    """Yield the columns of Figures 1 and 3; CAL in 3 (c) is CAR, since beta is 0 on CIFAR-10."""
    base = CifarRow({}, "cross_entropy", [("cifar10", SYMMETRIC[1])], one_seed=True, gradient_share=True)
    yield replace(base, cell={"training": "cross_entropy_multi_step"}, protocol=_multi_step)
    yield replace(base, cell={"training": "cross_entropy_cosine"})
    yield replace(base, cell={"training": "car"}, method="car", options=car_options())


def _confidence(_: Plan) -> Iterator[CifarRow]:
    """Yield both data sets; 2 (b) is CIFAR-10 with a weight of 0, which is CAR in Table 1."""
    for data in CIFARS:
        for weight in GRID["reverse_weight"]:
            cell, options = {"reverse_weight": f"{weight:g}"}, car_options(reverse_weight=weight)
            yield CifarRow(cell, "car", [(data, SYMMETRIC[1])], options, one_seed=True)


def _sensitivity(plan: Plan) -> Iterator[CifarRow]:
    """Yield one row for each value of a hyper-parameter; cells show the value at this scale."""
    for data in CIFARS:
        for parameter, values in _scaled_grid(plan.scale, data).items():
            for value in values:
                cell, options = {"parameter": parameter, "value": f"{value:g}"}, car_options(**{parameter: value})
                yield CifarRow(cell, "car", [(data, SYMMETRIC[2])], options)


def _scaled_grid(scale: Scale, data: str) -> dict[str, tuple[float, ...]]:
    """Return the published values, with lambda and E_c in proportion to those of the scale."""
    setting = data, SYMMETRIC[2]
    ratio = car_setting(scale, *setting).penalty_weight / PUBLISHED[setting].penalty_weight
    scaled: dict[str, Callable[[float], float]] = {
        "penalty_weight": lambda value: round(value * ratio, 6),
        "correction_start": lambda value: scale.start_epoch(int(value)),
    }
    return {
        name: tuple(scaled[name](value) if name in scaled else value for value in values)
        for name, values in GRID.items()
    }


MEMORISATION = cifar_preset(
    "memorisation", "Figures 1 and 3: memorisation and gradients", _memorisation, rows=("training",)
)
CONFIDENCE = cifar_preset(
    "confidence",
    "Figures 2 and 4: confidence of clean and false labels by the weight of the reverse term",
    _confidence,
    rows=("reverse_weight",),
)
SENSITIVITY = cifar_preset(
    "sensitivity",
    "Figures 10 and 11: sensitivity of CAR to its hyper-parameters",
    _sensitivity,
    rows=("parameter", "value"),
)
