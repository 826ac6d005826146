"""The files that describe a run: written when it begins, checked when it is resumed."""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import surelabel
from surelabel import launcher, noise
from surelabel.config import RunConfig
from surelabel.core.collective import world_size
from surelabel.data.corpus import Corpus
from surelabel.errors import RunError
from surelabel.files import checksum
from surelabel.runs.run_dir import SCHEMA_VERSION, RunDir


@contextlib.contextmanager
def claimed(run_dir: RunDir, config: RunConfig | None = None) -> Iterator[None]:
    """Hold a run directory from its first moment, for a new run if `config` is given.

    A new run is one that `resume` can start over at once. Only the first of several processes acts.
    """
    rank, *_ = launcher.started_as()
    if rank:
        yield
    elif config is None:
        with run_dir.locked():
            yield
    else:
        with run_dir.begun():
            run_dir.write_json("env.json", {"folder": str(Path.cwd())})
            run_dir.write_config(config)
            yield


def check_or_write(
    run_dir: RunDir, config: RunConfig, corpus: Corpus, manifest: noise.Manifest | None, device: torch.device
) -> None:
    """Write the files that describe the run, or check that data and noise have not changed."""
    digests = _digests(run_dir, config, corpus)
    data = {
        "schema": SCHEMA_VERSION,
        "class_names": list(corpus.class_names),
        "input_shape": list(corpus.train.input_shape),
        "stored_shape": list(corpus.train.x.shape[1:]),
        "num_train": len(corpus.train),
        "num_validation": 0 if corpus.validation is None else len(corpus.validation),
        "tests": {name: len(rows) for name, rows in corpus.tests.items()},
        "fingerprint": corpus.fingerprint(digests),
        "digests": digests,
    }
    if run_dir.is_prepared:
        _check_data(run_dir, run_dir.data(), data, manifest)
        if run_dir.config() != config:
            run_dir.write_config(config)
        return
    run_dir.write_config(config)
    run_dir.write_json("env.json", _environment(device))
    if manifest is not None:
        run_dir.write_json("noise.json", manifest.to_dict())
    run_dir.write_table("labels.parquet", _label_columns(corpus))
    run_dir.write_json("data.json", data)


def _digests(run_dir: RunDir, config: RunConfig, corpus: Corpus) -> dict[str, str]:
    """Hash everything that training reads: the data, and the files of weights that it starts from.

    A saved state replaces a warm start.
    """
    found, files = corpus.digests(), dict[str, Path]()
    if config.model.weights is not None:
        files["model.weights"] = Path(config.model.weights)
    if config.train.warm_start is not None and not run_dir.state_file.exists():
        files["train.warm_start"] = RunDir(config.train.warm_start).weights_file
    return found | {name: checksum(file) for name, file in files.items() if file.is_file()}


def _check_data(run_dir: RunDir, begun: dict[str, Any], data: dict[str, Any], manifest: noise.Manifest | None) -> None:
    """Raise if anything that training reads has changed, and say what."""
    before, now = begun["digests"], data["digests"]
    ignored = {"train.warm_start"} if run_dir.state_file.exists() else set()
    changed = [name for name in {**now, **before} if before.get(name) != now.get(name) and name not in ignored]
    if all(name.startswith("labels") for name in changed):
        _check_noise(run_dir, manifest)  # other noise makes other labels
    if changed or {**begun, "digests": {}} != {**data, "digests": {}}:
        what = f" ({', '.join(changed)})" if changed else ""
        raise RunError(f"{run_dir.path}: the data have changed since this run began{what}; start a new run")


def _check_noise(run_dir: RunDir, manifest: noise.Manifest | None) -> None:
    """Check that noise, which is drawn again, is the same as when the run began."""
    file = run_dir.path / "noise.json"
    if (manifest is not None) != file.exists():
        fault = "there is none" if manifest is not None else "there is one, and no noise is configured"
        raise RunError(f"{file}: {fault}; start a new run")
    faults = (
        ""
        if manifest is None
        else noise.describe_differences(manifest, noise.read_manifest(run_dir.checked("noise.json")))
    )
    if faults:
        raise RunError(f"{file}: the noise differs from that at the start of this run: {faults}; start a new run")


def _label_columns(corpus: Corpus) -> dict[str, Any]:
    parts = {"train": corpus.train} | ({"validation": corpus.validation} if corpus.validation is not None else {})
    clean = [rows.clean.tolist() if rows.clean is not None else [None] * len(rows) for rows in parts.values()]
    import pyarrow as pa

    return {
        "id": np.concatenate([rows.ids.astype(str) for rows in parts.values()]),
        "given": np.concatenate([rows.label.numpy() for rows in parts.values()]),
        "clean": pa.array([value for values in clean for value in values], type=pa.int64()),
        "split": np.concatenate([np.full(len(rows), name) for name, rows in parts.items()]),
    }


def _environment(device: torch.device) -> dict[str, Any]:
    return {
        "surelabel": surelabel.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cpu_count": os.cpu_count(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "",
        "processes": world_size(),
        "threads": torch.get_num_threads(),
        "folder": str(Path.cwd()),
    }
