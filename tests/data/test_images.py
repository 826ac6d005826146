import logging

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data.images import Files, fitted, load_images
from surelabel.errors import DataError


def read(*paths, image_size=None, shape=None):
    x, _ = load_images(Files(paths), DataConfig(source="here", image_size=image_size), shape, "here")
    return x


def test_equal_sizes_are_kept_and_order_is_that_of_the_paths(tmp_path, paint):
    paths = [paint(tmp_path / f"{value}.png", value, size=(7, 5)) for value in range(100)]
    x = read(*paths)
    assert x.shape == (100, 3, 5, 7)
    assert x.dtype == torch.uint8
    assert x[:, 0, 0, 0].tolist() == list(range(100))


def test_greyscale_sets_have_one_channel_and_mixed_ones_three(tmp_path, paint):
    grey = paint(tmp_path / "a.png", 40, mode="L")
    colour = paint(tmp_path / "b.png", (1, 2, 3))
    assert read(grey, grey).shape[1] == 1
    mixed = read(grey, colour)
    assert mixed[:, :, 0, 0].tolist() == [[40, 40, 40], [1, 2, 3]]


def test_palettes_and_transparency_become_colours_on_white(tmp_path, paint):
    palette = Image.new("RGB", (4, 4), (10, 20, 30)).convert("P", palette=Image.Palette.ADAPTIVE)
    palette.save(tmp_path / "p.png")
    hidden = paint(tmp_path / "a.png", (9, 9, 9, 0), size=(4, 4), mode="RGBA")
    assert read(tmp_path / "p.png", hidden)[:, :, 0, 0].tolist() == [[10, 20, 30], [255, 255, 255]]


def test_16_bit_images_keep_their_contrast(tmp_path, paint):
    path = paint(tmp_path / "a.png", np.full((4, 4), 0x8000, dtype=np.uint16))
    assert read(path).unique().tolist() == [0x80]


def test_the_camera_s_rotation_is_applied(tmp_path):
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[0] = 200
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side: the first row of the file is the right edge
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    x = read(tmp_path / "a.png")
    assert x.shape == (1, 3, 6, 4)
    assert x[0, 0, 0].tolist() == [0, 0, 0, 200]


def test_different_sizes_are_brought_to_the_smallest_side_and_this_is_said(tmp_path, paint, caplog):
    paths = [paint(tmp_path / "a.png", 5, size=(12, 20)), paint(tmp_path / "b.png", 6, size=(9, 30))]
    with caplog.at_level(logging.INFO, "surelabel"):
        x = read(*paths)
    assert x.shape == (2, 3, 9, 9)
    assert [record.getMessage() for record in caplog.records] == [
        "here: images differ in size (sides from 9 to 30): all are resized and centre-cropped to 9 x 9; "
        "data.image_size sets another side"
    ]


def test_without_a_size_large_images_become_64_pixels_wide(tmp_path, paint):
    paths = [paint(tmp_path / "a.png", size=(100, 80)), paint(tmp_path / "b.png", size=(90, 90))]
    assert read(*paths).shape[2:] == (64, 64)


def test_image_size_resizes_and_crops_about_the_centre(tmp_path, paint):
    pixels = np.zeros((8, 16, 3), dtype=np.uint8)
    pixels[:, 4:12] = 200
    x = read(paint(tmp_path / "a.png", pixels), image_size=4)
    assert x.shape == (1, 3, 4, 4)
    assert x[0, :, :, 1:3].min() > 180


def test_a_shape_wins_over_what_the_files_have(tmp_path, paint):
    assert read(paint(tmp_path / "a.png", (50, 50, 50)), shape=(1, 5, 6)).shape == (1, 1, 5, 6)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_an_unreadable_file_is_named(tmp_path, paint, content):
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.png: not readable as an image") as caught:
        read(paint(tmp_path / "a.png"), tmp_path / "bad.png")
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_named(tmp_path, paint):
    path = paint(tmp_path / "a.png", np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"a\.png: not readable as an image"):
        read(path)


def test_pillow_s_limit_against_decompression_bombs_holds(tmp_path, paint, monkeypatch):
    path = paint(tmp_path / "a.png", size=(40, 40))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"a\.png: more than 200 pixels"):
        read(path)


def test_float_pixels_are_refused_by_name(tmp_path, paint):
    path = paint(tmp_path / "a.tif", 0.5, mode="F")
    with pytest.raises(DataError, match=r"a\.tif: pixels are 32-bit floats; 8-bit and 16-bit"):
        read(path)


def test_images_where_features_are_expected_are_refused(tmp_path, paint):
    with pytest.raises(DataError, match="here: holds images; expected 7 features per row"):
        read(paint(tmp_path / "a.png"), shape=(7,))


class TestFitted:
    def test_arrays_are_resized_like_files(self, tmp_path, paint):
        pixels = np.random.default_rng(0).integers(0, 255, (12, 9, 3), dtype=np.uint8)
        x = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        assert torch.equal(fitted(x, (3, 6, 6), "here"), read(paint(tmp_path / "a.png", pixels), image_size=6))

    def test_channels_change(self):
        x = torch.full((2, 1, 4, 4), 7, dtype=torch.uint8)
        assert torch.equal(fitted(x, (3, 4, 4), "here"), x.expand(2, 3, 4, 4))
        assert torch.equal(fitted(x.expand(2, 3, 4, 4), (1, 4, 4), "here"), x)

    def test_features_of_another_width_are_refused(self):
        with pytest.raises(DataError, match="here: holds 5 features per row; expected 6 features per row"):
            fitted(torch.zeros(2, 5), (6,), "here")

    def test_features_are_not_images(self):
        with pytest.raises(
            DataError, match=r"holds 5 features per row; expected images of 4 x 4 pixels with 1 channel"
        ):
            fitted(torch.zeros(2, 5), (1, 4, 4), "here")
