"""Errors that users can cause; the command line prints them on one line and exits with code 2."""


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
