"""The noise of the presets, by the words that stand in table cells; docs/decisions/0008-reproduction.md tells why it is this one."""

from surelabel.config import NoiseConfig

SYMMETRIC = ("symmetric:0.2", "symmetric:0.4", "symmetric:0.6", "symmetric:0.8")
ASYMMETRIC, BLOCK = "asymmetric:0.4", "block:0.4"
"""On CIFAR-100 asymmetric is by true superclasses, as the paper's text has it, and block is what the code of its sources does."""

ASYMMETRIC_NOISES = {"cifar10": (ASYMMETRIC,), "cifar100": (ASYMMETRIC, BLOCK)}
_ASYMMETRIC_KINDS = {"cifar10": "asymmetric", "cifar100": "superclass"}


def noises_of(data: str, symmetric: tuple[str, ...] = SYMMETRIC) -> tuple[str, ...]:
    """The noises of a table for one data set."""
    return (*symmetric, *ASYMMETRIC_NOISES[data])


def noise_config(data: str, noise: str) -> NoiseConfig:
    """What a word such as symmetric:0.4 means on a data set."""
    word, _, rate = noise.partition(":")
    kind = _ASYMMETRIC_KINDS[data] if noise.startswith("asymmetric") else word
    # The works that the paper follows draw the new label from all classes: "80 %" is 72 % with ten of them.
    return NoiseConfig.model_validate(
        {"kind": kind, "rate": float(rate), "include_true_class": noise.startswith("symmetric")}
    )
