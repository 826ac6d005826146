"""Loading images: decoded alike from any source, cached, and unreadable ones are named."""

import errno
import logging

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data.images import decode
from surelabel.data.images import load as images
from surelabel.data.images.load import Blobs, Files, fit_to_shape, load_images
from surelabel.data.images.stream import StreamedImages
from surelabel.data.inputs import MappedInputs, digest_inputs
from surelabel.errors import DataError


def load(paths, shape=None, **options):
    return load_images(Files(paths), DataConfig(source="here", **options), shape, "here")[:2]


def read(*paths, shape=None, **options):
    return load(paths, shape, **options)[0]


def test_equal_sizes_and_the_order_of_paths_are_kept(tmp_path, paint):
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


def test_the_cameras_rotation_is_applied(tmp_path):
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[0] = 200
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held sideways: the first row of the file is the right edge
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    x = read(tmp_path / "a.png")
    assert x.shape == (1, 3, 6, 4)
    assert x[0, 0, 0].tolist() == [0, 0, 0, 200]


def test_one_thumbnail_among_photos_does_not_decide_their_size(tmp_path, paint, caplog):
    paths = [paint(tmp_path / f"{number}.png", size=(64, 48)) for number in range(6)]
    paths.insert(2, paint(tmp_path / "thumbnail.png", size=(10, 10)))
    x = read(*paths)
    assert x.shape == (7, 3, 48, 48)
    assert "1 image is less than half as large, and will be blurred: " in caplog.messages[1]
    assert caplog.messages[1].endswith("thumbnail.png")


def test_different_sizes_are_resized_to_the_median_side_with_a_warning(tmp_path, paint, caplog):
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


def test_a_shape_overrides_that_of_the_files(tmp_path, paint):
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


def test_pillows_limit_against_decompression_bombs_applies(tmp_path, paint, monkeypatch):
    path = paint(tmp_path / "a.png", size=(40, 40))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"a\.png: more than 200 pixels"):
        read(path)


def test_float_pixels_are_refused_by_name(tmp_path, paint):
    path = paint(tmp_path / "a.tif", 0.5, mode="F")
    with pytest.raises(DataError, match=r"a\.tif: pixels are 32-bit floats; 8-bit and 16-bit"):
        read(path)


def test_large_photographs_are_decoded_at_reduced_size(tmp_path):
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    coarse.resize((640, 480), Image.Resampling.BICUBIC).save(tmp_path / "a.jpg", quality=95)
    with Image.open(tmp_path / "a.jpg") as image:
        expected = image.convert("RGB").crop((80, 0, 560, 480)).resize((40, 40), Image.Resampling.BICUBIC)
    difference = read(tmp_path / "a.jpg", image_size=40)[0].numpy().astype(int) - np.moveaxis(
        np.asarray(expected), 2, 0
    )
    assert np.abs(difference).mean() < 2


@pytest.mark.parametrize("odd", [{"size": (12, 8)}, {"mode": "RGB"}])
def test_an_image_that_differs_from_the_sample_still_counts(tmp_path, paint, odd):
    """Of 100 images, some are not in the sample."""
    options = {"size": (8, 8), "mode": "L"}
    for place in (3, 50):
        paths = [
            paint(tmp_path / f"{place}/{value:03d}.png", value, **(options | (odd if value == place else {})))
            for value in range(100)
        ]
        x = read(*paths)
        assert x.shape == ((100, 1, 8, 8) if "size" in odd else (100, 3, 8, 8))
        assert x[:, 0, 0, 0].tolist() == list(range(100))


def test_images_where_features_are_expected_are_refused(tmp_path, paint):
    with pytest.raises(DataError, match="here: holds images; expected 7 features per row"):
        read(paint(tmp_path / "a.png"), shape=(7,))


