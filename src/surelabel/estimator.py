"""A scikit-learn classifier for labels that may be wrong, with any method and network."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from surelabel import api
from surelabel.config import RunConfig
from surelabel.console import Silent
from surelabel.data.sources.array_conversion import input_tensor
from surelabel.errors import ConfigError, SurelabelError


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Train on labels that may be wrong, predict, and judge every label.

    X is (N, D) numbers, as an array or a frame, or images as (N, H, W), (N, H, W, C) or
    (N, C, H, W); y is text or numbers.

    Parameters:
        method: name of the training method, as listed by `surelabel methods`.
        method_options: its options; the others keep their defaults.
        model: name of the network; auto chooses by the inputs.
        model_options: its options.
        epochs, batch_size, rate: epochs of the whole run, rows per batch, highest learning rate.
        random_state: a seed, a RandomState, or None for a different result each time.
        device, threads: auto, cpu, cuda or mps; CPU threads, None for PyTorch's choice.
        verbose: whether to show progress on stderr.
        out: a new run directory to keep, for `surelabel report` and `export`; None keeps none.
            `review` needs data that are files.
        settings: any other settings by dotted name, such as {"optimiser.clip": 5}; they take
            precedence. Not data.test_fraction, because test rows get no verdict.

    After `fit`, with rows in the order of X:
        classes_: (K,) labels, sorted.
        p_wrong_: (N,) the probability that each label is wrong.
        label_quality_: (N,) in [0, 1], the method's own score; low is suspicious.
        suggested_labels_: (N,) the labels that the run considers right.
        audit_: the whole verdict; its table has the most suspicious first, and the row of X.
        model_: the trained model, held in memory.

    >>> import numpy as np
    >>> import surelabel
    >>> y = np.arange(60) % 3
    >>> x = 4 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(60, 3))
    >>> y[7] = 0  # wrong: the row belongs to class 1
    >>> classifier = surelabel.NoisyLabelClassifier(epochs=20, model="mlp").fit(x, y)
    >>> int(classifier.p_wrong_.argmax()), int(classifier.suggested_labels_[7])
    (7, 1)
    """

    def __init__(
        self,
        method: str = "car",
        *,
        method_options: Mapping[str, Any] | None = None,
        model: str = "auto",
        model_options: Mapping[str, Any] | None = None,
        epochs: int = 100,
        batch_size: int = 64,
        rate: float = 0.05,
        random_state: Any = 0,
        device: str = "auto",
        threads: int | None = None,
        verbose: bool = False,
        out: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.method_options = method_options
        self.model = model
        self.model_options = model_options
        self.epochs = epochs
        self.batch_size = batch_size
        self.rate = rate
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.verbose = verbose
        self.out = out
        self.settings = settings

    def fit(self, X: Any, y: Any, group: Any = None, **unsupported: Any) -> Self:
        """Train on X and given labels y; without sample weights, which the method finds itself.

        `group` (N,) says which rows may share a mistake, such as those of one patient: they are
        left out together where a row is judged.
        """
        if unsupported:
            raise TypeError(
                f"NoisyLabelClassifier.fit takes X, y and group only, got {', '.join(unsupported)}; "
                "sample weights are not supported: the method itself finds out which labels to trust"
            )
        X, y = validate_data(self, X, y, allow_nd=True, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(_strip(y), return_inverse=True)
        data = {"x": X, "y": numbers, "class_names": _names(self.classes_), "group": group}
        with self._folder() as folder, self._progress() as progress, _as_value_errors():
            config = api.make_config(data, self._settings())
            _refuse_test_rows(config)
            run = api.fit_config(config, data, folder, progress)
            self.model_, self.audit_ = api.load(run, device=self._device(), trust=True), api.audit(run)
            place = {name: number for number, name in enumerate(data["class_names"].tolist())}
            self.classes_ = self.classes_[[place[name] for name in self.model_.class_names]]  # some may be merged
            self._keep_verdict(run.samples())
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)
        return f"{text}, fitted. {self.audit_!r}" if hasattr(self, "audit_") else str(text)

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._verdict_html()}"

    def _repr_mimebundle_(self, **extra: Any) -> dict[str, str]:
        found: dict[str, str] = super()._repr_mimebundle_(**extra)
        if "text/html" in found:
            found["text/html"] += self._verdict_html()
        return found

    def _verdict_html(self) -> str:
        return self.audit_._repr_html_() if hasattr(self, "audit_") else ""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return (N, K) probabilities, in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, allow_nd=True, reset=False)
        with _as_value_errors():
            probability = self.model_.predict_proba(input_tensor(X, "X")).astype(np.float64)
        scaled: np.ndarray = probability / probability.sum(1, keepdims=True)
        return scaled

    def predict(self, X: Any) -> np.ndarray:
        """Return (N,) labels."""
        best = self.predict_proba(X).argmax(1)  # first, because it refuses a model that is not fitted
        labels: np.ndarray = self.classes_[best]
        return labels

    def _settings(self) -> dict[str, Any]:
        return {
            "method.name": self.method,
            "method.options": dict(self.method_options or {}),
            "model.name": self.model,
            "model.options": dict(self.model_options or {}),
            "train.epochs": self.epochs,
            "train.batch_size": self.batch_size,
            "optimiser.rate": self.rate,
            "train.seed": self._seed(),
            "train.device": self.device,
            "train.threads": self.threads,
            **(self.settings or {}),
        }

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _device(self) -> str:
        """Return the device to predict on: the CPU unless another one is named."""
        return "cpu" if self.device == "auto" else self.device

    def _keep_verdict(self, samples: Any) -> None:
        """Keep the verdict in the order of X; in a run, held-out rows come last."""
        order = np.argsort(samples["row"].to_numpy())
        self.label_quality_ = samples["quality"].to_numpy()[order].astype(np.float64)
        self.suggested_labels_ = self.classes_[samples["suggested"].to_numpy()[order]]
        self.p_wrong_ = self.audit_.p_wrong

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        """Provide the run directory: `out`, or a temporary one."""
        if self.out is not None:
            yield Path(self.out)
            return
        with tempfile.TemporaryDirectory(prefix="surelabel-") as folder:
            yield Path(folder) / "run"

    @contextlib.contextmanager
    def _progress(self) -> Iterator[Any]:
        if not self.verbose:
            yield Silent()
            return
        from surelabel import console

        with console.progress(str(self.method)) as progress:
            yield progress


@contextlib.contextmanager
def _as_value_errors() -> Iterator[None]:
    """Turn our errors into ValueError, as users of scikit-learn expect."""
    try:
        yield
    except SurelabelError as error:
        raise ValueError(str(error)) from error


def _refuse_test_rows(config: RunConfig) -> None:
    if config.data.test_fraction is not None:
        raise ConfigError(
            "data.test_fraction: not supported here, because test rows get no verdict; split X before fit, "
            "or hold out rows with data.validation_fraction"
        )


def _strip(y: np.ndarray) -> np.ndarray:
    """Return labels (N,) without the spaces around text, as all sources read them."""
    if y.dtype.kind not in "OUT":
        return y
    return np.array([label.strip() if isinstance(label, str) else label for label in y.tolist()], dtype=y.dtype)


def _names(classes: np.ndarray) -> np.ndarray:
    """Return class names for the audit: the labels as text, or numbers if that is ambiguous."""
    names = np.array([str(label).strip() for label in classes.tolist()])
    is_plain = len(np.unique(names)) == len(names) and bool((names != "").all())
    return names if is_plain else np.arange(len(classes)).astype(np.str_)
