"""Fixed features of images from random patches (Coates and Ng, 2011): no label and no gradient takes part.

Patches are brought to zero mean and unit contrast and whitened (ZCA); a draw of them are the filters. A feature is how far a patch agrees or
disagrees with a filter beyond a threshold, (z - a)+ and (-z - a)+, averaged over each quadrant of the image: 8 for each filter.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_MEASURED = 20_000
"""Patches whose mean and covariance stand for all."""
CONTRAST_FLOOR = 10.0
"""Added to the variance of a patch of pixels in 0..255, so that plain sky does not become noise; as the authors have it."""
WHITENING_FLOOR = 0.1
"""Added to the eigenvalues of the covariance, which keeps the finest detail from being blown up; theirs too."""
THRESHOLD = 0.5
"""a: in units of the standard deviation of z, which is one for filters of this length."""
STRIDE = 2
"""Every second place in each direction: a quarter of the work, and quadrants of 7 x 7 places in images of 32 pixels."""
IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class PatchFilters:
    """Filters with the whitening already in them."""

    weight: Tensor
    """(D, F)."""
    bias: Tensor
    """(F,)."""
    size: int

    def features(self, images: Tensor) -> Tensor:
        """(N, 8 F) of (N, C, H, W) uint8 images."""
        return torch.cat([self._of_few(few) for few in images.split(IMAGES_AT_ONCE)])

    def _of_few(self, images: Tensor) -> Tensor:
        height, width = ((length - self.size) // STRIDE + 1 for length in images.shape[2:])
        patches = F.unfold(images.float(), self.size, stride=STRIDE).transpose(1, 2)
        z = _even(patches.flatten(0, 1)) @ self.weight - self.bias
        both = torch.cat([(z - THRESHOLD).relu(), (-z - THRESHOLD).relu()], 1)
        grid = both.unflatten(0, (len(images), height, width)).permute(0, 3, 1, 2)
        return F.adaptive_avg_pool2d(grid, 2).flatten(1)


def draw_filters(images: Tensor, num_filters: int, size: int, seed: int) -> PatchFilters:
    """Filters from (N, C, H, W) uint8 training images."""
    generator = torch.Generator().manual_seed(seed)
    patches = _even(_random_patches(images, max(NUM_MEASURED, num_filters), size, generator))
    mean = patches.mean(0)
    centred = patches - mean
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    # An eigenvalue of exactly zero, the mean that was taken away, may come out a little below it.
    whitening = vectors @ torch.diag((values.clamp(min=0) + WHITENING_FLOOR).rsqrt()) @ vectors.T
    chosen = centred[torch.randperm(len(centred), generator=generator)[:num_filters]] @ whitening
    weight = whitening @ F.normalize(chosen, dim=1).T
    return PatchFilters(weight, mean @ weight, size)


def _random_patches(images: Tensor, count: int, size: int, generator: torch.Generator) -> Tensor:
    """(count, D), each from a random place of a random image."""
    height, width = images.shape[2:]
    which, top, left = (
        torch.randint(high, (count,), generator=generator)
        for high in (len(images), height - size + 1, width - size + 1)
    )
    rows, columns = (start[:, None] + torch.arange(size) for start in (top, left))
    return images[which[:, None, None], :, rows[:, :, None], columns[:, None, :]].float().permute(0, 3, 1, 2).flatten(1)


def _even(patches: Tensor) -> Tensor:
    """Zero mean and unit contrast, each patch by itself."""
    centred = patches - patches.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + CONTRAST_FLOOR).sqrt()
