"""Audit the labels of any training loop: record its predictions, then ask for the verdict.

`Recorder` takes what a loop sees. `record_trainer` (Hugging Face), `LightningRecorder` and
`SkorchRecorder` call it from the loops of other packages, each with an extra of its own. Importing
this module loads nothing; its names load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surelabel.callbacks.hugging_face import record_trainer as record_trainer
    from surelabel.callbacks.lightning import LightningRecorder as LightningRecorder
    from surelabel.callbacks.recorder import Recorder as Recorder
    from surelabel.callbacks.skorch import IndexedLoader as IndexedLoader
    from surelabel.callbacks.skorch import SkorchRecorder as SkorchRecorder

_HOME = {
    "IndexedLoader": "surelabel.callbacks.skorch",
    "LightningRecorder": "surelabel.callbacks.lightning",
    "Recorder": "surelabel.callbacks.recorder",
    "SkorchRecorder": "surelabel.callbacks.skorch",
    "record_trainer": "surelabel.callbacks.hugging_face",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'surelabel.callbacks' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
