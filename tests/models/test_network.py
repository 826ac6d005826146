"""Network: normalisation, dtypes and the indicator branch."""

import copy

import pytest
import torch
from torch import nn

from surelabel.models import Extractor, Network, make_backbone
from surelabel.models.mlp import MLP


def small_network(**options):
    torch.manual_seed(0)
    return Network(MLP((6,), widths=(8,), norm="none"), 3, **options)


def as_backbone(module: nn.Module, num_features: int) -> nn.Module:
    module.num_features = num_features
    return module


def test_shapes_with_and_without_indicator():
    x = torch.randn(5, 6)
    plain, branched = small_network()(x), small_network(indicator=True)(x)
    assert plain.logits.shape == (5, 3)
    assert plain.features.shape == (5, 8)
    assert plain.confidence_logit is None
    assert branched.confidence_logit.shape == (5,)
    torch.testing.assert_close(branched.tau, branched.confidence_logit.sigmoid())


def test_a_seed_yields_the_same_classifier_with_and_without_indicator():
    x = torch.randn(5, 6)
    assert torch.equal(small_network()(x).logits, small_network(indicator=True)(x).logits)


@pytest.mark.parametrize(("layers", "linear"), [(1, 1), (2, 2), (4, 4)])
def test_indicator_depth(layers, linear):
    network = small_network(indicator=True, indicator_layers=layers)
    found = [module for module in network.indicator.modules() if isinstance(module, nn.Linear)]
    assert len(found) == linear
    assert found[-1].out_features == 1
    assert network(torch.randn(2, 6)).confidence_logit.shape == (2,)


def test_indicator_without_layers_is_refused():
    with pytest.raises(ValueError, match="at least 1 layer, got 0"):
        small_network(indicator=True, indicator_layers=0)


def test_uint8_pixels_are_normalised_in_raw_units():
    network = Network(
        as_backbone(nn.Flatten(), 12), 2, mean=[[[100.0]], [[50.0]], [[0.0]]], std=[[[10.0]], [[5.0]], [[2.0]]]
    )
    x = torch.tensor([120, 60, 8], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 2, 2)
    features = network(x).features
    assert features.dtype == torch.float32
    assert torch.equal(features, torch.tensor([[2.0, 2, 4]]).repeat_interleave(4, dim=1))


def test_mixing_raw_pixels_mixes_normalised_ones():
    network = Network(
        as_backbone(nn.Flatten(), 12), 2, mean=torch.full((3, 1, 1), 100.0), std=torch.full((3, 1, 1), 50.0)
    )
    a, b = (torch.randint(0, 256, (1, 3, 2, 2), dtype=torch.uint8) for _ in range(2))
    mixed = network(0.3 * a.float() + 0.7 * b.float()).features
    torch.testing.assert_close(mixed, 0.3 * network(a).features + 0.7 * network(b).features)


def test_a_constant_feature_is_not_divided_by_zero():
    network = Network(as_backbone(nn.Identity(), 2), 2, mean=[1.0, 3.0], std=[2.0, 0.0])
    assert torch.equal(network(torch.tensor([[5.0, 3.0]])).features, torch.tensor([[2.0, 0.0]]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.uint8, torch.int64])
def test_inputs_become_float32(dtype):
    outputs = small_network(indicator=True)(torch.ones(2, 6).to(dtype))
    assert {value.dtype for value in outputs} == {torch.float32}


def test_outputs_under_autocast_are_float32():
    network = small_network(indicator=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = network(torch.randn(2, 6))
        assert network.classifier(outputs.features).dtype == torch.bfloat16
    assert {value.dtype for value in outputs} == {torch.float32}


def test_float64_stays_and_takes_raw_bytes():
    network = small_network(indicator=True).double()
    for x in (torch.ones(2, 6, dtype=torch.float64), torch.ones(2, 6, dtype=torch.uint8)):
        assert {value.dtype for value in network(x)} == {torch.float64}


def test_gradient_of_tau_reaches_the_backbone():
    network = small_network(indicator=True)
    network(torch.randn(4, 6)).tau.sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in network.backbone.parameters())
    assert all(parameter.grad is None for parameter in network.classifier.parameters())


