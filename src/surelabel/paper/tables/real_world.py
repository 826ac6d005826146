"""Tables 2 and 3, on data with real label noise: Clothing1M and mini WebVision.

They have one seed, and only the scale of the paper.
"""

from collections.abc import Mapping
from typing import Any

from surelabel.config import Batches, CosineRestarts, DataConfig, ModelConfig, OptimiserConfig
from surelabel.jobs import Trial
from surelabel.paper.tables import original_protocols
from surelabel.paper.tables.cifar_settings import CAR_VERSIONS, CLOTHING1M, WEBVISION, as_in
from surelabel.paper.tables.preset import (
    BEST_CLEAN_VALIDATION,
    BEST_TEST,
    BEST_VALIDATION,
    LAST,
    TEST_ACCURACY,
    Measure,
    Plan,
    Preset,
    make_run,
)
from surelabel.paper.tables.scales import Protocol

_DIVIDEMIX = {
    "unlabelled_weight": 0.0,
    "only_partners": True,
    "mixup_alpha": 0.5,
    "warm_up": 1,
    "separate_warm_up": True,
}
_CLOTHING1M_METHODS: dict[str, dict[str, Any]] = {
    "cross_entropy": {},
    "forward": {},
    "gce": {},
    "sl": {},
    "joint_optimization": {},
    "dmi": {},
    "elr": {"regularisation": 3.0, "momentum": 0.7},
    "elr_plus": {"average_decay": 0.9999},
    "dividemix": {**_DIVIDEMIX, "confidence_penalty": True},
}
_CLOTHING1M_PROTOCOL = Protocol(
    400,
    64,
    OptimiserConfig(rate=0.02, momentum=0.9, weight_decay=0.001, schedule=CosineRestarts(period=10, min_rate=0.0001)),
    epoch=Batches(batches=2000, balanced=True),
)
_WEBVISION_METHODS: dict[str, dict[str, Any]] = {
    "d2l": {},
    "mentornet": {},
    "co_teaching": {},
    "incv": {},
    "elr": {"regularisation": 3.0, "momentum": 0.7},
    "dividemix": _DIVIDEMIX,
    "elr_plus": {},
}
_WEBVISION_PROTOCOL = Protocol(
    500,
    32,
    OptimiserConfig(rate=0.02, momentum=0.9, weight_decay=0.0005, schedule=CosineRestarts(period=10, min_rate=0.001)),
)


def _clothing1m(plan: Plan) -> list[Trial]:
    data = DataConfig(source="clothing1m", root=plan.root("clothing1m"))
    model = ModelConfig(name="resnet50", weights="pretrained")
    methods = {**_CLOTHING1M_METHODS, "car": CLOTHING1M.options(**as_in(plan.car, "clothing1m"))}
    protocols = _protocols(plan, methods, _CLOTHING1M_PROTOCOL, original_protocols.CLOTHING1M)
    return _make_trials(methods, protocols, data, model)


def _webvision(plan: Plan) -> list[Trial]:
    options = {"ilsvrc12": plan.extra_root("ilsvrc12")}
    data = DataConfig(source="webvision", root=plan.root("webvision"), options=options)
    model = ModelConfig(name="timm:inception_resnet_v2")
    methods = {**_WEBVISION_METHODS, "car": WEBVISION.options(**as_in(plan.car, "webvision"))}
    protocols = _protocols(plan, methods, _WEBVISION_PROTOCOL, original_protocols.WEBVISION)
    return _make_trials(methods, protocols, data, model)


def _protocols(
    plan: Plan, methods: Mapping[str, Any], shared: Protocol, originals: Mapping[str, Protocol]
) -> dict[str, Protocol]:
    """Return the protocol of each method; the original one of CAR is the shared one."""
    return {"car": dict.fromkeys(methods, shared), "original": {**originals, "car": shared}}[plan.protocol]


def _make_trials(
    methods: Mapping[str, Mapping[str, Any]],
    protocols: Mapping[str, Protocol],
    data: DataConfig,
    model: ModelConfig,
) -> list[Trial]:
    return [
        Trial({"method": method}, make_run(method, options, protocols[method], data, model))
        for method, options in methods.items()
        if method in protocols
    ]


TABLE2 = Preset(
    "table2",
    "Table 2: test accuracy on Clothing1M",
    _clothing1m,
    rows=("method",),
    measures=(TEST_ACCURACY,),
    rules=(BEST_CLEAN_VALIDATION, LAST, BEST_VALIDATION, BEST_TEST),
    published="table2",
    scales=("paper",),
    protocols=("car", "original"),
    car_versions=CAR_VERSIONS,
)
TABLE3 = Preset(
    "table3",
    "Table 3: top-1 and top-5 accuracy on mini WebVision and ILSVRC12",
    _webvision,
    rows=("method",),
    measures=(
        Measure("webvision_top1", "WebVision top-1"),
        Measure("webvision_top5", "WebVision top-5", metric="top5"),
        Measure("ilsvrc12_top1", "ILSVRC12 top-1", "ilsvrc12"),
        Measure("ilsvrc12_top5", "ILSVRC12 top-5", "ilsvrc12", "top5"),
    ),
    published="table3",
    scales=("paper",),
    protocols=("car", "original"),
    car_versions=CAR_VERSIONS,
)
