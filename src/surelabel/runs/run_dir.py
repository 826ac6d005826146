"""The run directory: the only interface between training and everything after it.

    config.json      the whole configuration
    data.json        schema version, class names, input shape, sizes, a hash of the training data
    noise.json       manifest of injected noise, if any
    env.json         versions, machine, device, processes
    features.safetensors  the frozen backbone, where the run trains on its features
    labels.parquet   id, given, clean (null where unknown), split: one row per training and held-out sample
    metrics.jsonl    one JSON object per epoch
    state.pt         resume state (loads with weights_only)
    model.safetensors, samples.parquet, done    when training has ended

Every file is written whole: to a temporary name, synced, renamed; metrics are appended and synced. Links are never written through.
"""

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from surelabel import files
from surelabel.config import RunConfig, validate
from surelabel.errors import RunError
from surelabel.runs import decisions

SCHEMA_VERSION = 1
START_FILES = ("lock", "config.json", "env.json", "noise.json", "labels.parquet", "features.safetensors")
"""What is written before data.json, whose presence says that a run has begun."""


RUN_FILES = (*START_FILES, "data.json", "metrics.jsonl", "state.pt", "model.safetensors", "samples.parquet", "done")
"""What training writes."""


class RunDir:
    """A run on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def open(cls, path: str | Path) -> "RunDir":
        """An existing run of a schema that this version reads."""
        run = cls(path)
        if not run.has_begun:
            raise RunError(f"{path}: not a run directory (it has no data.json)")
        version = run.data().get("schema")
        if version != SCHEMA_VERSION:
            raise RunError(f"{path}: written with run schema {version}; this version reads {SCHEMA_VERSION}")
        return run

    @property
    def state_file(self) -> Path:
        """Resume state."""
        return self.path / "state.pt"

    @property
    def weights_file(self) -> Path:
        """Weights of the finished run."""
        return self.path / "model.safetensors"

    @property
    def has_begun(self) -> bool:
        """Whether everything that describes the run is written; data.json is the last of it."""
        return (self.path / "data.json").is_file()

    @property
    def is_free(self) -> bool:
        """Whether a run may begin here: nothing is there, or only what a start that was cut short has left.

        Such a start has made the lock first; without one, a config.json or labels.parquet is the user's.
        """
        names = {file.name for file in self.path.iterdir()} if self.path.is_dir() else set()
        if self.path.exists() and not self.path.is_dir():
            return False
        return not names or (not self.has_begun and "lock" in names and self._are_leftovers(names))

    def _are_leftovers(self, names: set[str]) -> bool:
        return all(name in START_FILES or name.endswith(files.TEMPORARY) for name in names)

    @property
    def is_done(self) -> bool:
        """Whether training has ended."""
        return (self.path / "done").is_file()

    def own_files(self) -> list[Path]:
        """List the files that later commands read: what training wrote, and the decisions of people."""
        return [self.path / name for name in (*RUN_FILES, decisions.FILE_NAME, "wandb.json")]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; a second one is refused."""
        self.path.mkdir(parents=True, exist_ok=True)
        with files.locked(self.path / "lock", busy=self._refuse_second):
            files.remove_unfinished(self.path)
            yield

    def _refuse_second(self) -> None:
        raise RunError(f"{self.path}: another process is training in this run directory")

    def write(self, name: str, write: Callable[[Path], Any]) -> None:
        """Let `write` fill a temporary file, then put it in place in one step that a crash cannot halve."""
        files.replace(self.path / name, write)

    def write_json(self, name: str, content: Any) -> None:
        """A JSON file, whole."""
        text = json.dumps(content, indent=2, allow_nan=False) + "\n"
        files.replace_text(self.path / name, text)

    def write_table(self, name: str, columns: dict[str, Any]) -> None:
        """A parquet file, whole; two-dimensional arrays become lists."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        def column(values: Any) -> Any:
            if isinstance(values, pa.Array):
                return values
            if getattr(values, "ndim", 1) == 2:
                return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
            return pa.array(values, from_pandas=True)  # NaN means that there is no value: null

        table = pa.table({key: column(values) for key, values in columns.items()})
        self.write(name, lambda path: pq.write_table(table, path))

    def append_metrics(self, row: dict[str, Any]) -> None:
        """One more epoch."""
        files.append_line(self.path / "metrics.jsonl", json.dumps(row))

    def rewrite_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Exactly these epochs: what a resumed run starts from, without lines that its state has not reached."""
        files.replace_text(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def config(self) -> RunConfig:
        """The configuration."""
        return validate(self._read_json("config.json"))

    def data(self) -> dict[str, Any]:
        """What data.json holds."""
        return self._read_json("data.json")

    def environment(self) -> dict[str, Any]:
        """What env.json holds: versions, machine, device."""
        return self._read_json("env.json")

    def metrics(self) -> list[dict[str, Any]]:
        """One mapping per finished epoch."""
        file = self.path / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(json.loads(line))
            except ValueError:
                if number < len(lines):
                    raise RunError(f"{file}: line {number} is not readable as JSON") from None
                # A crash cut the last line short: that epoch is not in the resume state either.
        return rows

    def labels(self) -> Any:
        """labels.parquet as an arrow table."""
        return self._read_table("labels.parquet")

    def samples(self) -> Any:
        """samples.parquet as an arrow table; only a finished run has it."""
        self.require_done()
        return self._read_table("samples.parquet")

    def require_done(self) -> None:
        """An error that says how to go on, where training has not ended."""
        if not self.is_done:
            raise RunError(
                f"{self.path}: this run has not ended; finish it with: surelabel resume {shlex.quote(str(self.path))}"
            )

    def _read_table(self, name: str) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_table(self.path / name)
        except (OSError, pa.ArrowInvalid) as error:
            raise RunError(f"{self.path / name}: not readable: {' '.join(str(error).split())}") from None

    def _read_json(self, name: str) -> Any:
        try:
            content = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name}: not readable: {error}") from None
        if not isinstance(content, dict):
            raise RunError(f"{self.path / name}: not readable: expected a JSON object, got {type(content).__name__}")
        return content


def read_tensors(file: Path) -> dict[str, Any]:
    """The tensors of a safetensors file, by name."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{file}: not readable: {' '.join(str(error).split())}") from None
