"""Wide residual networks."""

import torch
from torch import nn

from surelabel.models import make_backbone


def test_an_identity_shortcut_is_the_raw_input():
    block = make_backbone("wide_resnet", (3, 32, 32), {"depth": 16, "width": 1}).stages[2].eval()
    nn.init.zeros_(block.convolution2.weight)
    x = torch.randn(2, 16, 8, 8)
    assert torch.equal(block(x), x)


def test_sizes_and_the_last_relu():
    network = make_backbone("wide_resnet", (3, 32, 32), {"depth": 10, "width": 2}).eval()
    assert network.stages(torch.zeros(1, 3, 32, 32)).shape == (1, 128, 8, 8)
    assert (network(torch.randn(4, 3, 32, 32)) >= 0).all()


def test_dropout_is_between_the_convolutions_and_only_in_training():
    network = make_backbone("wide_resnet", (3, 8, 8), {"depth": 10, "width": 1, "dropout": 0.5})
    x = torch.randn(2, 3, 8, 8)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))
