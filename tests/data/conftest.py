"""Tiny image files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def paint() -> Callable[..., Path]:
    """Write an image of one value, or of the given pixels, and the folders it is in."""

    def write(
        path: Path, pixels: object = 100, size: tuple[int, int] = (8, 8), mode: str = "RGB", **options: object
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(pixels, np.ndarray):
            image = Image.fromarray(pixels)
        else:
            image = Image.new(mode, size, pixels if mode != "RGB" or not isinstance(pixels, int) else (pixels,) * 3)
        image.save(path, **options)
        return path

    return write
