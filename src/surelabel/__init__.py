"""surelabel: train on wrong labels, find them, correct them.

Importing this package is cheap: the names below load PyTorch on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"
"""The version; pyproject.toml and the documentation take it from here.

>>> import surelabel
>>> surelabel.__version__
'0...'
"""

if TYPE_CHECKING:
    from surelabel.api import audit as audit
    from surelabel.api import fit as fit
    from surelabel.api import load as load
    from surelabel.api import resume as resume
    from surelabel.config import RunConfig as RunConfig
    from surelabel.core.state import EMA as EMA
    from surelabel.core.state import SampleStore as SampleStore
    from surelabel.errors import SurelabelError as SurelabelError
    from surelabel.estimator import NoisyLabelClassifier as NoisyLabelClassifier
    from surelabel.methods.car import car_loss as car_loss
    from surelabel.methods.car import car_terms as car_terms
    from surelabel.models.indicator import add_indicator as add_indicator
    from surelabel.tuning import tune as tune

_HOME = {
    "EMA": "surelabel.core.state",
    "NoisyLabelClassifier": "surelabel.estimator",
    "RunConfig": "surelabel.config",
    "SampleStore": "surelabel.core.state",
    "SurelabelError": "surelabel.errors",
    "add_indicator": "surelabel.models.indicator",
    "audit": "surelabel.api",
    "car_loss": "surelabel.methods.car",
    "car_terms": "surelabel.methods.car",
    "fit": "surelabel.api",
    "load": "surelabel.api",
    "resume": "surelabel.api",
    "tune": "surelabel.tuning",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'surelabel' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
