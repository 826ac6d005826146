"""Pixels back to pictures."""

import pytest
import torch

from surelabel.data.images.decode import to_image


@pytest.mark.parametrize(
    ("channels", "mode", "pixel"), [(1, "L", 0), (2, "L", 0), (3, "RGB", (0, 6, 12)), (5, "RGB", (0, 6, 12))]
)
def test_one_or_two_channels_are_grey_and_of_many_three_are_shown(channels, mode, pixel):
    pixels = torch.arange(channels * 6, dtype=torch.uint8).reshape(channels, 2, 3)
    made = to_image(pixels)
    assert (made.mode, made.size) == (mode, (3, 2))
    assert made.getpixel((0, 0)) == pixel
