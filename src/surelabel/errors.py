"""Errors that users can cause; the command line prints them on one line and exits with code 2."""

import errno


class SurelabelError(Exception):
    """An error the user can fix: the message names what is wrong and what is allowed."""


class DataError(SurelabelError):
    """Bad input data: the message names the file, row or array."""


class ConfigError(SurelabelError):
    """A setting that does not exist or has a value that is not allowed."""


class RunError(SurelabelError):
    """A run directory that is missing, in use, damaged or not of the expected kind."""


class NotFiniteError(SurelabelError):
    """A loss term is no longer finite; the last good state is kept."""


def describe_os_error(error: OSError) -> str:
    """Say on one line which file the system could not read or write, and why."""
    reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"{reason}; free some space first" if is_full else reason