class TestFrozen:
    def body(self):
        return as_backbone(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)), 8)

    def test_the_backbone_gets_no_gradient_and_the_rest_does(self):
        network = Network(self.body(), 3, indicator=True, frozen=True)
        outputs = network(torch.randn(4, 6))
        (outputs.logits.sum() + outputs.tau.sum()).backward()
        assert all(p.grad is None and not p.requires_grad for p in network.backbone.parameters())
        assert all(p.grad is not None for p in [*network.classifier.parameters(), *network.indicator.parameters()])

    def test_it_stays_in_evaluation_mode(self):
        network = Network(self.body(), 3, frozen=True)
        before = {name: value.clone() for name, value in network.backbone.state_dict().items()}
        for mode in (True, False, True):
            assert network.train(mode).training is mode
            assert not any(module.training for module in network.backbone.modules())
            network(torch.randn(4, 6))
        assert all(torch.equal(value, before[name]) for name, value in network.backbone.state_dict().items())

    def test_copies_are_frozen_too(self):
        copied = copy.deepcopy(Network(self.body(), 3, frozen=True)).train()
        assert not copied.backbone.training

    def test_an_extractor_returns_the_networks_features(self):
        body, scale = self.body(), {"mean": torch.arange(6.0), "std": torch.arange(1.0, 7)}
        body.num_features = 8
        extractor = Extractor(body, **scale, frozen=True)
        x = torch.randn(3, 6)
        assert extractor.num_features == 8
        assert torch.equal(extractor(x), Network(body, 3, **scale, frozen=True)(x).features)
        assert set(extractor.state_dict()) == {"mean", "std", *(f"backbone.{name}" for name in body.state_dict())}


def test_the_state_dict_includes_the_normalisation():
    source = small_network(mean=torch.arange(6.0), std=torch.arange(1.0, 7), indicator=True)
    copied = small_network(mean=torch.zeros(6), std=torch.ones(6), indicator=True)
    copied.load_state_dict(source.state_dict())
    x = torch.randn(3, 6)
    assert torch.equal(copied(x).logits, source(x).logits)


def test_the_callers_statistics_are_not_shared():
    mean = torch.zeros(6)
    network = small_network(mean=mean)
    mean += 1
    assert torch.equal(network.mean, torch.zeros(6))


def test_deepcopy_is_independent():
    network = small_network(indicator=True)
    copied = copy.deepcopy(network)
    x = torch.randn(3, 6)
    before = network(x)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1)
    assert torch.equal(network(x).logits, before.logits)
    assert not torch.equal(copied(x).confidence_logit, before.confidence_logit)


class TestMirror:
    def test_tests_see_an_image_and_its_mirror_image_alike(self):
        network = Network(make_backbone("fast_cnn", (3, 20, 20)), 3, indicator=True, mirror=True).eval()
        x = torch.randn(4, 3, 20, 20)
        plain = Network(make_backbone("fast_cnn", (3, 20, 20)), 3, indicator=True).eval()
        plain.load_state_dict(network.state_dict())
        for one, two, seen in zip(plain(x), plain(x.flip(3)), network(x), strict=True):
            assert not torch.equal(one, two)
            torch.testing.assert_close(seen, (one + two) / 2)

    def test_training_and_vectors_are_as_without(self):
        torch.manual_seed(0)
        network = Network(make_backbone("fast_cnn", (3, 20, 20)), 3, mirror=True).train()
        plain = Network(make_backbone("fast_cnn", (3, 20, 20)), 3).train()
        plain.load_state_dict(network.state_dict())
        x = torch.randn(4, 3, 20, 20)
        assert torch.equal(network(x).logits, plain(x).logits)
        flat = Network(make_backbone("mlp", (5,)), 3, mirror=True).eval()
        assert flat(torch.randn(4, 5)).logits.shape == (4, 3)