class TestUnreadable:
    @pytest.fixture
    def paths(self, tmp_path, paint):
        """Write ten images; the second is damaged, the fifth truncated and the eighth missing."""
        paths = [paint(tmp_path / f"{value}.png", self.noise(value)) for value in range(10)]
        paths[1].write_bytes(b"no image")
        paths[4].write_bytes(paths[4].read_bytes()[:1000])
        paths[7].unlink()
        return paths

    @staticmethod
    def noise(value):
        pixels = np.random.default_rng(value).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        pixels[0, 0] = value
        return pixels

    @pytest.mark.parametrize("options", [{}, {"cache": False}, {"image_size": 16}, {"decode": "stream"}])
    def test_all_are_listed_in_one_line(self, paths, options):
        for _ in range(2):  # the second time from the cache
            with pytest.raises(DataError) as caught:
                load(paths, **options)
            assert str(caught.value) == (
                f"here: 3 of 10 images cannot be read: {paths[1]}: not readable as an image (of no known format); "
                f"{paths[4]}; {paths[7]}; data.unreadable=skip leaves them out"
            )

    def test_many_are_counted(self, tmp_path, paint):
        paths = [paint(tmp_path / "good.png"), *(tmp_path / f"{number}.png" for number in range(2000))]
        with pytest.raises(DataError, match=r"2,000 of 2,001 images cannot be read: .*/4\.png and 1,995 more; data"):
            load(paths)

    @pytest.mark.parametrize("options", [{}, {"cache": False}, {"decode": "stream"}])
    def test_unreadable_images_are_skipped_and_listed(self, paths, options, caplog):
        for _ in range(2):
            caplog.clear()
            x, kept = load(paths, unreadable="skip", **options)
            assert kept.tolist() == [0, 2, 3, 5, 6, 8, 9]
            assert x[torch.arange(7)][:, 0, 0, 0].tolist() == kept.tolist()
            (line,) = [record.getMessage() for record in caplog.records]
            assert line.startswith("here: 3 of 10 images cannot be read: ")
            assert line.endswith(f"{paths[4]}; {paths[7]}; they are left out")

    def test_it_is_an_error_if_no_image_is_readable(self, tmp_path):
        with pytest.raises(DataError, match=r"2 of 2 images cannot be read: .*b\.png$"):
            load([tmp_path / "a.png", tmp_path / "b.png"], unreadable="skip")

    def test_an_error_of_the_machine_is_not_cached_as_an_unreadable_image(self, tmp_path, paint, monkeypatch):
        path = paint(tmp_path / "a.png")

        def fail(*arguments):
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(Files, "open", fail)
            with pytest.raises(DataError, match=r"a\.png: Too many open files"):
                load([path], unreadable="skip")
        assert len(load([path])[0]) == 1

    def test_no_images_are_an_error(self):
        with pytest.raises(DataError, match="here: no images to train on"):
            load([])


class Counting(Files):
    """Files that count how often they are opened."""

    num_opened = 0

    def open(self, position):
        self.num_opened += 1
        return super().open(position)


