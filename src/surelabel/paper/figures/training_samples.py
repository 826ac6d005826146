"""The training samples of a finished run as arrays: labels, confidence, targets and suggestions."""

from dataclasses import dataclass

import numpy as np

from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import TopK


@dataclass(frozen=True)
class TrainingSamples:
    """N training samples of K classes."""

    ids: np.ndarray
    """(N,) str."""
    given: np.ndarray
    """(N,) class numbers."""
    clean: np.ndarray
    """(N,) class numbers; -1 if the clean label is not known."""
    tau: np.ndarray
    """(N,) the confidence in the last epoch; NaN for methods without one."""
    target: np.ndarray
    """(N, K) the targets of the loss at the end of training."""
    suggested: np.ndarray
    """(N,) class numbers that the method suggests."""
    suggested_probability: np.ndarray
    """(N,) probabilities of the suggestions."""
    class_names: tuple[str, ...]

    @property
    def is_false(self) -> np.ndarray:
        """(N,) whether the given label differs from the clean one."""
        return np.asarray(self.given != self.clean)

    @property
    def corrected(self) -> np.ndarray:
        """(N,) the class with the largest target: the corrected label of the paper."""
        return np.asarray(self.target.argmax(1))


def read_training_samples(run: RunDir) -> TrainingSamples:
    """Read the training samples; held-out ones have no targets and are left out."""
    samples, labels = run.samples(), run.labels()
    train = np.flatnonzero(np.asarray(samples["split"].to_pylist()) == "train")
    clean_of = _clean_labels(labels)
    ids = np.asarray(samples["id"].to_pylist())[train]
    names = tuple(run.data()["class_names"])
    target = TopK.from_table(samples, "target", len(names)).dense()

    def column(name: str) -> np.ndarray:
        return np.asarray(samples[name].to_numpy())[train]

    return TrainingSamples(
        ids=ids,
        given=column("given"),
        clean=np.array([clean_of.get(id, -1) for id in ids.tolist()], dtype=np.int64),
        tau=column("tau").astype(np.float64),
        target=target[train],
        suggested=column("suggested"),
        suggested_probability=column("suggested_probability"),
        class_names=names,
    )


def read_known_samples(run: RunDir) -> TrainingSamples:
    """Read the training samples, or raise if their clean labels are not known."""
    rows = read_training_samples(run)
    if (rows.clean < 0).any():
        raise RunError(f"{run.path}: the clean labels of this run are not known; there is nothing to compare with")
    return rows


def _clean_labels(labels: object) -> dict[str, int]:
    columns = [labels[name].to_pylist() for name in ("id", "split", "clean")]  # type: ignore[index]
    rows = zip(*columns, strict=True)
    return {id: clean for id, split, clean in rows if split == "train" and clean is not None}
