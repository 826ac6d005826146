"""Measures: accuracy, memorisation, gradient shares. Only they, in training, see clean labels."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from surelabel.core.batch import Batch, Outputs
from surelabel.core.collective import total
from surelabel.core.method import Method
from surelabel.core.stages import View
from surelabel.core.tables import ClassTable
from surelabel.data.loader import Loader

Result = TypeVar("Result")
AS_IT_IS = View(augment=False)


def share(mask: Tensor) -> float:
    """Return the exact fraction of entries that are true."""
    return int(mask.sum()) / max(mask.numel(), 1)


def exact_dtype(device: torch.device) -> torch.dtype:
    """Return the widest float type of a device, for sums over many steps."""
    return torch.float32 if device.type == "mps" else torch.float64


@torch.no_grad()
def in_eval_mode(method: Method, work: Callable[[], Result], train_mode: bool = False) -> Result:
    """Call `work` without gradient, by default in evaluation mode, and restore the mode."""
    was_training = method.training
    method.train(train_mode)
    try:
        return work()
    finally:
        method.train(was_training)


class SinglePredictions:
    """Notes what each network says while a method predicts, at no further forward pass."""

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        self._logits: dict[str, list[Tensor]] = {}
        self._is_open = False
        for name, network in networks.items():
            network.register_forward_hook(partial(self._keep, name))

    def _keep(self, name: str, _module: nn.Module, _args: Any, outputs: Outputs) -> None:
        if self._is_open and isinstance(outputs, Outputs):
            self._logits.setdefault(name, []).append(outputs.logits)

    def collect(self, method: Method, loader: Loader) -> tuple[Tensor, dict[str, Tensor]]:
        """Return (N, K) probabilities of a method, and of its networks if it asks several.

        Only the first K outputs of a network count: a further one is no class.
        """
        self._is_open = True
        try:
            whole = in_eval_mode(method, lambda: loader.collect(lambda batch: self._predict(method, batch), AS_IT_IS))
        finally:
            self._is_open = False
        together, *others = whole.float().unbind(1)
        return together, dict(zip(self._names, others, strict=True))

    def _predict(self, method: Method, batch: Batch) -> Tensor:
        """Return (B, 1 + n, K): the method's prediction, and those of its n networks if n > 1."""
        self._logits.clear()
        together = method.predict(batch.x)
        num_classes = together.shape[1]
        found = {name: one[0][:, :num_classes].softmax(1) for name, one in self._logits.items() if len(one) == 1}
        self._names = list(found) if len(found) > 1 else []
        return torch.stack([together, *(found[name] for name in self._names)], 1)


def accuracies(probability: Tensor, label: Tensor) -> dict[str, float]:
    """Return top-1 accuracy, and top-5 accuracy where there are more than five classes."""
    label = label.to(probability.device)
    result = {"top1": share(probability.argmax(1) == label)}
    if probability.shape[1] > 5:
        result["top5"] = share((probability.topk(5, 1).indices == label[:, None]).any(1))
    return result


def memorisation(prediction: Tensor, given: Tensor, clean: Tensor) -> dict[str, dict[str, float]]:
    """Return how clean and false labels are predicted, as fractions (the paper's Figure 1)."""
    false = given != clean
    right, memorised = prediction == clean, prediction == given
    result = {}
    if (~false).any():
        result["clean_labels"] = {
            "correct": share(right[~false]),
            "wrong": share(~right[~false]),
        }
    if false.any():
        result["false_labels"] = {
            "correct": share(right[false]),
            "memorised": share(memorised[false]),
            "other": share((~right & ~memorised)[false]),
        }
    return result


def current_stores(method: Method) -> list[ClassTable]:
    """Return the tables whose sum the loss aims at now."""
    return [table.store for table in method.target_tables() if table.is_current]


class GradientShare:
    """L1 norms of the gradient at the logits, of clean and false labels (the paper's Figure 3)."""

    def __init__(self, networks: list[nn.Module], is_false: Tensor) -> None:
        self.is_false = is_false
        self.sums = torch.zeros(2, dtype=exact_dtype(is_false.device), device=is_false.device)
        self._logits: list[Tensor] = []
        for network in networks:
            network.register_forward_hook(self._keep)

    def _keep(self, _module: nn.Module, _args: Any, outputs: Outputs) -> None:
        if isinstance(outputs, Outputs) and outputs.logits.requires_grad:
            outputs.logits.retain_grad()
            self._logits.append(outputs.logits)

    def after_backward(self, batch: Batch, is_mixed: bool = False) -> None:
        """Add a step; mixed rows, which have two labels, and rows of other batches do not count."""
        for logits in self._logits:
            if logits.grad is not None and len(logits) == batch.num_rows and not is_mixed:
                norm = logits.grad.abs().sum(1).to(self.sums.dtype) * batch.weight
                false = self.is_false[batch.index] & (batch.index >= 0)
                self.sums += torch.stack([norm[~false].sum(), norm[false].sum()])
        self._logits.clear()

    def close_epoch(self) -> dict[str, float] | None:
        """Return the two shares of the epoch, which sum to one; None if no step was measured."""
        sums = total(self.sums)
        self.sums = torch.zeros_like(self.sums)
        if not bool(sums.sum() > 0):
            return None
        clean, false = (sums / sums.sum()).tolist()
        return {"clean": clean, "false": false}
