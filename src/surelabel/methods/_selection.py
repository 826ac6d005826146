"""Selection of the samples to train on: by small loss, by a mixture, and those to hold out."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surelabel.core import Batch, Task, gathered, own_rows

ROUNDING = 1e-3
"""Fraction of a sample: rates are float32 buffers, and 0.8 x 10 samples must be 8 and not 7."""
SMALLEST_SPAN = 1e-12
"""Losses that differ by less are taken as equal."""


def smallest(values: Tensor, count: int, allowed: Tensor | None = None) -> Tensor:
    """Return a mask (B,) of the `count` smallest values among the rows that are `allowed`.

    Ties are broken by position; NaN counts as largest.
    """
    order = values.detach().argsort(stable=True)  # torch sorts NaN last
    if allowed is not None:
        order = order[allowed[order]]
    mask = torch.zeros(len(values), dtype=torch.bool, device=values.device)
    mask[order[:count]] = True
    return mask


def easiest(loss: Tensor, batch: Batch, forget_share: float, *, certain: Tensor, among: Tensor | None = None) -> Tensor:
    """Return a mask (B,) of the rows with small loss: all but a fraction `forget_share`.

    Rows compete with those of all ranks. Only the rows `among` may be chosen, and if there are
    any, at least one is. The rows that are `certain` come first, and are always chosen.
    """
    certain = certain & (batch.weight > 0)
    allowed = certain | (batch.weight > 0 if among is None else (batch.weight > 0) & among)
    allowed_everywhere = gathered(allowed)
    keep = max(1, int((1 - forget_share) * int(allowed_everywhere.sum()) + ROUNDING))
    ranked = gathered(loss.detach().masked_fill(certain, -torch.inf))
    return own_rows(smallest(ranked, keep, allowed=allowed_everywhere), loss) | certain


def held_out_rows(task: Task, share: float) -> Tensor:
    """Return an (N,) mask of rows to hold out, drawn by the seed; none whose label is confirmed."""
    order = torch.randperm(task.num_samples, generator=torch.Generator().manual_seed(task.seed))
    drawn = order < int(share * task.num_samples)
    return drawn if task.trusted is None else drawn & ~task.trusted.cpu()


def estimate_noise_rate(losses: Tensor, certain: Tensor) -> float:
    """Estimate the fraction of wrong labels as the weight of a mixture's high-loss component.

    The labels that are `certain`, (N,), count as right.
    """
    return float(1 - low_component_probability(losses).masked_fill(certain, 1.0).mean())


def low_component_probability(values: Tensor, max_iter: int = 10, tol: float = 1e-2, reg_covar: float = 5e-4) -> Tensor:
    """Return the posterior (N,) of the component with the smaller mean, of two.

    The components are a Gaussian mixture, fitted to `values` scaled to [0, 1]. If the values are
    all equal or not finite, every row belongs to the low component.
    """
    from sklearn.mixture import GaussianMixture

    losses = values.detach().double().cpu().numpy()
    span = losses.max() - losses.min() if len(losses) else 0.0
    if len(losses) < 2 or not np.isfinite(span) or span <= SMALLEST_SPAN:
        return torch.ones_like(values)
    scaled = ((losses - losses.min()) / span)[:, None]
    mixture = GaussianMixture(2, max_iter=max_iter, tol=tol, reg_covar=reg_covar, random_state=0)
    with np.errstate(all="ignore"):
        probability = _fit(mixture, scaled).predict_proba(scaled)[:, mixture.means_.argmin()]
    return torch.from_numpy(probability).to(values)


def _fit(mixture: Any, values: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten iterations are published, whether converged or not
        return mixture.fit(values)
