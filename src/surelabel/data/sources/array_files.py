"""NumPy archives: x and y, and where present the other arrays that named.py describes. Nothing is ever unpickled."""

from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.arrays import ALIASES, KNOWN, inputs_of, parts_of
from surelabel.data.sources.interface import Parts
from surelabel.errors import DataError

KIND = "an .npz file with x and y"
BUNDLED: tuple[str, ...] = ()


def accepts(source: str) -> bool:
    """By the name."""
    return Path(source).suffix.lower() == ".npz"


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of x and y, and of x_test and y_test."""
    return parts_of(_loaded(config.source), config, shape)


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The array x; y may be missing."""
    return inputs_of(_loaded(config.source, ("x", "ids")), config, shape)


def _loaded(source: str, wanted: tuple[str, ...] = (*KNOWN, *ALIASES)) -> dict[str, np.ndarray]:
    """The arrays that we know, by name."""
    try:
        archive = np.load(source, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise DataError(f"{source}: a single array; expected an archive with x and y, as np.savez writes it")
        with archive:
            return {ALIASES.get(name, name): _one_array(archive, name, source) for name in wanted if name in archive}
    except FileNotFoundError:
        raise DataError(f"{source}: no such file") from None
    except DataError:
        raise
    # A damaged or foreign file: BadZipFile, zlib.error, OSError, EOFError, or a ValueError about pickles.
    except Exception as error:
        raise DataError(f"{source}: not readable as an .npz archive ({' '.join(str(error).split())})") from None


def _one_array(archive: "np.lib.npyio.NpzFile", name: str, source: str) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"{source}: {name} is an array of Python objects, and unpickling those could run code; "
            "save it with a numeric or string dtype"
        ) from None
