"""The errors a user can cause; the command line prints them as one line and exits with 2."""


class SurelabelError(Exception):
    """Something the user can mend: the message names the guilty thing and what is allowed."""


class DataError(SurelabelError):
    """Bad input data: the message names the file, row or array."""


class ConfigError(SurelabelError):
    """A setting that does not exist or has a value that is not allowed."""


class RunError(SurelabelError):
    """A run directory that is missing, taken, damaged or of another kind than expected."""


class NotFiniteError(SurelabelError):
    """A loss term stopped being finite; the last good state is kept."""
