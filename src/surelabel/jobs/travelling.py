"""A finished run on its way from one disk to another: files as bytes, which nobody executes."""

import re
from pathlib import Path

from surelabel.config import RunConfig
from surelabel.errors import RunError
from surelabel.files import replace_bytes
from surelabel.runs.run_dir import RunDir

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
STAYS = {"lock", "state.pt"}
LAST = "done"
"""The file that says that a run is whole."""


def packed(path: Path) -> dict[str, bytes]:
    """The files of a finished run directory, by name."""
    RunDir.open(path).require_done()
    files = (file for file in path.iterdir() if file.is_file() and SAFE_NAME.fullmatch(file.name))
    return {file.name: file.read_bytes() for file in files if file.name not in STAYS}


def unpack(files: dict[str, bytes], path: Path, config: RunConfig) -> None:
    """Put a run that trained elsewhere into its place here, with the configuration as it is meant here."""
    _check(files, path)
    run = RunDir(path)
    content = {name: files[name] for name in files if name not in (LAST, "config.json")}
    with run.locked():
        run.write_json("config.json", config.model_dump(mode="json"))
        for name, data in [*content.items(), (LAST, files[LAST])]:
            replace_bytes(path / name, data)
        run.state_file.unlink(missing_ok=True)  # of an earlier attempt that was made here


def _check(files: dict[str, bytes], path: Path) -> None:
    for name, data in files.items():
        if not isinstance(name, str) or not SAFE_NAME.fullmatch(name) or name in STAYS:
            raise RunError(f"{path}: a file called {name!r} came back, which a run does not have")
        if not isinstance(data, bytes):
            raise RunError(f"{path}: {name} came back as {type(data).__name__}, not as bytes")
    if missing := {LAST, "config.json", "data.json"} - set(files):
        raise RunError(f"{path}: came back without {', '.join(sorted(missing))}")
