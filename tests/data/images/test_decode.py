"""Pixels as a picture to look at."""

import pytest
import torch

from surelabel.data.images.pictures import picture


@pytest.mark.parametrize(
    ("channels", "mode", "pixel"), [(1, "L", 0), (2, "L", 0), (3, "RGB", (0, 6, 12)), (5, "RGB", (0, 6, 12))]
)
def test_few_channels_are_grey_and_many_are_cut_to_three(channels, mode, pixel):
    pixels = torch.arange(channels * 6, dtype=torch.uint8).reshape(channels, 2, 3)
    made = picture(pixels)
    assert (made.mode, made.size) == (mode, (3, 2))
    assert made.getpixel((0, 0)) == pixel
