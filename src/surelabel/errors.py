"""Errors that users can cause, which end a command with one line and code 2."""

import difflib
import errno
from collections.abc import Iterable


class SurelabelError(Exception):
    """An error the user can fix: the message names what is wrong and what is allowed.

    >>> import surelabel
    >>> surelabel.fit("digits", "runs/first", epochs=0)
    Traceback (most recent call last):
    surelabel.errors.ConfigError: train.epochs: input should be greater than or equal to 1, got 0
    """


class DataError(SurelabelError):
    """Bad input data: the message names the file, row or array."""


class ConfigError(SurelabelError):
    """A setting that does not exist or has a value that is not allowed."""


class RunError(SurelabelError):
    """A run directory that is missing, in use, damaged or not of the expected kind."""


class NotFiniteError(SurelabelError):
    """A loss term is no longer finite; the last good state is kept."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question whether a similar name was meant, for a message; empty if none is."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}? " if near else ""


def describe_os_error(error: OSError) -> str:
    """Say on one line which file the system could not read or write, and why."""
    reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"{reason}; free some space first" if is_full else reason


def missing_package(feature: str, package: str, extra: str) -> ConfigError:
    """Return the error about a package that is not installed, with the extra that installs it."""
    return ConfigError(f"{feature} needs the package {package}: pip install 'surelabel[{extra}]'")
