"""Record the training of a Lightning module."""

import contextlib
from collections.abc import Callable
from typing import Any

from surelabel.callbacks.recorder import Recorder
from surelabel.core.torchvision_import import import_torchvision
from surelabel.errors import DataError

with contextlib.suppress(ImportError):
    import_torchvision()  # which lightning imports, too
try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as error:
        raise ImportError(f"LightningRecorder needs lightning ({error}): pip install 'surelabel[lightning]'") from error

Unpack = Callable[[Any], tuple[Any, Any]]
"""Takes a batch, and returns the positions and the labels of its rows."""


def unpack_batch(batch: Any) -> tuple[Any, Any]:
    """Return index and label of a batch {"index": ..., "label": ...}, or (x, label, index)."""
    if isinstance(batch, dict):
        label = next((batch[name] for name in ("label", "labels", "y", "target") if name in batch), None)
        if "index" in batch and label is not None:
            return batch["index"], label
    elif isinstance(batch, list | tuple) and len(batch) == 3:
        return batch[2], batch[1]
    raise DataError(
        'LightningRecorder: expected batches (x, label, index) or {"label": ..., "index": ...}; '
        "otherwise pass unpack=, a function of a batch that returns index and label"
    )


class LightningRecorder(Callback):  # type: ignore[misc]  # lightning is not a dependency of ours
    """A callback that records the training of a Lightning module.

    `training_step` must return {"loss": loss, "logits": logits}. Batches are (x, label, index), or
    mappings with label and index; `unpack` finds index and label in others.

        trainer = lightning.Trainer(callbacks=[LightningRecorder(recorder)])

    The trainer then calls it after each batch:

    >>> import torch
    >>> from surelabel.callbacks import LightningRecorder, Recorder
    >>> recorder = Recorder(2)
    >>> batch, outputs = (torch.zeros(2, 5), [0, 1], [0, 1]), {"logits": torch.eye(2)}
    >>> LightningRecorder(recorder).on_train_batch_end(None, None, outputs, batch, 0)
    >>> recorder
    Recorder(2 rows): 1 epochs, 2 rows seen
    """

    def __init__(self, recorder: Recorder, unpack: Unpack = unpack_batch) -> None:
        self.recorder, self.unpack = recorder, unpack

    def on_train_batch_end(self, _trainer: Any, _module: Any, outputs: Any, batch: Any, _number: int) -> None:
        """Record a batch."""
        if not isinstance(outputs, dict) or "logits" not in outputs:
            raise DataError('LightningRecorder: training_step must return {"loss": loss, "logits": logits}')
        index, label = self.unpack(batch)
        self.recorder.see(index, outputs["logits"], label)

    def on_train_epoch_end(self, _trainer: Any, _module: Any) -> None:
        """End an epoch."""
        self.recorder.end_epoch()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return self.recorder.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.recorder.load_state_dict(state_dict)
