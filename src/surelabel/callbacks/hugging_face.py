"""Record the training of a Hugging Face Trainer.

A TrainerCallback sees no logits, so `compute_loss` of the trainer is wrapped.
"""

import contextlib
from typing import Any

from surelabel.callbacks.recorder import Recorder
from surelabel.core.torchvision_import import import_torchvision
from surelabel.errors import DataError

with contextlib.suppress(ImportError):
    import_torchvision()  # which the trainer imports, too

COLUMN = "index"
"""The column of the training data with the position of each row."""


def record_trainer(trainer: Any, recorder: Recorder, column: str = COLUMN) -> Any:
    """Let a `transformers.Trainer` record its training, and return it.

    The training data need a column with the position of each row, such as
    `data.add_column("index", range(len(data)))`. It is not passed to the model. Evaluation is not
    recorded.

    >>> from surelabel.callbacks import Recorder, record_trainer
    >>> import tempfile, torch
    >>> from transformers import Trainer, TrainingArguments
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = torch.nn.Linear(2, 2)
    ...     def forward(self, x, labels=None):
    ...         logits = self.linear(x)
    ...         return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}
    >>> rows = [{"x": [float(n % 2), 1.0], "labels": n % 2, "index": n} for n in range(20)]
    >>> folder = tempfile.TemporaryDirectory()
    >>> options = TrainingArguments(
    ...     folder.name, num_train_epochs=2, use_cpu=True, disable_tqdm=True, report_to=[],
    ...     save_strategy="no", logging_strategy="no")
    >>> recorder = Recorder(len(rows))
    >>> trainer = record_trainer(Trainer(Model(), options, train_dataset=rows), recorder)
    >>> _ = trainer.train()  # doctest: +ELLIPSIS
    {'train_runtime': ...}
    >>> recorder
    Recorder(20 rows): 2 epochs, 20 rows seen
    >>> folder.cleanup()
    """
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise ImportError(f"record_trainer needs transformers ({error}): pip install 'surelabel[trainer]'") from error

    class _EndEpoch(TrainerCallback):  # type: ignore[misc]  # transformers has no types here
        def on_epoch_end(self, *_args: Any, **_named: Any) -> None:
            recorder.end_epoch()

    _keep_column(trainer, column)
    compute_loss = trainer.compute_loss

    def record(model: Any, inputs: dict[str, Any], return_outputs: bool = False, **named: Any) -> Any:
        index = inputs.pop(column, None)
        labels = inputs.get("labels")
        loss, outputs = compute_loss(model, inputs, return_outputs=True, **named)
        if model.training:
            if index is None or labels is None:
                missing = column if index is None else "labels"
                raise DataError(f"record_trainer: the training data have no {missing}; expected {column} and labels")
            recorder.see(index, _find_logits(outputs), labels)
        return (loss, outputs) if return_outputs else loss

    trainer.compute_loss = record
    trainer.add_callback(_EndEpoch())
    return trainer


def _keep_column(trainer: Any, column: str) -> None:
    """Keep the trainer from dropping a column that the model does not take."""
    trainer._set_signature_columns_if_needed()
    if column not in trainer._signature_columns:
        trainer._signature_columns.append(column)


def _find_logits(outputs: Any) -> Any:
    """Return the logits among the outputs of a model, as the trainer itself finds them."""
    if isinstance(outputs, dict):
        return outputs["logits"] if "logits" in outputs else next(v for k, v in outputs.items() if k != "loss")
    return outputs[1]
