"""Batch norm over the rows of all processes, so that several train as one would."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from surelabel.core.collective import gathered


class GlobalBatchNorm(_BatchNorm):
    """Batch norm whose statistics in training are those of the whole batch.

    It shares the parameters and buffers of the module that it replaces, so names in a state dict
    stay the same. torch's SyncBatchNorm does the same, but only on CUDA. In evaluation mode it is
    torch's batch norm.
    """

    def __init__(self, replaced: _BatchNorm) -> None:
        super().__init__(0, replaced.eps, replaced.momentum, affine=False, track_running_stats=False)
        self.num_features, self.affine = replaced.num_features, replaced.affine
        self.track_running_stats, self.training = replaced.track_running_stats, replaced.training
        self._parameters, self._buffers = replaced._parameters, replaced._buffers
        # timm has batch norms that are followed by dropout and an activation.
        self._modules = replaced._modules

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, ...) and apply what follows."""
        uses_batch = self.training or self.running_mean is None
        result = self._normalise(x) if uses_batch else super().forward(x)
        for module in self.children():
            result = module(result)
        return result

    def _check_input_dim(self, x: Tensor) -> None:
        if x.dim() < 2:
            raise ValueError(f"expected an input with at least 2 dimensions, got {x.dim()}")

    def _normalise(self, x: Tensor) -> Tensor:
        self._check_input_dim(x)
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean, var, count = global_moments(exact)
        if self.training and self.track_running_stats:
            self._track(mean.detach(), var.detach() * count / (count - 1).clamp(min=1))
        shape = (1, -1, *[1] * (x.dim() - 2))
        result = (exact - mean.view(shape)) * (var + self.eps).rsqrt().view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(x.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor) -> None:
        """Move the running statistics; without a momentum they are the mean over all batches."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(var.to(self.running_var.dtype), momentum)


def global_moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean (C,), variance (C,) and count () of each channel of (B, C, ...), over all ranks.

    Each rank's squares are taken about its own mean, and means are combined by Chan's formula: a
    sum of squares minus the squared mean would lose all digits where the mean is large.
    """
    axes = [axis for axis in range(x.dim()) if axis != 1]
    size = x.numel() // x.shape[1]
    mean = x.sum(axes) / max(size, 1)
    squares = (x - mean.view(1, -1, *[1] * (x.dim() - 2))).square().sum(axes)
    of_all = gathered(torch.cat([mean, squares, mean.new_tensor([float(size)])])[None])
    means, squares, counts = torch.split(of_all, [len(mean), len(mean), 1], 1)
    count = counts.sum()
    mean = (counts * means).sum(0) / count
    return mean, (squares + counts * (means - mean).square()).sum(0) / count, count


def normalise_globally(module: nn.Module) -> None:
    """Replace every batch norm inside `module`, in place."""
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm) and not isinstance(child, nn.SyncBatchNorm | GlobalBatchNorm):
            setattr(module, name, GlobalBatchNorm(child))
        else:
            normalise_globally(child)
