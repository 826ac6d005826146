"""Batch norm over all processes: that of torch on one, and of the joined rows on two."""

import copy

import pytest
import torch
from torch import nn

from surelabel.engine import batch_norm
from surelabel.engine.batch_norm import GlobalBatchNorm, global_moments, normalise_globally


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 3 + 5


def both(norm: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return torch's module and ours, with the same random weights."""
    if norm.affine:
        nn.init.normal_(norm.weight, 1, 0.1)
        nn.init.normal_(norm.bias)
    other = nn.Sequential(copy.deepcopy(norm))
    normalise_globally(other)
    assert isinstance(other[0], GlobalBatchNorm)
    return norm, other[0]


CASES = {
    "1d": (nn.BatchNorm1d(4), (10, 4)),
    "sequences": (nn.BatchNorm1d(4), (10, 4, 6)),
    "2d": (nn.BatchNorm2d(4), (5, 4, 3, 7)),
    "3d": (nn.BatchNorm3d(2), (3, 2, 3, 2, 2)),
    "momentum": (nn.BatchNorm1d(4, momentum=0.4), (10, 4)),
    "cumulative": (nn.BatchNorm1d(4, momentum=None), (10, 4)),
    "without weights": (nn.BatchNorm1d(4, affine=False, eps=0.1), (10, 4)),
    "without running statistics": (nn.BatchNorm2d(4, track_running_stats=False), (5, 4, 3, 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_values_gradients_and_statistics_are_torchs(case):
    theirs, ours = both(copy.deepcopy(CASES[case][0]))
    for step in range(3):
        x = drawn(*CASES[case][1], seed=step)
        found = []
        for norm in (theirs, ours):
            given = x.clone().requires_grad_()
            result = norm(given)
            grads = torch.autograd.grad(result.pow(3).sum(), [given, *norm.parameters()])
            found.append([result, *grads, *norm.state_dict().values()])
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    theirs.eval()
    ours.eval()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)
    assert list(theirs.state_dict()) == list(ours.state_dict())


def test_channels_last_and_half_precision():
    theirs, ours = both(nn.BatchNorm2d(4))
    x = drawn(5, 4, 6, 6).to(memory_format=torch.channels_last)
    assert ours(x).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    half = ours(x.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half, theirs(x.bfloat16()), rtol=1e-2, atol=1e-2)


def test_moments_keep_their_digits_where_the_mean_is_large():
    x = drawn(64, 2) + 1e4
    _, var, count = global_moments(x)
    torch.testing.assert_close(var.double(), x.double().var(0, correction=0), rtol=1e-3, atol=0)
    assert count == 64


@pytest.mark.parametrize("split", [7, 1, 0], ids=["uneven", "one row", "no row"])
def test_moments_are_those_of_the_rows_of_all_processes(split, monkeypatch):
    """The other process is played by its message, which has the moments of its rows."""
    x = drawn(10, 3, 2, 2)
    messages = []
    monkeypatch.setattr(batch_norm, "gathered", lambda own: messages.append(own) or own)
    global_moments(x[split:])
    monkeypatch.setattr(batch_norm, "gathered", lambda own: torch.cat([own, messages[0]]))
    mean, var, count = global_moments(x[:split])
    torch.testing.assert_close(mean, x.mean((0, 2, 3)))
    torch.testing.assert_close(var, x.var((0, 2, 3), correction=0))
    assert count == 40


def test_frozen_parts_do_not_change():
    _, ours = both(nn.BatchNorm1d(4))
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    ours.eval()(drawn(10, 4))
    assert all(torch.equal(before[name], value) for name, value in ours.state_dict().items())


def test_what_follows_inside_the_replaced_module_is_kept():
    """As in timm's BatchNormAct2d."""

    class WithActivation(nn.BatchNorm2d):
        def __init__(self, size):
            super().__init__(size)
            self.drop, self.act = nn.Identity(), nn.PReLU()

        def forward(self, x):
            return self.act(self.drop(super().forward(x)))

    theirs, ours = both(WithActivation(3))
    x = drawn(6, 3, 4, 4)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    assert list(theirs.state_dict()) == list(ours.state_dict())
