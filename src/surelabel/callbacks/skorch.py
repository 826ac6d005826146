"""Record the training of a skorch net."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from torch.utils.data.dataloader import default_collate

from surelabel.callbacks.recorder import Recorder
from surelabel.errors import DataError

try:
    from skorch.callbacks import Callback
except ImportError as error:
    raise ImportError(f"SkorchRecorder needs skorch ({error}): pip install 'surelabel[skorch]'") from error


class Rows(tuple[Any, ...]):
    """A batch that knows the positions of its rows in the data."""

    positions: Tensor


class _Indexed:
    """A data set whose items come with their position, also through subsets."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> tuple[int, Any]:
        inner: Any = self.dataset
        position = int(place)
        while isinstance(inner, Subset):
            inner, position = inner.dataset, int(inner.indices[position])
        return position, self.dataset[place]


class _Collate:
    def __init__(self, collate: Any) -> None:
        self.collate = collate or default_collate

    def __call__(self, items: list[tuple[int, Any]]) -> Rows:
        batch = Rows(self.collate([item for _, item in items]))
        batch.positions = torch.tensor([position for position, _ in items])
        return batch


class IndexedLoader(DataLoader[Any]):
    """A DataLoader whose batches know their rows: pass it to a net as `iterator_train`.

    >>> from surelabel.callbacks import IndexedLoader
    >>> loader = IndexedLoader([(0.5, 1), (0.25, 0), (0.75, 1)], batch_size=2)
    >>> [batch.positions.tolist() for batch in loader]
    [[0, 1], [2]]
    """

    def __init__(self, dataset: Any, collate_fn: Any = None, **named: Any) -> None:
        super().__init__(_Indexed(dataset), collate_fn=_Collate(collate_fn), **named)  # type: ignore[arg-type]


class SkorchRecorder(Callback):  # type: ignore[misc]  # skorch has no types
    """A callback that records the training of a skorch classifier.

    The net needs `iterator_train=IndexedLoader`. Rows are counted in the data passed to `fit`, and
    those of skorch's own validation split are never seen.

    >>> import numpy as np, torch
    >>> from skorch import NeuralNetClassifier
    >>> from surelabel.callbacks import IndexedLoader, Recorder, SkorchRecorder
    >>> x, y = np.eye(2, dtype=np.float32)[np.arange(20) % 2], np.arange(20) % 2
    >>> recorder = Recorder(len(y))
    >>> net = NeuralNetClassifier(
    ...     torch.nn.Linear(2, 2), criterion=torch.nn.CrossEntropyLoss, max_epochs=3,
    ...     train_split=None, iterator_train=IndexedLoader, callbacks=[SkorchRecorder(recorder)],
    ...     callbacks__print_log=None)
    >>> _ = net.fit(x, y)
    >>> recorder
    Recorder(20 rows): 3 epochs, 20 rows seen
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def on_batch_end(self, net: Any, batch: Any = None, training: bool = False, y_pred: Any = None, **_: Any) -> None:
        """Record a training batch."""
        if not training:
            return
        if not isinstance(batch, Rows):
            raise DataError("SkorchRecorder: the net needs iterator_train=surelabel.callbacks.IndexedLoader")
        outputs = y_pred[0] if isinstance(y_pred, tuple) else y_pred
        # With NLLLoss, skorch's default, modules return probabilities; otherwise logits.
        is_probability = isinstance(net.criterion_, nn.NLLLoss)
        tiny = torch.finfo(outputs.dtype).tiny
        self.recorder.see(batch.positions, outputs.clamp(min=tiny).log() if is_probability else outputs, batch[1])

    def on_epoch_end(self, _net: Any, **_: Any) -> None:
        """End an epoch."""
        self.recorder.end_epoch()
