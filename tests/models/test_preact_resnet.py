"""What distinguishes this network from others of the same name."""

import torch
from torch import nn

from surelabel.models import make_backbone


def test_the_stem_has_a_norm_and_a_relu_and_nothing_follows_the_last_block():
    network = make_backbone("preact_resnet18", (3, 32, 32))
    assert [type(layer) for layer in network.stem] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]
    assert [name for name, _ in network.named_children()] == ["stem", "stages"]
    assert (network.eval()(torch.randn(4, 3, 32, 32)) < 0).any()


def test_an_identity_shortcut_starts_from_the_activated_input():
    block = make_backbone("preact_resnet18", (3, 32, 32)).stages[0][0].eval()
    assert isinstance(block.shortcut, nn.Identity)
    nn.init.zeros_(block.convolution2.weight)
    x = torch.randn(2, 64, 8, 8)
    torch.testing.assert_close(block(x), block.norm1(x).relu())
    assert (x < 0).any()


def test_a_shortcut_that_changes_the_shape_has_no_norm():
    block = make_backbone("preact_resnet18", (3, 32, 32)).stages[1][0].eval()
    assert isinstance(block.shortcut, nn.Conv2d)
    nn.init.zeros_(block.convolution2.weight)
    x = torch.randn(2, 64, 8, 8)
    torch.testing.assert_close(block(x), block.shortcut(block.norm1(x).relu()))


def test_sizes():
    network = make_backbone("preact_resnet18", (3, 32, 32)).eval()
    assert network.stages(network.stem(torch.zeros(1, 3, 32, 32))).shape == (1, 512, 4, 4)