class TestCache:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
        return tmp_path / "cache"

    @pytest.fixture
    def paths(self, tmp_path, paint):
        return [paint(tmp_path / f"{value}.png", value, size=(9 + value, 8)) for value in range(5)]

    def load_and_count(self, paths, shape=None, **options):
        files = Counting(paths)
        x = load_images(files, DataConfig(source="here", **options), shape, "here").x
        return x, files.num_opened

    def test_the_second_start_opens_no_file_and_repeats_the_warning(self, paths, caplog):
        first, _ = self.load_and_count(paths)
        warnings = caplog.messages
        caplog.clear()
        second, num_opened = self.load_and_count(paths)
        assert num_opened == 0
        assert torch.equal(first, second)
        assert caplog.messages == warnings
        assert "images differ in size (sides from 8 to 13)" in warnings[0]

    def test_every_image_is_opened_once_if_a_sample_shows_the_size(self, tmp_path, paint):
        paths = [paint(tmp_path / f"{value}.png", value) for value in range(100)]
        assert self.load_and_count(paths)[1] <= 2 * 16 + 100

    @pytest.mark.parametrize("change", ["content", "shape", "image_size", "order"])
    def test_changed_images_are_decoded_again(self, paths, paint, change):
        self.load_and_count(paths)
        if change == "content":
            paint(paths[2], 200, size=(11, 8))
            assert self.load_and_count(paths)[0][2, 0, 0, 0] == 200
        elif change == "order":
            assert self.load_and_count(paths[::-1])[0][:, 0, 0, 0].tolist() == [4, 3, 2, 1, 0]
        else:
            options = {"shape": (1, 6, 7)} if change == "shape" else {"image_size": 6}
            assert self.load_and_count(paths, **options)[0].shape[2] == 6

    def test_the_cache_can_be_switched_off(self, folder, paths):
        first, _ = self.load_and_count(paths, cache=False)
        second, num_opened = self.load_and_count(paths, cache=False)
        assert torch.equal(first, second)
        assert num_opened
        assert not folder.exists()

    def test_bytes_are_found_by_their_content(self, folder, paths):
        def blobs():
            return Blobs([path.read_bytes() for path in paths], [path.name for path in paths])

        first = load_images(blobs(), DataConfig(source="here"), None, "here").x
        size = sum(path.stat().st_size for path in folder.iterdir())
        second = load_images(blobs(), DataConfig(source="elsewhere"), None, "elsewhere").x
        assert torch.equal(first, second)
        assert sum(path.stat().st_size for path in folder.iterdir()) == size

    def test_images_too_large_for_memory_stay_on_disk(self, folder, paths, monkeypatch):
        whole = read(*paths)
        monkeypatch.setattr(images, "IN_MEMORY", 100)
        x = read(*paths, decode="once")
        assert isinstance(x, MappedInputs)
        assert torch.equal(x[torch.arange(5)], whole)
        digest = digest_inputs(x)
        for path in folder.iterdir():
            path.unlink()
        assert digest_inputs(read(*paths, decode="once")) == digest

    def test_images_too_large_for_memory_are_streamed(self, paths, monkeypatch):
        monkeypatch.setattr(images, "IN_MEMORY", 900)
        assert isinstance(self.load_and_count(paths)[0], StreamedImages)
        x, _ = self.load_and_count(paths, image_size=12)
        assert isinstance(x, StreamedImages)
        assert x.shape == (5, 3, 12, 12)
        assert isinstance(self.load_and_count(paths, image_size=4)[0], torch.Tensor)

    def test_the_second_start_of_a_stream_opens_no_file(self, tmp_path, paint):
        paths = [paint(tmp_path / f"{value}.png", value, size=(9, 8)) for value in range(100)]
        first, _ = self.load_and_count(paths, decode="stream")
        second, num_opened = self.load_and_count(paths, decode="stream")
        assert num_opened == 0
        assert first.shape == second.shape == (100, 3, 8, 9)


def test_long_tasks_log_their_progress(tmp_path, paint, monkeypatch, caplog):
    paths = [paint(tmp_path / f"{value}.png", value) for value in range(130)]
    monkeypatch.setattr(decode, "PROGRESS_INTERVAL", 0.0)
    with caplog.at_level(logging.INFO, "surelabel"):
        read(*paths, cache=False)
    assert caplog.messages == ["decoding 130 images: 49 %", "decoding 130 images: 98 %", "decoding 130 images: 100 %"]


class TestFitToShape:
    def test_arrays_are_resized_like_files(self, tmp_path, paint):
        pixels = np.random.default_rng(0).integers(0, 255, (12, 9, 3), dtype=np.uint8)
        x = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        assert torch.equal(fit_to_shape(x, (3, 6, 6), "here"), read(paint(tmp_path / "a.png", pixels), image_size=6))

    def test_channels_are_converted(self):
        x = torch.full((2, 1, 4, 4), 7, dtype=torch.uint8)
        assert torch.equal(fit_to_shape(x, (3, 4, 4), "here"), x.expand(2, 3, 4, 4))
        assert torch.equal(fit_to_shape(x.expand(2, 3, 4, 4), (1, 4, 4), "here"), x)

    def test_features_of_another_width_are_refused(self):
        with pytest.raises(DataError, match="here: holds 5 features per row; expected 6 features per row"):
            fit_to_shape(torch.zeros(2, 5), (6,), "here")

    def test_features_are_not_images(self):
        with pytest.raises(
            DataError, match=r"holds 5 features per row; expected images of 4 x 4 pixels with 1 channel"
        ):
            fit_to_shape(torch.zeros(2, 5), (1, 4, 4), "here")
