"""Which samples to believe: small-loss selection and two-component fits."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surelabel.core import Batch, gathered, own_rows

ROUNDING = 1e-3
"""Of a sample: rates are float32 buffers, and 0.8 x 10 samples must be 8 and not 7."""


def smallest(values: Tensor, count: int, allowed: Tensor | None = None) -> Tensor:
    """(B,) mask of the `count` smallest values; ties by position, NaN last, rows that are not `allowed` never."""
    order = values.detach().argsort(stable=True)  # torch sorts NaN last
    if allowed is not None:
        order = order[allowed[order]]
    mask = torch.zeros(len(values), dtype=torch.bool, device=values.device)
    mask[order[:count]] = True
    return mask


def easiest(loss: Tensor, batch: Batch, forget_share: float, among: Tensor | None = None) -> Tensor:
    """(B,) mask: the small-loss part of the whole batch, all ranks' rows, `among` the rows that may be chosen.

    At least one row is kept, if any may be.
    """
    allowed = batch.weight > 0 if among is None else (batch.weight > 0) & among
    everyone = gathered(allowed)
    keep = max(1, int((1 - forget_share) * int(everyone.sum()) + ROUNDING))
    return own_rows(smallest(gathered(loss.detach()), keep, allowed=everyone))


def estimated_noise_rate(losses: Tensor) -> float:
    """The share of labels that are wrong, as the weight of the high-loss component: no clean label is needed."""
    return float(1 - low_component_probability(losses).mean())


def low_component_probability(values: Tensor, max_iter: int = 10, tol: float = 1e-2, reg_covar: float = 5e-4) -> Tensor:
    """(N,) posterior of the component with the smaller mean, from a Gaussian mixture on `values` scaled to [0, 1].

    Values that do not differ say nothing, so every row then belongs to the low component.
    """
    from sklearn.mixture import GaussianMixture

    losses = values.detach().double().cpu().numpy()
    span = losses.max() - losses.min() if len(losses) else 0.0
    if len(losses) < 2 or not np.isfinite(span) or span <= 1e-12:
        return torch.ones_like(values)
    scaled = ((losses - losses.min()) / span)[:, None]
    mixture = GaussianMixture(2, max_iter=max_iter, tol=tol, reg_covar=reg_covar, random_state=0)
    with np.errstate(all="ignore"):
        probability = _fitted(mixture, scaled).predict_proba(scaled)[:, mixture.means_.argmin()]
    return torch.from_numpy(probability).to(values)


def _fitted(mixture: Any, values: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten iterations are the published choice, converged or not
        return mixture.fit(values)
