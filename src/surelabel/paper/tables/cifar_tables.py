"""Table 1: twelve methods on CIFAR-10 and CIFAR-100."""

from typing import Any

from surelabel.jobs.trial import Trial
from surelabel.paper.tables import original_protocols
from surelabel.paper.tables.cifar_settings import car_setting
from surelabel.paper.tables.noises import ASYMMETRIC, BLOCK, noises_of
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Preset
from surelabel.paper.tables.scales import CIFARS

METHODS = (
    "cross_entropy",
    "forward",
    "bootstrap",
    "gce",
    "joint_optimization",
    "nlnl",
    "sl",
    "dac",
    "self_ensemble",
    "sat",
    "elr",
    "car",
)
"""In the paper's order."""

_ELR_ASYMMETRIC = {"regularisation": 1.0, "momentum": 0.9}
_ELR_HUNDRED = {"regularisation": 7.0, "momentum": 0.9}
_JOINT_ASYMMETRIC = {"rate": 0.03, "prior_weight": 0.8, "entropy_weight": 0.4}
_HUNDRED = {"elr": _ELR_HUNDRED, "sl": {"forward_weight": 6.0, "reverse_weight": 0.1}}
_TUNED: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("cifar10", ASYMMETRIC): {"elr": _ELR_ASYMMETRIC, "joint_optimization": _JOINT_ASYMMETRIC},
    **{("cifar100", noise): _HUNDRED for noise in noises_of("cifar100")},
    **{("cifar100", noise): {**_HUNDRED, "joint_optimization": _JOINT_ASYMMETRIC} for noise in (ASYMMETRIC, BLOCK)},
}
"""Published settings that are not our defaults. The authors of ELR have 7 and 0.9 on CIFAR-100 for any noise."""
_AS_EVERYBODY: dict[str, dict[str, Any]] = {"nlnl": {"rate": None}}
"""With the protocol that all share, NLNL has its schedule too. Joint Optimization's high constant rate is the method itself."""


def method_options(plan: Plan, method: str, data: str, noise: str) -> dict[str, Any]:
    """What a method has beside the protocol."""
    tuned = {**_TUNED.get((data, noise), {}), "car": car_setting(plan.scale, data, noise).options()}
    return {**_AS_EVERYBODY.get(method, {}), **tuned.get(method, {})}


def trials(plan: Plan) -> list[Trial]:
    """Every method, data set, noise and seed."""
    one_cell = {"car": _with_one_protocol, "original": _with_its_own}[plan.protocol]
    return [
        trial
        for method in METHODS
        for data in CIFARS
        for noise in noises_of(data)
        for trial in one_cell(plan, method, data, noise)
    ]


def _with_one_protocol(plan: Plan, method: str, data: str, noise: str) -> list[Trial]:
    return plan.cifar_trials({"method": method}, data, noise, method, method_options(plan, method, data, noise))


def _with_its_own(plan: Plan, method: str, data: str, noise: str) -> list[Trial]:
    if method in _OWN_IS_CAR:
        return _with_one_protocol(plan, method, data, noise)
    own = original_protocols.CIFAR.get((method, data))
    if own is None or noise not in own.noises:
        return []
    options = {**method_options(plan, method, data, noise), **own.options}
    changes = {"optimiser": own.optimiser, "epochs": own.epochs, "batch_size": own.batch_size}
    return plan.cifar_trials({"method": method}, data, noise, method, options, **changes)


_OWN_IS_CAR = frozenset({"car"})

TABLE1 = Preset(
    "table1",
    "Table 1: test accuracy on CIFAR-10 and CIFAR-100",
    trials,
    rows=("method",),
    columns=("data", "noise"),
    published="table1",
    protocols=("car", "original"),
)
