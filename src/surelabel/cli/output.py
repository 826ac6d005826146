"""Where commands may write."""

from pathlib import Path

from surelabel.errors import ConfigError


def output_file(file: Path) -> Path:
    """Return the file to write; raise if its folder does not exist."""
    not_a_folder(file, "FILE.csv")
    if not file.parent.is_dir():
        raise ConfigError(f"--out {file}: there is no folder {file.parent}; expected FILE.csv in a folder that exists")
    return file


def not_a_folder(file: Path, expected: str) -> Path:
    """Return the file to write; raise if it is a folder."""
    if file.is_dir():
        raise ConfigError(f"--out {file}: is a folder; expected {expected}")
    return file
