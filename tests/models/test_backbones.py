"""The backbones and their registry."""

import pytest
import torch
from torch import nn

from surelabel.config import ModelConfig
from surelabel.errors import ConfigError
from surelabel.models import BACKBONES, Network, auto_name, backbone_options, make_backbone
from surelabel.models.cnn import CNN
from surelabel.models.fast_cnn import FastCNN
from surelabel.models.mlp import MLP


def num_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


SMALLER = {"wide_resnet": {"depth": 10, "width": 1}}
"""Options that make a backbone fast to test."""


@pytest.mark.parametrize(
    ("name", "options", "side", "num_outputs", "expected"),
    [
        ("resnet34", {}, 32, 10, 21_282_122),
        ("resnet34", {}, 32, 100, 21_328_292),
        ("resnet18", {}, 32, 10, 11_173_962),
        ("preact_resnet18", {}, 32, 10, 11_171_274),
        ("preact_resnet18", {}, 32, 100, 11_217_444),
        ("resnet18", {}, 224, 1000, 11_689_512),
        ("resnet34", {}, 224, 1000, 21_797_672),
        ("resnet50", {}, 224, 1000, 25_557_032),
        ("resnet50", {"stem": "large"}, 32, 1000, 25_557_032),
        ("wide_resnet", {}, 32, 10, 36_479_194),
        ("wide_resnet", {"depth": 16, "width": 4}, 32, 10, 2_748_890),
    ],
)
def test_parameter_counts(name, options, side, num_outputs, expected):
    with torch.device("meta"):
        made = make_backbone(name, (3, side, side), options)
        assert num_parameters(Network(made, num_outputs)) == expected


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 28, 28), (3, 32, 20)])
def test_every_backbone_trains_and_has_its_width(name, shape):
    """Batch norm needs at least two rows."""
    torch.manual_seed(0)
    network = make_backbone(name, shape, SMALLER.get(name))
    features = network(torch.randn(2, *shape))
    assert features.shape == (2, network.num_features)
    features.square().sum().backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in network.parameters())


@pytest.mark.parametrize("name", BACKBONES)
def test_weights_come_from_the_callers_seed(name):
    def weights():
        torch.manual_seed(3)
        return make_backbone(name, (1, 8, 8), SMALLER.get(name)).state_dict()

    first, second = weights(), weights()
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_norms(norm):
    for network in (
        make_backbone("mlp", (1, 6, 6), {"norm": norm}),
        make_backbone("cnn", (1, 8, 8), {"norm": norm, "width": 4}),
    ):
        assert torch.isfinite(network(torch.randn(3, 1, *[8 if isinstance(network, CNN) else 6] * 2))).all()
        has_batch_norm = any(isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)) for m in network.modules())
        assert has_batch_norm == (norm == "batch")


@pytest.mark.parametrize("norm", ["layer", "none"])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_without_batch_norm_rows_do_not_affect_each_other(name, norm):
    network = make_backbone(name, (3, 8, 8), {"norm": norm})
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
    [
        ((64,), "mlp"),
        ((1, 8, 8), "mlp"),
        ((3, 16, 16), "mlp"),
        ((3, 16, 17), "fast_cnn"),
        ((3, 32, 32), "fast_cnn"),
        ((3, 64, 64), "fast_cnn"),
        ((3, 64, 65), "resnet18"),
        ((3, 224, 224), "resnet18"),
    ],
)
def test_auto_name(shape, name):
    assert auto_name(shape) == name


def test_auto_is_a_name():
    assert isinstance(make_backbone("auto", (3, 32, 32)), FastCNN)
    assert isinstance(make_backbone("auto", (20,), {"widths": [4]}), MLP)


@pytest.mark.parametrize("name", [name for name in BACKBONES if name != "mlp"])
def test_image_networks_refuse_features(name):
    with pytest.raises(ConfigError, match=rf"{name} takes images .* \(64,\); use mlp"):
        make_backbone(name, (64,))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet43", {}, "model.name: there is no 'resnet43', did you mean resnet34. available: mlp, cnn, fast_cnn"),
        ("vit", {}, "there is no 'vit'; available: mlp, cnn, fast_cnn, resnet18, .*, wide_resnet, timm:NAME"),
        (
            "mlp",
            {"width": [3]},
            "model.options.width: mlp has no such option, did you mean widths. available: widths, n",
        ),
        ("resnet18", {"width": 3}, "resnet18 has no such option; available: stem"),
        ("resnet18", {"stem": "tiny"}, "model.options.stem: .*'auto', 'small' or 'large', got 'tiny'"),
        ("preact_resnet18", {"width": 3}, "preact_resnet18 has no such option; available: none"),
        ("wide_resnet", {"depth": 27}, r"model.options.depth: expected 6 n \+ 4, .* got 27"),
        ("wide_resnet", {"dropout": 1.0}, "model.options.dropout: .*less than 1"),
        ("mlp", {"norm": "group"}, "model.options.norm: .*'batch', 'layer' or 'none', got 'group'"),
        ("mlp", {"widths": [64, 0]}, r"model.options.widths: .*greater than 0, got \[64, 0\]"),
        ("cnn", {"width": "wide"}, "model.options.width: .*integer.*, got 'wide'"),
        ("cnn", {"width": None}, "model.options.width: .*got None"),
    ],
)
def test_errors_about_names_and_options_list_the_known_ones(name, options, message):
    with pytest.raises(ConfigError, match=message):
        make_backbone(name, (1, 8, 8), options)


def test_options_as_read_from_yaml():
    assert make_backbone("mlp", [64], {"widths": [32, 16], "norm": "layer"}).num_features == 16


def test_no_option_has_the_name_of_a_setting_of_the_model():
    """Otherwise `--set model.NAME=...` would be ambiguous."""
    for name in BACKBONES:
        assert not set(backbone_options(name)) & set(ModelConfig.model_fields)


def test_options_are_the_signature():
    assert list(backbone_options("cnn")) == ["width", "norm"]
    assert backbone_options("mlp")["widths"].default == (256, 256)
