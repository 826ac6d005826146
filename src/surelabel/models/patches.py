"""Fixed image features from random patches (Coates and Ng, 2011), made without labels or gradients.

Patches are normalised to zero mean and unit contrast and whitened (ZCA); a random sample of them
are the filters. With z the response of a patch to a filter, the features are (z - a)+ and
(-z - a)+ for a threshold a, averaged over each quadrant of the image: 8 features per filter.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_MEASURED = 20_000
"""The number of patches from which mean and covariance are estimated."""
CONTRAST_FLOOR = 10.0
"""The authors' value: added to the variance of a patch of pixels in 0..255, so that plain sky does
not become noise."""
WHITENING_FLOOR = 0.1
"""The authors' value: added to the eigenvalues of the covariance, which limits how much the finest
detail is amplified."""
THRESHOLD = 0.5
"""a, in units of the standard deviation of z, which is 1 for filters of unit norm."""
STRIDE = 2
"""Every second position in each direction is a quarter of the work, and leaves quadrants of 7 x 7
positions in images of 32 pixels."""
IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class PatchFilters:
    """Filters that include the whitening."""

    weight: Tensor
    """(D, F)."""
    bias: Tensor
    """(F,)."""
    size: int

    def features(self, images: Tensor) -> Tensor:
        """Return the features (N, 8 F) of uint8 images (N, C, H, W)."""
        return torch.cat([self._chunk_features(chunk) for chunk in torch.split(images, IMAGES_AT_ONCE)])

    def _chunk_features(self, images: Tensor) -> Tensor:
        height, width = ((length - self.size) // STRIDE + 1 for length in images.shape[2:])
        patches = F.unfold(images.float(), self.size, stride=STRIDE).transpose(1, 2)
        z = _normalise(patches.flatten(0, 1)) @ self.weight - self.bias
        both = torch.cat([(z - THRESHOLD).relu(), (-z - THRESHOLD).relu()], 1)
        grid = both.view(len(images), height, width, -1).permute(0, 3, 1, 2)
        return F.adaptive_avg_pool2d(grid, 2).flatten(1)


def draw_filters(images: Tensor, num_filters: int, size: int, seed: int) -> PatchFilters:
    """Draw filters from uint8 training images (N, C, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    patches = _normalise(_random_patches(images, max(NUM_MEASURED, num_filters), size, generator))
    mean = patches.mean(0)
    centred = patches - mean
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    # The subtracted mean leaves an eigenvalue of zero, which rounding may make negative.
    whitening = vectors @ torch.diag((values.clamp(min=0) + WHITENING_FLOOR).rsqrt()) @ vectors.T
    chosen = centred[torch.randperm(len(centred), generator=generator)[:num_filters]] @ whitening
    weight = whitening @ F.normalize(chosen, dim=1).T
    return PatchFilters(weight, mean @ weight, size)


def _random_patches(images: Tensor, count: int, size: int, generator: torch.Generator) -> Tensor:
    """Return patches (count, D), each from a random position in a random image."""
    height, width = images.shape[2:]
    which, top, left = (
        torch.randint(high, (count,), generator=generator)
        for high in (len(images), height - size + 1, width - size + 1)
    )
    rows, columns = (start[:, None] + torch.arange(size) for start in (top, left))
    return images[which[:, None, None], :, rows[:, :, None], columns[:, None, :]].float().permute(0, 3, 1, 2).flatten(1)


def _normalise(patches: Tensor) -> Tensor:
    """Give each patch zero mean and unit contrast."""
    centred = patches - patches.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + CONTRAST_FLOOR).sqrt()
