"""Show what fewer landmarks do to the second opinion, on CIFAR-10 with 40 % symmetric noise.

    python benchmarks/landmarks.py --cifar10 FOLDER

The Gaussian kernels of the second opinion have 1,000 landmarks up to 249,000 rows of 10 classes, or
167,000 rows of 1,000, and fewer above, so that their time stays in proportion to the rows. Here the
same rows are judged with 1,000 and with as many as very large data get: 497 (a million rows, 10
classes), 309 (a million, 1,000 classes), 100, and none. Printed are the loss of the pooled
leave-one-out predictions on the given labels, how many of their first classes are right, and the
AUROC of the given class's probability.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.special import softmax

from surelabel.config import DataConfig, NoiseConfig
from surelabel.training import build
from surelabel.training.second_opinion import feature_sets
from surelabel.verdicts import probe
from surelabel.verdicts.measures import auroc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--landmarks", type=int, nargs="+", default=[1000, 497, 309, 100, 0])
    options = parser.parse_args()
    data = DataConfig(source="cifar10", root=str(options.cifar10))
    noise = NoiseConfig(kind="symmetric", rate=0.4, include_true_class=True)
    print("| seed | rows | landmarks | loss | right | AUROC |")
    print("|---|---|---|---|---|---|", flush=True)
    for seed in options.seeds:
        corpus, _ = build.corpus(data, noise, seed)
        rows = corpus.train
        assert rows.clean is not None
        given, clean = rows.label.numpy(), rows.clean.numpy()
        features = feature_sets([rows], seed)
        for num_landmarks in options.landmarks:
            probe.NUM_LANDMARKS = num_landmarks
            opinion = probe.second_opinion(features, given, corpus.num_classes, seed)
            assert opinion is not None
            probability = softmax(opinion.logits[:], axis=1)
            at_given = probability[np.arange(len(given)), given]
            cells = (
                -np.log(at_given).mean(),
                (probability.argmax(1) == clean).mean(),
                auroc(at_given, given != clean),
            )
            figures = " | ".join(f"{cell:.4f}" for cell in cells)
            print(f"| {seed} | {len(given):,} | {num_landmarks:,} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
