"""The backbones and their registry."""

import pytest
import torch
from torch import nn

from surelabel.errors import ConfigError
from surelabel.models import BACKBONES, Network, auto_name, backbone, backbone_options
from surelabel.models.cnn import CNN
from surelabel.models.mlp import MLP


def num_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("name", "num_outputs", "expected"),
    [("resnet34", 10, 21_282_122), ("resnet34", 100, 21_328_292), ("resnet18", 10, 11_173_962)],
)
def test_resnet_parameter_counts(name, num_outputs, expected):
    with torch.device("meta"):
        assert num_parameters(Network(backbone(name, (3, 32, 32)), 512, num_outputs)) == expected


def test_resnet_keeps_the_size_in_its_first_stage():
    network = backbone("resnet18", (1, 8, 8))
    stem = network.stem(torch.randn(2, 1, 8, 8))
    sizes = []
    for stage in network.stages:
        stem = stage(stem)
        sizes.append(tuple(stem.shape[1:]))
    assert sizes == [(64, 8, 8), (128, 4, 4), (256, 2, 2), (512, 1, 1)]


@pytest.mark.parametrize("name", BACKBONES)
def test_every_backbone_trains_and_says_its_width(name):
    torch.manual_seed(0)
    network = backbone(name, (3, 8, 8))
    features = network(torch.randn(2, 3, 8, 8))
    assert features.shape == (2, network.num_features)
    features.square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("name", BACKBONES)
def test_weights_come_from_the_callers_seed(name):
    def weights():
        torch.manual_seed(3)
        return backbone(name, (1, 8, 8)).state_dict()

    first, second = weights(), weights()
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_norms(norm):
    for network in (backbone("mlp", (1, 6, 6), {"norm": norm}), backbone("cnn", (1, 8, 8), {"norm": norm, "width": 4})):
        assert torch.isfinite(network(torch.randn(3, 1, *[8 if isinstance(network, CNN) else 6] * 2))).all()
        has_batch_norm = any(isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)) for m in network.modules())
        assert has_batch_norm == (norm == "batch")


@pytest.mark.parametrize("norm", ["layer", "none"])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_without_batch_norm_rows_do_not_see_each_other(name, norm):
    network = backbone(name, (3, 8, 8), {"norm": norm})
    x = torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(network(x)[:1], network(x[:1]), atol=1e-5, rtol=1e-4)


def test_mlp_layers():
    kinds = [type(layer).__name__ for layer in MLP((4,), widths=(8, 5), norm="batch").layers]
    assert kinds == ["Flatten", *["Linear", "BatchNorm1d", "ReLU"] * 2]
    assert MLP((2, 3, 3), widths=()).num_features == 18


@pytest.mark.parametrize(("side", "pools"), [(2, 0), (4, 1), (7, 1), (8, 2), (28, 2), (32, 2), (64, 2)])
def test_cnn_pools_while_two_pixels_remain(side, pools):
    network = CNN((1, side, side), width=2)
    assert sum(isinstance(stage, nn.MaxPool2d) for stage in network.stages) == pools
    assert network.stages(torch.zeros(1, 1, side, side)).shape[-1] >= 2
    assert network(torch.zeros(1, 1, side, side + 3)).shape == (1, 8)


@pytest.mark.parametrize(
    ("shape", "name"),
    [((64,), "mlp"), ((1, 8, 8), "mlp"), ((3, 16, 16), "mlp"), ((3, 16, 17), "cnn"), ((3, 32, 32), "cnn")],
)
def test_auto_name(shape, name):
    assert auto_name(shape) == name


@pytest.mark.parametrize("name", ["cnn", "resnet18", "resnet34"])
def test_image_networks_refuse_features(name):
    with pytest.raises(ConfigError, match=rf"{name} takes images .* \(64,\); use mlp"):
        backbone(name, (64,))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet43", {}, "model.name: there is no 'resnet43', did you mean resnet34. there are mlp, cnn, resnet18"),
        ("vit", {}, "there is no 'vit'; there are mlp, cnn, resnet18, resnet34"),
        (
            "mlp",
            {"width": [3]},
            "model.options.width: mlp has no such option, did you mean widths. there are widths, n",
        ),
        ("resnet18", {"width": 3}, "resnet18 has no such option; there are none"),
        ("mlp", {"norm": "group"}, "model.options.norm: .*'batch', 'layer' or 'none', got 'group'"),
        ("mlp", {"widths": [64, 0]}, r"model.options.widths: .*greater than 0, got \[64, 0\]"),
        ("cnn", {"width": "wide"}, "model.options.width: .*integer.*, got 'wide'"),
        ("cnn", {"width": None}, "model.options.width: .*got None"),
    ],
)
def test_wrong_names_and_options_say_what_exists(name, options, message):
    with pytest.raises(ConfigError, match=message):
        backbone(name, (1, 8, 8), options)


def test_options_as_read_from_yaml():
    assert backbone("mlp", [64], {"widths": [32, 16], "norm": "layer"}).num_features == 16


def test_options_are_the_signature():
    assert list(backbone_options("cnn")) == ["width", "norm"]
    assert backbone_options("mlp")["widths"].default == (256, 256)
