"""Per-sample losses that two or more methods use: (B, K) logits in, (B,) values out."""

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """Return -log p at the label, which is (B,) classes or (B, K) soft targets.

    >>> import torch
    >>> from surelabel.losses import cross_entropy
    >>> logits = torch.tensor([[0.9, 0.1]]).log()
    >>> cross_entropy(logits, torch.tensor([1])), cross_entropy(logits, torch.tensor([[0.5, 0.5]]))
    (tensor([2.3026]), tensor([1.2040]))
    """
    if label.dim() == 1:
        return F.cross_entropy(logits, label, reduction="none")
    return -(label * F.log_softmax(logits, 1)).sum(1)


def generalised_cross_entropy(logits: Tensor, label: Tensor, q: float) -> Tensor:
    """Return (1 - p_y^q) / q of Zhang and Sabuncu (2018).

    It tends to cross entropy for q to 0 and is half the mean absolute error at q = 1. Computed as
    -expm1(q log p) / q, it is exact for small q and has a finite gradient at p = 0.

    >>> import torch
    >>> from surelabel.losses import generalised_cross_entropy
    >>> generalised_cross_entropy(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([1]), q=0.7)
    tensor([1.1435])
    """
    log_p = F.log_softmax(logits, 1).gather(1, label[:, None]).squeeze(1)
    return -(q * log_p).expm1() / q


def mean_absolute_error(logits: Tensor, label: Tensor) -> Tensor:
    """Return |p - e_y|_1 = 2 (1 - p_y) of Ghosh et al. (2017), constant when summed over labels.

    >>> import torch
    >>> from surelabel.losses import mean_absolute_error
    >>> mean_absolute_error(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([1]))
    tensor([1.8000])
    """
    return 2 * generalised_cross_entropy(logits, label, 1.0)


def reverse_cross_entropy(logits: Tensor, label: Tensor, log_zero: float) -> Tensor:
    """Return -sum p log e_y of Wang et al. (2019) with log 0 = `log_zero` < 0.

    It is -log_zero (1 - p_y), a scaled mean absolute error.

    >>> import torch
    >>> from surelabel.losses import reverse_cross_entropy
    >>> reverse_cross_entropy(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([1]), log_zero=-4)
    tensor([3.6000])
    """
    return -log_zero * generalised_cross_entropy(logits, label, 1.0)
