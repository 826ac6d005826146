"""NumPy files: .npz archives of x and y, and single .npy arrays with their labels in another file.

`arrays` describes the arrays of an archive. The labels of NAME.npy are in NAME_labels.npy; if the
name begins with x or X, they may also be in the file with y or Y instead, such as y_train.npy for
X_train.npy. `data.labels` overrides them, and makes them unnecessary. An .npy array that would fill
more than half of the free memory, or 2 GiB, stays in its file. Nothing is ever unpickled.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data.inputs import Inputs, LazyInputs, MappedInputs, Shape, available_memory
from surelabel.data.sources.array_conversion import channels_first, check_inputs, input_tensor
from surelabel.data.sources.arrays import ALIASES, ARRAY_NAMES, make_inputs, make_parts
from surelabel.data.sources.checks import fitting_in_memory
from surelabel.data.sources.interface import Parts
from surelabel.errors import DataError
from surelabel.files import refuse_special_file

KIND = "an .npz file with x and y; an .npy file with its labels in another beside it"
BUNDLED: tuple[str, ...] = ()

READ_BELOW = 2 * 2**30
"""Bytes up to which an .npy array is read into memory, if there is room for two copies of it."""


def accepts(source: str) -> bool:
    """Return whether the name ends in .npz or .npy."""
    return Path(source).suffix.lower() in (".npz", ".npy")


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read the rows of an archive, or of an array and its labels."""
    if is_single_array(config.source):
        return make_parts(_read_npy(Path(config.source), config), config, shape)
    wanted = (*ARRAY_NAMES, *ALIASES, *([] if config.group is None else [config.group]))
    return make_parts(_read_npz(config.source, tuple(dict.fromkeys(wanted))), config, shape)


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Read the inputs and their ids; labels may be missing."""
    if is_single_array(config.source):
        return make_inputs({"x": _read_or_map(Path(config.source))}, config, shape)
    return make_inputs(_read_npz(config.source, ("x", "ids")), config, shape)


def is_single_array(source: str) -> bool:
    """Return whether the name ends in .npy."""
    return Path(source).suffix.lower() == ".npy"


def label_files(path: Path) -> list[Path]:
    """Return where the labels of an .npy array may be; the first file that exists is taken."""
    name = path.stem
    swapped = {"x": "y", "X": "y"}.get(name[:1])
    names = [f"{name}_labels"] if swapped is None else [f"{swapped}{name[1:]}", f"Y{name[1:]}", f"{name}_labels"]
    return [path.with_name(f"{each}{path.suffix}") for each in dict.fromkeys(names)]


def _read_npz(source: str, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read the arrays whose names are `wanted`, under the names that `arrays` uses."""
    # Opened here: NumPy leaves a file open that turns out not to be an archive.
    with contextlib.ExitStack() as stack:
        with _readable(source, "an .npz archive"):
            file = stack.enter_context(Path(source).open("rb"))
            archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise DataError(f"{source}: a single array; expected an archive with x and y, as np.savez writes it")
        return {ALIASES.get(name, name): _read_member(archive, name, source) for name in wanted if name in archive}


def _read_member(archive: "np.lib.npyio.NpzFile", name: str, source: str) -> np.ndarray:
    with _readable(source, "an .npz archive", f"{name} is an array of Python objects"):
        array: np.ndarray = archive[name]
        return array


def _read_npy(source: Path, config: DataConfig) -> dict[str, np.ndarray | LazyInputs]:
    arrays: dict[str, np.ndarray | LazyInputs] = {"x": _read_or_map(source)}
    beside = [path for path in label_files(source) if path.is_file()]
    if beside:
        with fitting_in_memory(beside[0]):
            arrays["y"] = np.array(_map_array(beside[0]))
    elif config.labels is None:
        expected = " or ".join(path.name for path in label_files(source))
        hint = "or name a .csv with id and label as data.labels (--labels)"
        raise DataError(f"{source}: no labels; expected them beside it in {expected}, {hint}")
    return arrays


def _read_or_map(path: Path) -> np.ndarray | LazyInputs:
    array = _map_array(path)
    check_inputs(array, f"{path}: the array")
    if array.nbytes > min(READ_BELOW, available_memory() // 2):
        return ConvertedInputs(path, array)
    return np.array(array)


def _map_array(path: Path) -> np.ndarray:
    """Map the array, without reading it yet."""
    with _readable(path, "an .npy array"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: an archive of arrays; expected a single one, as np.save writes it")
    return array


@contextlib.contextmanager
def _readable(source: str | Path, kind: str, objects: str = "it holds Python objects") -> Iterator[None]:
    """Turn whatever NumPy raises into one line; Python objects are refused, not unpickled."""
    refuse_special_file(Path(source))
    try:
        with fitting_in_memory(source):
            yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{source}: no such file") from None
    # A damaged or foreign file: BadZipFile, zlib.error, OSError, EOFError or ValueError.
    except Exception as error:
        reason = " ".join(str(error).split())
        if "Python objects" in reason or "allow_pickle" in reason:
            reason = f"{objects}, and unpickling those could run code; save it with a numeric or string dtype"
        raise DataError(f"{source}: not readable as {kind} ({reason})") from None


class ConvertedInputs(MappedInputs):
    """The inputs of an .npy file, in any layout and type, converted when rows are asked for."""

    def __init__(self, path: Path, array: np.ndarray, positions: np.ndarray | None = None) -> None:
        super().__init__(path, array, positions)
        inner = array.shape[1:] if array.ndim == 2 else channels_first(array, str(path)).shape[1:]
        self.shape = (self.shape[0], *inner)
        self.dtype = torch.float32 if array.ndim == 2 else torch.uint8

    def __getitem__(self, index: Tensor) -> Tensor:
        return input_tensor(self.read_rows(index), str(self.path))

    def subset(self, positions: np.ndarray) -> "ConvertedInputs":
        """Return the rows at `positions`."""
        return ConvertedInputs(self.path, self.array, self.positions_in_file(positions))

    def __reduce__(self) -> Any:
        """Send worker processes the file's name instead of its content."""
        return _map_again, (self.path, self.positions)


def _map_again(path: Path, positions: np.ndarray | None) -> ConvertedInputs:
    return ConvertedInputs(path, np.load(path, mmap_mode="r", allow_pickle=False), positions)
