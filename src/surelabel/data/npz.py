"""NumPy archives: x and y, and where present x_test, y_test, ids, ids_test and class_names. Nothing is ever unpickled.

x is features (N, D), or images: (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3, as whole numbers in 0..255 or
floats in [0, 1]. Where a shape could be read both ways, as (N, 3, 8, 3) could, the channels are the last axis. y is
(N,) whole numbers or strings; whole numbers count the entries of class_names, if that is there.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data.images import fitted, square
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.rows import Parts, Rows
from surelabel.errors import DataError

KIND = "an .npz file with x and y"
BUNDLED: tuple[str, ...] = ()

Arrays = Mapping[str, np.ndarray]

_CHANNELS = (1, 3)
_KNOWN = ("x", "y", "x_test", "y_test", "ids", "ids_test", "class_names")
_IMAGES = "images are (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3"


def accepts(source: str) -> bool:
    """By the name."""
    return Path(source).suffix.lower() == ".npz"


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of x and y, and of x_test and y_test."""
    arrays = _loaded(config.source)
    class_names = _class_names(arrays, config.source)
    train = _rows(arrays, "", class_names, config, shape)
    tests = {}
    if "x_test" in arrays or "y_test" in arrays:
        tests["test"] = _rows(arrays, "_test", class_names, config, shape or tuple(train.x.shape[1:]))
    return Parts(train, tests, class_names)


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The array x; y may be missing."""
    arrays = _loaded(config.source)
    x = fitted(_inputs(_array(arrays, "x", config.source), f"{config.source}: x"), shape, config.source)
    return x, _ids(arrays, "", len(x), config.source)


def _loaded(source: str) -> dict[str, np.ndarray]:
    """The arrays that we know, by name."""
    try:
        archive = np.load(source, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise DataError(f"{source}: a single array; expected an archive with x and y, as np.savez writes it")
        with archive:
            return {name: _one_array(archive, name, source) for name in _KNOWN if name in archive}
    except FileNotFoundError:
        raise DataError(f"{source}: no such file") from None
    except DataError:
        raise
    # A damaged or foreign file: BadZipFile, zlib.error, OSError, EOFError, or a ValueError about pickles.
    except Exception as error:
        raise DataError(f"{source}: not readable as an .npz archive ({' '.join(str(error).split())})") from None


def _one_array(archive: Arrays, name: str, source: str) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"{source}: {name} is an array of Python objects, and unpickling those could run code; "
            "save it with a numeric or string dtype"
        ) from None


def _array(arrays: Arrays, name: str, source: str) -> np.ndarray:
    if name not in arrays:
        raise DataError(f"{source}: there is no array {name}; there are {', '.join(arrays) or 'none'}")
    return arrays[name]


def _rows(
    arrays: Arrays,
    part: str,
    class_names: tuple[str, ...] | None,
    config: DataConfig,
    shape: Shape | None,
) -> Rows:
    source = config.source
    x: Inputs = _inputs(_array(arrays, f"x{part}", source), f"{source}: x{part}")
    names = _names(_array(arrays, f"y{part}", source), class_names, f"{source}: y{part}")
    if len(x) != len(names):
        raise DataError(f"{source}: x{part} has {len(x)} rows and y{part} has {len(names)}; they must agree")
    x = fitted(x, shape or square(x, config.image_size), f"{source}: x{part}")
    return Rows(x, names, _ids(arrays, part, len(x), source))


def _ids(arrays: Arrays, part: str, num_rows: int, source: str) -> np.ndarray:
    if f"ids{part}" not in arrays:
        return np.array([f"{part.lstrip('_')}/{row}" if part else str(row) for row in range(num_rows)], dtype=np.str_)
    ids = arrays[f"ids{part}"]
    if ids.shape != (num_rows,):
        raise DataError(f"{source}: ids{part} has the shape {ids.shape}; expected one id for each of {num_rows} rows")
    return _text(ids)


def _inputs(x: np.ndarray, where: str) -> Tensor:
    """(N, D) float32 or (N, C, H, W) uint8."""
    if x.dtype.kind not in "biuf":
        raise DataError(f"{where} has the type {x.dtype}; allowed are whole numbers and floats")
    if x.ndim == 2 and x.shape[1]:
        return torch.from_numpy(_as_float32(x))
    if x.ndim not in (3, 4) or not all(x.shape[1:]):
        raise DataError(f"{where} has the shape {x.shape}; features are (N, D), {_IMAGES}")
    return torch.from_numpy(np.ascontiguousarray(_channels_first(_as_pixels(x, where), where)))


def _as_float32(x: np.ndarray) -> np.ndarray:
    # What is too large for float32 becomes infinite, and is reported with its row where all inputs are checked.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, dtype=np.float32)


def _as_pixels(x: np.ndarray, where: str) -> np.ndarray:
    if x.dtype == np.uint8 or not x.size:
        return x.astype(np.uint8, copy=False)
    largest = 1 if x.dtype.kind in "bf" else 255
    low, high = x.min(), x.max()
    # Written so that NaN, which compares as false, is refused.
    if not (low >= 0 and high <= largest):
        raise DataError(
            f"{where} holds images with values from {low:g} to {high:g}; allowed are whole numbers in 0..255 and "
            "floats in [0, 1]; other values go in as features (N, D)"
        )
    return np.rint(x * np.float32(255)).astype(np.uint8) if largest == 1 else x.astype(np.uint8)


def _channels_first(x: np.ndarray, where: str) -> np.ndarray:
    if x.ndim == 3:
        return x[:, None]
    if x.shape[3] in _CHANNELS:
        return np.moveaxis(x, 3, 1)
    if x.shape[1] in _CHANNELS:
        return x
    raise DataError(f"{where} has the shape {x.shape}; {_IMAGES}")


def _class_names(arrays: Arrays, source: str) -> tuple[str, ...] | None:
    if "class_names" not in arrays:
        return None
    names = tuple(map(str, _text(arrays["class_names"].reshape(-1))))
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{source}: class_names holds {name!r} {names.count(name)} times; names must differ")
    return names


def _names(y: np.ndarray, class_names: tuple[str, ...] | None, where: str) -> np.ndarray:
    """(N,) str: the class of each row."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "biufUS":
        raise DataError(f"{where} is {y.dtype} of shape {y.shape}; labels are (N,) whole numbers or strings")
    if y.dtype.kind in "US":
        return _named(_text(y), class_names, where)
    numbers = _whole_numbers(y, where)
    if class_names is None:
        return numbers.astype(np.str_)
    _refuse(numbers >= len(class_names), y, where, f"class_names has {len(class_names)} entries, counted from 0")
    return np.array(class_names)[numbers]


def _whole_numbers(y: np.ndarray, where: str) -> np.ndarray:
    # Negated, so that NaN, which compares as false, is refused too.
    with np.errstate(invalid="ignore"):
        is_label = (y >= 0) & (y == np.floor(y)) & (y < 2**53)
    _refuse(~is_label, y, where, "labels are whole numbers from 0, or strings")
    return y.astype(np.int64)


def _named(names: np.ndarray, class_names: tuple[str, ...] | None, where: str) -> np.ndarray:
    _refuse(np.char.strip(names) == "", names, where, "labels must not be blank")
    if class_names is not None:
        _refuse(~np.isin(names, class_names), names, where, f"class_names has {', '.join(class_names)}")
    return names


def _refuse(is_bad: np.ndarray, y: np.ndarray, where: str, rule: str) -> None:
    rows = np.flatnonzero(is_bad)
    if len(rows):
        more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
        raise DataError(f"{where}: row {rows[0]} is {y[rows[0]].item()!r}{more}; {rule}")


def _text(values: np.ndarray) -> np.ndarray:
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values.astype(np.str_)
