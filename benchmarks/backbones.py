"""Time the training steps of backbones: samples per second, and relative to the first one named.

    python benchmarks/backbones.py fast_cnn cnn resnet18
        [--side 32] [--batch 128] [--threads 2] [--rounds 12]

A step is forward, cross entropy, backward and SGD with momentum, on random images. The networks
take turns, so that other load on the machine affects all of them. The result is the median over
rounds, shown with the best round.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from surelabel.models import Network, make_backbone


def make_step(name: str, side: int, batch: int) -> Callable[[], None]:
    """Return a function that does one training step of a new network."""
    torch.manual_seed(0)
    backbone = make_backbone(name, (3, side, side))
    network = Network(backbone, 10, mean=[[[128.0]]], std=[[[64.0]]])
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    x = torch.randint(0, 256, (batch, 3, side, side), dtype=torch.uint8)
    label = torch.randint(0, 10, (batch,))

    def step() -> None:
        loss = F.cross_entropy(network(x).logits, label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def time_step(step: Callable[[], None]) -> float:
    """Return the seconds that one step takes."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main() -> None:
    """Time the backbones in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    steps = {name: make_step(name, options.side, options.batch) for name in options.names}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(options.rounds + 2):
        for name, step in steps.items():
            taken = time_step(step)
            if number >= 2:  # the first steps allocate memory
                times[name].append(taken)
    first = statistics.median(times[options.names[0]])
    for name, taken in times.items():
        middle, best = statistics.median(taken), min(taken)
        print(f"{name:20} {options.batch / middle:8.0f}/s  best {options.batch / best:8.0f}/s  {first / middle:6.2f} x")


if __name__ == "__main__":
    main()
