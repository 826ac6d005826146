"""Table 2: Clothing1M, reported at the best epoch on its clean validation set."""

from typing import Any

from surelabel.config import Batches, CosineRestarts, DataConfig, ModelConfig, OptimiserConfig
from surelabel.jobs.trial import Trial
from surelabel.paper.tables import original_protocols
from surelabel.paper.tables.cifar_settings import CLOTHING1M
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import BEST_CLEAN_VALIDATION, BEST_TEST, BEST_VALIDATION, LAST, Measure, Preset
from surelabel.paper.tables.real_world import own_or_shared

METHODS: dict[str, dict[str, Any]] = {
    "cross_entropy": {},
    "forward": {},
    "gce": {},
    "sl": {},
    "joint_optimization": {},
    "dmi": {},
    "elr": {"regularisation": 3.0, "momentum": 0.7},
    "elr_plus": {"average_decay": 0.9999},
    "dividemix": {"unlabelled_weight": 0.0, "mixup_alpha": 0.5, "warm_up": 1, "confidence_penalty": True},
    "car": CLOTHING1M.options(),
}
_SHARED = original_protocols.Original(
    400,
    64,
    OptimiserConfig(rate=0.02, momentum=0.9, weight_decay=0.001, schedule=CosineRestarts(period=10, min_rate=0.0001)),
    epoch=Batches(batches=2000, balanced=True),
)


def trials(plan: Plan) -> list[Trial]:
    """Every method, once."""
    data = DataConfig(source="clothing1m", root=plan.root("clothing1m"))
    model = ModelConfig(name="resnet50", weights="pretrained")
    return own_or_shared(METHODS, plan.protocol, original_protocols.CLOTHING1M, _SHARED, data, model)


TABLE2 = Preset(
    "table2",
    "Table 2: test accuracy on Clothing1M",
    trials,
    rows=("method",),
    measures=(Measure("top1", "test accuracy"),),
    rules=(BEST_CLEAN_VALIDATION, LAST, BEST_VALIDATION, BEST_TEST),
    published="table2",
    scales=("paper",),
    protocols=("car", "original"),
)
