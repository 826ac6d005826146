"""Single .npy arrays: inputs as in an .npz file, with their labels in a file beside them. Nothing is ever unpickled.

The labels of NAME.npy are in NAME_labels.npy, or where the name begins with x or X in the one with y or Y instead: y.npy
for x.npy, y_train.npy for X_train.npy. `data.labels` goes over them, and does without them. An array that would fill more
than half of the free memory, or 2 GiB, stays in its file, of which the system reads what is asked for.
"""

from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.inputs import Inputs, LazyInputs, Shape, available_memory
from surelabel.data.sources.array_conversion import check_inputs
from surelabel.data.sources.arrays import inputs_of, parts_of
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.mapped_inputs import ConvertedInputs
from surelabel.errors import DataError

KIND = "an .npy file with its labels in another beside it"
BUNDLED: tuple[str, ...] = ()

READ_BELOW = 2 * 2**30
"""Bytes up to which an array is read into memory, if that has room for two of it."""


def accepts(source: str) -> bool:
    """By the name."""
    return Path(source).suffix.lower() == ".npy"


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of the array, with the labels beside it."""
    source = Path(config.source)
    arrays: dict[str, np.ndarray | LazyInputs] = {"x": _inputs(source)}
    beside = [path for path in label_files(source) if path.is_file()]
    if beside:
        arrays["y"] = np.array(_opened(beside[0]))
    elif config.labels is None:
        expected = " or ".join(path.name for path in label_files(source))
        hint = "or name a .csv with id and label as data.labels (--labels)"
        raise DataError(f"{source}: no labels; expected them beside it in {expected}, {hint}")
    return parts_of(arrays, config, shape)


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The array; labels are not needed."""
    return inputs_of({"x": _inputs(Path(config.source))}, config, shape)


def label_files(path: Path) -> list[Path]:
    """Where the labels of an array may be; the first that exists is taken."""
    name = path.stem
    swapped = {"x": "y", "X": "y"}.get(name[:1])
    names = [f"{name}_labels"] if swapped is None else [f"{swapped}{name[1:]}", f"Y{name[1:]}", f"{name}_labels"]
    return [path.with_name(f"{each}{path.suffix}") for each in dict.fromkeys(names)]


def _inputs(path: Path) -> np.ndarray | LazyInputs:
    array = _opened(path)
    check_inputs(array, f"{path}: the array")
    if array.nbytes > min(READ_BELOW, available_memory() // 2):
        return ConvertedInputs(path, array)
    return np.array(array)


def _opened(path: Path) -> np.ndarray:
    """The array, of which nothing is read yet."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    # A damaged or foreign file, or an array of Python objects: EOFError, OSError, ValueError.
    except Exception as error:
        reason = " ".join(str(error).split())
        if "Python objects" in reason or "allow_pickle" in reason:
            reason = "it holds Python objects, and unpickling those could run code; save numbers or strings"
        raise DataError(f"{path}: not readable as an .npy array ({reason})") from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: an archive of arrays; expected a single one, as np.save writes it")
    return array
