"""The run directory: the only interface between training and everything after it.

    config.json          the whole configuration
    data.json            schema version, class names, input shape, sizes, hash of the training data
    noise.json           manifest of injected noise, if any
    env.json             versions, machine, device, processes
    encoder.json         how images, text, or columns of a table become features, if they do
    encoder.safetensors  weights of the terms of text, or of a network that pip does not install
    head.json            which networks, on inputs or features, were compared, and the choice
    labels.parquet       id, given, clean (null if unknown), split of training and held-out rows
    metrics.jsonl        one JSON object per epoch
    state.safetensors    resume state
    folds/NUMBER         the state or the predictions of a fold, until training ends
    lock                 held while a process trains here
    wandb.json           id of the Weights & Biases run, if logged there
    checksums.json       checksums of these files (runs/checksums.py)

and, when training has ended:

    second_opinion.json  the models of the second opinion and how many errors they would find;
                         without one, whether right and wrong labels came apart
    trajectory.safetensors   p of the given and of three other classes, at up to 20 checkpoints
    neighbours.safetensors   the nearest rows of each row, if there are not too many
    samples.parquet      the verdict on every row, with P(wrong) as it was when training ended
    model.safetensors    the weights
    done                 a summary; its presence says that the run is finished
    decisions.jsonl      what people decided (runs/decisions.py)
    decisions.count      how many entries that file had at least (runs/entry_count.py)

Every file is written whole: to a temporary name, synced, renamed. Metrics are appended and synced.
Links are never written through. Files are read only if they are as they were written.
"""

import contextlib
import json
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from surelabel import files, notebook
from surelabel.config import RunConfig, validate
from surelabel.errors import ConfigError, RunError
from surelabel.runs import checksums, decisions, description, tables
from surelabel.runs.entry_count import count_file
from surelabel.runs.metrics import read_line
from surelabel.runs.samples import TopK

SCHEMA_VERSION = 2
"""The only schema that this version reads."""
OPINION_FILE = "second_opinion.json"
ENCODER_FILE, ENCODER_TENSORS = "encoder.json", "encoder.safetensors"
HEAD_FILE = "head.json"
TRAJECTORY_FILE, NEIGHBOURS_FILE = "trajectory.safetensors", "neighbours.safetensors"
FOLDS_FOLDER = "folds"
RECORDED = "recorded"
"""In data.json of a run that another training loop recorded: what evidence is missing."""
METRICS_FILE = "metrics.jsonl"
START_FILES = (
    "lock",
    checksums.FILE_NAME,
    "config.json",
    "env.json",
    "noise.json",
    "labels.parquet",
    ENCODER_TENSORS,
    ENCODER_FILE,
    HEAD_FILE,
)
"""Files written before data.json."""
END_FILES = (
    OPINION_FILE,
    TRAJECTORY_FILE,
    NEIGHBOURS_FILE,
    "samples.parquet",
    "model.safetensors",
    "done",
)
"""Files written when training has ended, in this order."""
RUN_FILES = (*START_FILES, "data.json", METRICS_FILE, "state.safetensors", *END_FILES)
"""All files that training writes."""


