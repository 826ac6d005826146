"""Blobs with wrong labels, and a plain training loop that a Recorder watches."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

NAMES = ("cat", "dog", "fox")


@dataclass(frozen=True)
class Blobs:
    """Features, given labels and clean ones of three classes."""

    x: Tensor
    label: Tensor
    clean: Tensor

    @property
    def wrong(self) -> set[int]:
        return set(torch.nonzero(self.label != self.clean).squeeze(1).tolist())


def make_blobs(num_rows=300, rate=0.15, seed=0):
    rng = np.random.default_rng(seed)
    clean = np.arange(num_rows) % 3
    x = rng.normal(size=(num_rows, 4)) + 5 * np.eye(3, 4)[clean]
    label = np.where(rng.random(num_rows) < rate, (clean + 1) % 3, clean)
    return Blobs(*(torch.as_tensor(part) for part in (x.astype(np.float32), label, clean)))


@pytest.fixture(scope="session")
def blobs():
    return make_blobs()


def train(recorder, blobs, epochs=8, ends=True, seed=0):
    """Train a linear network in plain PyTorch; return it."""
    torch.manual_seed(seed)
    network = nn.Linear(4, 3)
    optimiser = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(epochs):
        for rows in torch.randperm(len(blobs.label)).split(32):
            logits = network(blobs.x[rows])
            recorder.see(rows, logits, blobs.label[rows])
            optimiser.zero_grad()
            F.cross_entropy(logits, blobs.label[rows]).backward()
            optimiser.step()
        if ends:
            recorder.end_epoch()
    return network


@pytest.fixture(scope="session")
def plain_loop():
    """The function that trains."""
    return train


@pytest.fixture(scope="session")
def names():
    return NAMES
