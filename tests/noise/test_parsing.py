"""Noise as it is written on the command line."""

import pytest

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise import parse_noise


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("symmetric:0.4", {"kind": "symmetric", "rate": 0.4}),
        ("symmetric:0.4:include", {"kind": "symmetric", "rate": 0.4, "include_true_class": True}),
        ("symmetric:0.4:bernoulli", {"kind": "symmetric", "rate": 0.4, "mode": "bernoulli"}),
        (
            "symmetric:0.4:include:bernoulli",
            {"kind": "symmetric", "rate": 0.4, "include_true_class": True, "mode": "bernoulli"},
        ),
        ("pair:0.3", {"kind": "pair", "rate": 0.3}),
        ("pair:0.3:bernoulli", {"kind": "pair", "rate": 0.3, "mode": "bernoulli"}),
        ("asymmetric:0.4", {"kind": "asymmetric", "rate": 0.4}),
        ("asymmetric:0.4:digits", {"kind": "asymmetric", "rate": 0.4, "class_map": "digits"}),
        ("superclass:4e-1", {"kind": "superclass", "rate": 0.4}),
        (
            "superclass:0.4:cifar100:bernoulli",
            {"kind": "superclass", "rate": 0.4, "groups": "cifar100", "mode": "bernoulli"},
        ),
        ("block:0.4", {"kind": "block", "rate": 0.4}),
        ("instance:0.4", {"kind": "instance", "rate": 0.4}),
        ("file:labels.npy", {"kind": "file", "path": "labels.npy"}),
        ("file:C:/a:b/labels.csv", {"kind": "file", "path": "C:/a:b/labels.csv"}),
    ],
)
def test_forms(text, settings):
    assert parse_noise(text) == settings
    NoiseConfig(**parse_noise(text))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", r"expected symmetric:RATE\[:include\]\[:bernoulli\], asymmetric:RATE\[:cifar10\|digits\]"),
        ("wavy:0.3", "instance:RATE or file:PATH"),
        ("file", "or file:PATH"),
        ("file:", "or file:PATH"),
        ("symmetric", "'' is not a rate"),
        ("symmetric:lots", r"'lots' is not a rate; expected a number in 0\.\.1"),
        ("symmetric:0.4:includ", r"expected symmetric:RATE\[:include\]\[:bernoulli\]"),
        ("symmetric:0.4:include:include", "each word once"),
        ("symmetric:0.4:", "each word once"),
        ("pair:0.3:include", r"expected pair:RATE\[:bernoulli\]"),
        ("asymmetric:0.3:cifar10:digits", "each word once"),
        ("instance:0.3:bernoulli", "expected instance:RATE"),
        ("matrix:0.3", r"matrix noise needs a matrix: --set noise\.kind=matrix"),
    ],
)
def test_an_error_is_one_line_with_the_allowed_forms(text, fault):
    with pytest.raises(ConfigError, match=f"^--noise {text}: .*{fault}") as caught:
        parse_noise(text)
    assert "\n" not in str(caught.value)