class RunDir:
    """A run on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._config: tuple[dict[str, Any], RunConfig] | None = None
        self._checksums = checksums.Checksums(self.path)

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r}): {', '.join(self._about().values())}"

    def _repr_html_(self) -> str:
        return notebook.table(("run", str(self.path)), self._about().items())

    def _about(self) -> dict[str, str]:
        """Describe the run in a few words, whatever its state."""
        try:
            if not self.is_prepared:
                return {"state": "not begun" if self.has_begun else "no run yet"}
            config, epochs = self.config(), len(self.metrics())
            state = "finished" if self.is_done else "not finished"
            labels = f"{self.data()['num_train']:,} training rows"
            progress = f"{epochs} epochs" if self.is_done else f"{epochs} of {config.train.epochs} epochs"
            about = {"method": config.method.name, "data": config.data.source, "labels": labels}
            return {**about, "epochs": progress, "state": state}
        except (RunError, ConfigError, KeyError, TypeError, ValueError) as error:
            return {"state": f"not readable: {error}"}

    @classmethod
    def open(cls, path: str | Path) -> "RunDir":
        """Open an existing run of a schema that this version reads."""
        run = cls(path)
        run.check_schema()
        return run

    def check_schema(self) -> None:
        """Raise if there is no run here, or one of a schema that this version does not read."""
        if not self.has_begun:
            raise RunError(f"{self.path}: not a run directory (it has no data.json)")
        if not self.is_prepared:
            self.require_done()
        self.data()

    @property
    def state_file(self) -> Path:
        """The resume state."""
        return self.path / "state.safetensors"

    @property
    def weights_file(self) -> Path:
        """The weights of the finished run."""
        return self.path / "model.safetensors"

    @property
    def has_model(self) -> bool:
        """Whether the run has a trained model; one that another training loop recorded has none."""
        return self.has(self.weights_file.name)

    @property
    def has_begun(self) -> bool:
        """Whether `resume` can go on here: a process has claimed it and written config.json.

        Every start creates the lock first. A config.json without a lock belongs to the user.
        """
        return self.is_prepared or all((self.path / name).is_file() for name in ("lock", "config.json"))

    @property
    def is_prepared(self) -> bool:
        """Whether everything that describes the run is written; data.json is written last."""
        return (self.path / "data.json").is_file()

    @property
    def is_free(self) -> bool:
        """Whether a run may begin here: the folder is new, empty, or left by a killed start."""
        names = {file.name for file in self.path.iterdir()} if self.path.is_dir() else set()
        if self.path.exists() and not self.path.is_dir():
            return False
        return not names or (not self.has_begun and "lock" in names and self._are_leftovers(names))

    def _are_leftovers(self, names: set[str]) -> bool:
        return all(name in START_FILES or name.endswith(files.TEMPORARY_SUFFIX) for name in names)

    @property
    def is_done(self) -> bool:
        """Whether training has ended."""
        return (self.path / "done").is_file()

    def own_files(self) -> list[Path]:
        """List every file that surelabel writes in a run, including people's decisions."""
        journal = self.path / decisions.FILE_NAME
        return [journal, count_file(journal), *(self.path / name for name in (*RUN_FILES, "wandb.json"))]

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """Hold a free folder for a new run; one that fails before it is prepared leaves nothing."""
        self._require_free()
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        with self.locked():
            self._require_free()  # again: another process may have used it before it was locked
            try:
                self._remove_start()
                yield
            except Exception:
                if not self.is_prepared:
                    self._remove_start()
                    (self.path / "lock").unlink(missing_ok=True)
                    with contextlib.suppress(OSError):  # another process may have begun there
                        for folder in missing:
                            folder.rmdir()
                raise

    def _require_free(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path}: is a file; choose a new folder for the run")
        if not self.is_free:
            hint = "choose another folder"
            if self.has_begun and not self.is_done:
                hint = f"resume the run with: surelabel resume {shlex.quote(str(self.path))}"
            raise RunError(f"{self.path}: this folder is not empty; {hint}")

    def _remove_start(self) -> None:
        """Delete the files of a failed start; without config.json, the first, it is none."""
        for name in ("config.json", *START_FILES):
            if name != "lock":
                (self.path / name).unlink(missing_ok=True)

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
        """Let `write` fill a temporary file, then move it into place in one atomic step."""
        self._checksums.replace(name, write)

    def write_stream(self, name: str, write: Callable[[IO[bytes]], Any]) -> None:
        """Write a binary file through an open file, whole."""

        def fill(temporary: Path) -> None:
            with temporary.open("wb") as file:
                write(file)

        self.write(name, fill)

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file, whole."""
        text = json.dumps(content, indent=2, allow_nan=False) + "\n"
        self.write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def checked(self, name: str, remedy: str | None = None) -> Path:
        """Return the path of a file to read; raise if it is missing, or not as it was written.

        `remedy` says what to do about a damaged one.
        """
        path = self.path / name
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # reading from a pipe would wait for ever
                raise RunError(f"{path}: not readable: expected a file, found a folder or a device")
            self._checksums.verify(name, remedy)
        except OSError as error:
            raise RunError(f"{path}: not readable: {error.strerror}") from None
        return path

    def write_config(self, config: RunConfig) -> None:
        """Write config.json; `config()` then returns this object without validating it again."""
        content = config.model_dump(mode="json")
        self.write_json("config.json", content)
        self._config = content, config

    def write_table(self, name: str, columns: Mapping[str, Any]) -> None:
        """Write a parquet file, whole; two-dimensional arrays become lists."""
        import pyarrow as pa

        def column(values: Any) -> Any:
            if isinstance(values, pa.Array):
                return values
            if getattr(values, "ndim", 1) == 2:
                return pa.FixedSizeListArray.from_arrays(column(values.reshape(-1)), values.shape[1])
            return pa.array(values, from_pandas=True)  # NaN means unknown: null

        table = pa.table({key: column(values) for key, values in columns.items()})
        self.write(name, lambda path: files.write_parquet(path, table))

    def write_samples(self, columns: Mapping[str, Any]) -> None:
        """Write samples.parquet; a column may be an array or a TopK."""
        stored: dict[str, Any] = {}
        for name, values in columns.items():
            stored |= values.to_columns(name) if isinstance(values, TopK) else {name: values}
        self.write_table("samples.parquet", stored)

    def write_tensors(self, name: str, tensors: dict[str, Any]) -> None:
        """Write a safetensors file, whole."""
        from safetensors.torch import save_file

        self.write(name, lambda path: save_file(tensors, path))

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Add the metrics of an epoch."""
        self._checksums.forget(METRICS_FILE)  # while it grows, lines of a damaged file are not JSON
        files.append_line(self.path / METRICS_FILE, json.dumps(row))

    def rewrite_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Keep exactly these epochs: a resumed run drops lines that its state has not reached."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.write(METRICS_FILE, lambda path: path.write_text(text, encoding="utf-8"))

    def config(self) -> RunConfig:
        """Return the configuration; it is validated again only if the file has changed."""
        content = self._read_json("config.json")
        if self._config is None or self._config[0] != content:
            self._config = content, validate(content)
        return self._config[1]

    def data(self) -> dict[str, Any]:
        """Return the content of data.json; raise if its schema or a field of it is not readable."""
        content = self._read_json("data.json")
        version = content.get("schema")
        if version != SCHEMA_VERSION:  # other schemas may have other fields
            raise RunError(f"{self.path}: written with run schema {version}; this version reads {SCHEMA_VERSION}")
        with self._naming("data.json"):
            description.check(content)
        return content

    def environment(self) -> dict[str, Any]:
        """Return the content of env.json: versions, machine, device."""
        return self._read_json("env.json")

    def metrics(self) -> list[dict[str, Any]]:
        """Return one mapping per finished epoch."""
        if not self.has(METRICS_FILE):
            return []
        file = self.checked(METRICS_FILE)
        # A line that is not UTF-8 is not JSON either.
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(read_line(line))
            except ValueError as error:
                # A crash cut the last line short: that epoch is not in the resume state either.
                if number < len(lines) or self.is_done:
                    raise RunError(f"{file}: line {number} is not readable: {error}") from None
        return rows

    def labels(self) -> Any:
        """Return labels.parquet as an arrow table; raise if it does not fit data.json."""
        table = self._read_table("labels.parquet")
        with self._naming("labels.parquet"):
            tables.check_labels(table, self.data())
        return table

    def samples(self) -> Any:
        """Return samples.parquet of a finished run as an arrow table, which must fit data.json.

        `TopK.from_table` reads the columns target and probability.
        """
        self.require_done()
        table = self._read_table("samples.parquet")
        with self._naming("samples.parquet"):
            tables.check_samples(table, self.data())
        return table

    def second_opinion(self) -> dict[str, Any]:
        """Return second_opinion.json; empty if a run has no such file."""
        return self._read_json(OPINION_FILE) if self.has(OPINION_FILE) else {}

    def network_choice(self) -> dict[str, Any]:
        """Return which network was chosen, and why; empty if nothing was open."""
        return self._read_json(HEAD_FILE) if self.has(HEAD_FILE) else {}

    def encoder(self) -> dict[str, Any] | None:
        """Return encoder.json; None if the inputs of the run are images or numbers."""
        return self._read_json(ENCODER_FILE) if self.has(ENCODER_FILE) else None

    def has(self, name: str) -> bool:
        """Return whether the run has a file, or had it: a lost one is an error when it is read."""
        return (self.path / name).exists() or self._checksums.lists(name)

    def remove(self, name: str) -> None:
        """Delete a file of an interrupted start."""
        self._checksums.forget(name)
        (self.path / name).unlink(missing_ok=True)

    def require_done(self) -> None:
        """Raise an error that says how to finish the run if training has not ended."""
        if not self.is_done:
            if (self.path / "done").exists():
                self.checked("done")  # not a file: damage
            raise RunError(
                f"{self.path}: this run has not ended; finish it with: surelabel resume {shlex.quote(str(self.path))}"
            )

    def tensors(self, name: str) -> dict[str, Any]:
        """Return the tensors of a safetensors file, by name."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        file = self.checked(name)
        try:
            found: dict[str, Any] = load_file(file)
            return found
        except (OSError, SafetensorError) as error:
            raise RunError(f"{file}: not readable: {' '.join(str(error).split())}") from None

    def find_tensors(self, name: str) -> dict[str, Any]:
        """Return the tensors of a file that a run may lack; none if it does."""
        return self.tensors(name) if self.has(name) else {}

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Name a file whose content is not as it should be."""
        try:
            yield
        except ValueError as error:
            raise RunError(f"{self.path / name}: {error}") from None

    def _read_table(self, name: str) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = self.checked(name)
        try:
            with file.open("rb") as stream:  # pyarrow takes only names in UTF-8
                return pq.read_table(stream)
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{file}: not readable: {' '.join(str(error).split())}") from None

    def _read_json(self, name: str) -> dict[str, Any]:
        file = self.checked(name)
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{file}: not readable: {error}") from None
        if not isinstance(content, dict):
            raise RunError(f"{file}: not readable: expected a JSON object, got {type(content).__name__}")
        return content
