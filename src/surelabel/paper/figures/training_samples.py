"""What a finished run says of the rows it was trained on, as arrays."""

from dataclasses import dataclass

import numpy as np

from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir


@dataclass(frozen=True)
class TrainingRows:
    """N rows in K classes."""

    ids: np.ndarray
    """(N,) str."""
    given: np.ndarray
    """(N,) class numbers."""
    clean: np.ndarray
    """(N,) class numbers; -1 where the clean label is not known."""
    tau: np.ndarray
    """(N,) the confidence at the last visit; NaN for methods without."""
    target: np.ndarray
    """(N, K) what the loss aimed at when training ended."""
    suggested: np.ndarray
    """(N,) class numbers: the method's verdict."""
    suggested_probability: np.ndarray
    """(N,)."""
    class_names: tuple[str, ...]

    @property
    def is_false(self) -> np.ndarray:
        """(N,) bool: the given label is not the clean one."""
        return self.given != self.clean

    @property
    def corrected(self) -> np.ndarray:
        """(N,) the class that the target names, which is the paper's corrected label."""
        return self.target.argmax(1)


def training_rows(run: RunDir) -> TrainingRows:
    """Held-out rows are left out: they have neither a target nor a visit."""
    samples, labels = run.samples(), run.labels()
    mine = np.flatnonzero(np.asarray(samples["split"].to_pylist()) == "train")
    clean_of = _clean_labels(labels)
    ids = np.asarray(samples["id"].to_pylist())[mine]
    names = tuple(run.data()["class_names"])
    target = samples["target"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, len(names))

    def column(name: str) -> np.ndarray:
        return np.asarray(samples[name].to_numpy())[mine]

    return TrainingRows(
        ids=ids,
        given=column("given"),
        clean=np.array([clean_of.get(id, -1) for id in ids.tolist()], dtype=np.int64),
        tau=column("tau").astype(np.float64),
        target=target[mine],
        suggested=column("suggested"),
        suggested_probability=column("suggested_probability"),
        class_names=names,
    )


def known_rows(run: RunDir) -> TrainingRows:
    """The same, or an error where clean labels are not known."""
    rows = training_rows(run)
    if (rows.clean < 0).any():
        raise RunError(f"{run.path}: the clean labels of this run are not known; there is nothing to compare with")
    return rows


def _clean_labels(labels: object) -> dict[str, int]:
    columns = [labels[name].to_pylist() for name in ("id", "split", "clean")]  # type: ignore[index]
    rows = zip(*columns, strict=True)
    return {id: clean for id, split, clean in rows if split == "train" and clean is not None}
