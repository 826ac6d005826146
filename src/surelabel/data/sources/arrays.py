"""Rows from arrays by name, whoever holds them: an .npz archive, an .npy file with its labels, or Python.

x is features (N, D), or images: (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3, as whole numbers in 0..255 or
floats in [0, 1]. Where a shape could be read both ways, as (N, 3, 8, 3) could, the channels are the last axis. y is
(N,) whole numbers or strings; whole numbers count the entries of class_names, if that is there. `clean` is the true
labels, where they are known. x_test, y_test, ids_test and clean_test are a test part.
"""

from collections.abc import Mapping

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images.load import fitted, square
from surelabel.data.inputs import Inputs, LazyInputs, Shape
from surelabel.data.sources.array_conversion import input_tensor
from surelabel.data.sources.array_labels import distinct_names, label_names, text
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

KNOWN = ("x", "y", "ids", "clean", "x_test", "y_test", "ids_test", "clean_test", "class_names")
ALIASES = {"y_clean": "clean", "y_clean_test": "clean_test"}

Arrays = Mapping[str, np.ndarray | LazyInputs]


def parts_of(arrays: Arrays, config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of x and y, and of x_test and y_test."""
    class_names = None
    if "class_names" in arrays:
        class_names = distinct_names(_array(arrays, "class_names", config.source), config.source)
    train = _rows(arrays, "", class_names, config, shape)
    tests = {}
    if "x_test" in arrays or "y_test" in arrays:
        tests["test"] = _rows(arrays, "_test", class_names, config, shape or tuple(train.x.shape[1:]))
    return Parts(train, tests, class_names)


def inputs_of(arrays: Arrays, config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The array x and its ids; y may be missing."""
    x = _in_shape(_inputs(arrays, "", config.source), shape, config.source)
    return x, _ids(arrays, "", len(x), config.source)


def _rows(
    arrays: Arrays, part: str, class_names: tuple[str, ...] | None, config: DataConfig, shape: Shape | None
) -> Rows:
    source = config.source
    x = _inputs(arrays, part, source)
    x = _in_shape(x, shape or square(x, config.image_size), f"{source}: x{part}")
    clean = _names(arrays, f"clean{part}", f"x{part}", len(x), class_names, source)
    if f"y{part}" not in arrays and config.labels is not None:
        names: np.ndarray | None = np.full(len(x), "", dtype=np.str_)
    else:
        _array(arrays, f"y{part}", source)
        names = _names(arrays, f"y{part}", f"x{part}", len(x), class_names, source)
    assert names is not None
    return Rows(x, names, _ids(arrays, part, len(x), source), clean)


def _names(
    arrays: Arrays, name: str, beside: str, num_rows: int, class_names: tuple[str, ...] | None, source: str
) -> np.ndarray | None:
    if name not in arrays:
        return None
    names = label_names(_array(arrays, name, source), class_names, f"{source}: {name}")
    if len(names) != num_rows:
        raise DataError(f"{source}: {beside} has {num_rows} rows and {name} has {len(names)}; they must agree")
    return names


def _ids(arrays: Arrays, part: str, num_rows: int, source: str) -> np.ndarray:
    if f"ids{part}" not in arrays:
        return np.array([f"{part.lstrip('_')}/{row}" if part else str(row) for row in range(num_rows)], dtype=np.str_)
    ids = _array(arrays, f"ids{part}", source)
    if ids.shape != (num_rows,):
        raise DataError(f"{source}: ids{part} has the shape {ids.shape}; expected one id for each of {num_rows} rows")
    return text(ids)


def _inputs(arrays: Arrays, part: str, source: str) -> Inputs:
    x = arrays.get(f"x{part}")
    if isinstance(x, LazyInputs):
        return x
    return input_tensor(_array(arrays, f"x{part}", source), f"{source}: x{part}")


def _in_shape(x: Inputs, shape: Shape | None, where: str) -> Inputs:
    if isinstance(x, LazyInputs) and len(x.shape) == 4 and shape not in (None, tuple(x.shape[1:])):
        size = " x ".join(map(str, x.shape[2:]))
        raise DataError(
            f"{where}: too large for memory, so its images of {size} pixels cannot be resized; save them resized"
        )
    return fitted(x, shape, where)


def _array(arrays: Arrays, name: str, source: str) -> np.ndarray:
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{source}: there is no array {name}; there are {', '.join(arrays) or 'none'}")
    return array
