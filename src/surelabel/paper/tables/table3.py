"""Table 3: mini WebVision, tested on its own validation pictures and on those of ILSVRC12."""

from typing import Any

from surelabel.config import CosineRestarts, DataConfig, ModelConfig, OptimiserConfig
from surelabel.jobs.trial import Trial
from surelabel.paper.tables import original_protocols
from surelabel.paper.tables.cifar_settings import WEBVISION
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Measure, Preset
from surelabel.paper.tables.real_world import own_or_shared

METHODS: dict[str, dict[str, Any]] = {
    "d2l": {},
    "mentornet": {},
    "co_teaching": {},
    "incv": {},
    "elr": {"regularisation": 3.0, "momentum": 0.7},
    "dividemix": {"unlabelled_weight": 0.0, "mixup_alpha": 0.5, "warm_up": 1},
    "elr_plus": {},
    "car": WEBVISION.options(),
}
_SHARED = original_protocols.Original(
    500,
    32,
    OptimiserConfig(rate=0.02, momentum=0.9, weight_decay=0.0005, schedule=CosineRestarts(period=10, min_rate=0.001)),
)


def trials(plan: Plan) -> list[Trial]:
    """Every method, once."""
    options = {"ilsvrc12": plan.beside("ilsvrc12")}
    data = DataConfig(source="webvision", root=plan.root("webvision"), options=options)
    model = ModelConfig(name="timm:inception_resnet_v2")
    return own_or_shared(METHODS, plan.protocol, original_protocols.WEBVISION, _SHARED, data, model)


TABLE3 = Preset(
    "table3",
    "Table 3: top-1 and top-5 accuracy on mini WebVision and ILSVRC12",
    trials,
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
)
