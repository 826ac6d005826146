"""The residual networks: their stems, and loading torchvision's weights."""

import pytest
import torch
from torch import nn

from surelabel.core.torchvision_import import import_torchvision
from surelabel.errors import ConfigError
from surelabel.models import make_backbone, start_from


def sizes(network, side):
    x, found = torch.zeros(1, 3, side, side), []
    x = network.stem(x)
    for stage in network.stages:
        x = stage(x)
        found.append(x.shape[-1])
    return found


@pytest.mark.parametrize(("side", "expected"), [(8, [8, 4, 2, 1]), (32, [32, 16, 8, 4]), (64, [64, 32, 16, 8])])
def test_small_images_keep_their_size_in_the_first_stage(side, expected):
    network = make_backbone("resnet18", (3, side, side)).eval()
    assert sizes(network, side) == expected
    assert network.stem[0].stride == (1, 1)


def test_large_images_shrink_to_a_quarter_before_the_first_stage():
    network = make_backbone("resnet18", (3, 65, 96)).eval()
    assert sizes(network, 96) == [24, 12, 6, 3]
    assert [type(layer) for layer in network.stem] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d]


@pytest.mark.parametrize(("stem", "stride"), [("small", 1), ("large", 2)])
def test_the_stem_can_be_chosen(stem, stride):
    for side in (32, 96):
        assert make_backbone("resnet18", (3, side, side), {"stem": stem}).stem[0].stride == (stride, stride)


def test_a_bottleneck_has_its_stride_in_the_middle():
    block = make_backbone("resnet50", (3, 32, 32)).stages[1][0]
    strides = [layer.stride[0] for layer in (block.convolution1, block.convolution2, block.convolution3)]
    assert strides == [1, 2, 1]
    assert block.convolution3.out_channels == 512


@pytest.fixture(scope="module")
def torchvision_models():
    import_torchvision()
    from torchvision import models

    return models


@pytest.fixture(params=["resnet18", "resnet34", "resnet50"])
def pair(request, torchvision_models):
    """A torchvision network with random weights and statistics, and ours of the same name."""
    torch.manual_seed(0)
    theirs = torchvision_models.get_model(request.param, num_classes=7)
    for module in theirs.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return theirs.eval(), make_backbone(request.param, (3, 96, 96)).eval()


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_torchvision_weights_yield_the_same_outputs(pair, tmp_path, suffix):
    theirs, ours = pair
    file = tmp_path / f"weights.{suffix}"
    if suffix == "pth":
        torch.save(theirs.state_dict(), file)
    else:
        from safetensors.torch import save_file

        save_file(theirs.state_dict(), file)
    note = start_from(ours, str(file))
    assert "its classifier is not used (fc.bias, fc.weight)" in note
    x = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        torch.testing.assert_close(theirs.fc(ours(x)), theirs(x))


def test_the_small_stem_refuses_them_by_name(torchvision_models, tmp_path):
    torch.save(torchvision_models.resnet18().state_dict(), tmp_path / "a.pth")
    with pytest.raises(ConfigError, match=r"stem.0.weight \(64, 3, 7, 7\) instead of \(64, 3, 3, 3\)"):
        start_from(make_backbone("resnet18", (3, 32, 32)), str(tmp_path / "a.pth"))


def test_colour_weights_on_grey_images_act_as_on_three_equal_channels(torchvision_models, tmp_path):
    theirs = torchvision_models.resnet18(num_classes=3).eval()
    torch.save(theirs.state_dict(), tmp_path / "a.pth")
    ours = make_backbone("resnet18", (1, 96, 96)).eval()
    start_from(ours, str(tmp_path / "a.pth"))
    x = torch.randn(2, 1, 96, 96)
    with torch.no_grad():
        torch.testing.assert_close(theirs.fc(ours(x)), theirs(x.expand(-1, 3, -1, -1)), atol=1e-4, rtol=1e-4)
