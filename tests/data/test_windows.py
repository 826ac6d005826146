"""Networks that see a window of larger images: torchvision's Resize, then RandomCrop or CenterCrop.

Images decoded once, streamed images and arrays in memory are looked at alike.
"""

import numpy as np
import pytest
import torch
from PIL import Image

import surelabel
from surelabel.api import Interrupted, fit, make_config, resume
from surelabel.core import View
from surelabel.data.images.frames import FramedImages
from surelabel.data.images.stream import StreamedImages
from surelabel.training import build
from surelabel.training.cost_estimate import plan
from surelabel.training.predictor import predictions

SIZES = [(16, 40), (40, 16), (16, 16), (20, 33)]
"""Height and width of the four kinds of images in a folder."""
SIDE, CROP = 16, 12


@pytest.fixture
def mixed(tmp_path, paint):
    """Write 24 images of four sizes: red is the column, green the line, blue the number."""
    for number in range(24):
        line, column = np.mgrid[tuple(map(slice, SIZES[number % 4]))].astype(np.uint8)
        pixels = np.stack([5 * column, 5 * line, np.full_like(line, 9 * number)], axis=2)
        paint(tmp_path / f"mixed/{number % 2}/{number:02d}.png", pixels)
    return tmp_path / "mixed"


def settings(source, **data) -> dict:
    return {
        "data": {"source": str(source), "image_size": SIDE, "crop": CROP, "workers": 0, **data},
        "method": "cross_entropy",
        "model": {"name": "mlp", "options": {"widths": [8], "norm": "none"}},
        "train": {"epochs": 2, "batch_size": 8, "threads": 1, "augment": True, "second_opinion": False},
    }


def loader_of(source, train=(), **data):
    config = make_config(settings(source, **data), dict(train))
    corpus, _ = build.corpus(config.data, None, 0)
    return build.loader(config, corpus, torch.device("cpu"))


def walk(loader, epochs=3, **view) -> dict[str, torch.Tensor]:
    """Return the windows (epochs, C, h, w) of every image by its id."""
    seen: dict[str, list] = {name: [] for name in loader.examples.ids}
    for epoch in range(epochs):
        for step in loader.passes({"batch": View(**view)}, f"train/{epoch}"):
            for row, *copies in zip(step["batch"].index, *step["batch"].copies, strict=True):
                seen[str(loader.examples.ids[row])] += copies
    return {name: torch.stack(windows) for name, windows in seen.items()}


def torchvision_frame(path) -> torch.Tensor:
    """Resize the short side as torchvision's Resize rounds it."""
    image = Image.open(path)
    short = min(image.size)
    image = image.resize([SIDE if side == short else SIDE * side // short for side in image.size], 3)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def assert_equal(windows, others):
    assert windows.keys() == others.keys()
    assert all(torch.equal(window, others[name]) for name, window in windows.items())


class TestOnceAndStream:
    @pytest.mark.parametrize("train", [{}, {"train.crop_padding": 3}, {"train.crop_padding": 20}])
    def test_give_the_same_windows_in_training(self, mixed, train):
        once, stream = (walk(loader_of(mixed, train, decode=decode), copies=2) for decode in ("once", "stream"))
        assert_equal(once, stream)
        assert next(iter(once.values())).shape == (6, 3, CROP, CROP)

    def test_give_the_same_windows_with_a_crop_as_large_as_the_short_side(self, mixed):
        once, stream = (walk(loader_of(mixed, decode=decode, crop=SIDE)) for decode in ("once", "stream"))
        assert_equal(once, stream)
        assert len({int(window[0].min()) for window in once["0/00.png"]}) > 1

    def test_give_the_same_centres_in_evaluation_as_torchvision(self, mixed):
        once, stream = (walk(loader_of(mixed, decode=decode), epochs=1, augment=False) for decode in ("once", "stream"))
        assert_equal(once, stream)
        for name, window in once.items():
            frame = torchvision_frame(mixed / name)
            top, left = (round((length - CROP) / 2.0) for length in frame.shape[1:])
            assert torch.equal(window[0], frame[:, top : top + CROP, left : left + CROP])

    def test_give_the_same_whole_images(self, mixed):
        once, stream = (loader_of(mixed, decode=decode).examples.x for decode in ("once", "stream"))
        assert tuple(once.shape) == tuple(stream.shape) == (24, 3, SIDE, SIDE)
        everything = torch.arange(24)
        assert torch.equal(once[everything], stream[everything])

    @pytest.mark.parametrize("decode", ["once", "stream"])
    def test_draw_windows_over_the_whole_long_side(self, mixed, decode):
        windows = walk(loader_of(mixed, {"train.flip": False}, decode=decode), epochs=80)
        for name, axis in (("0/00.png", 0), ("1/01.png", 1)):
            begins = (windows[name][:, axis].flatten(1).min(1).values / 5).int()
            assert (int(begins.min()), int(begins.max())) == (0, 40 - CROP)

    def test_train_alike(self, mixed, tmp_path):
        once, stream = (fit(settings(mixed, decode=decode), tmp_path / decode) for decode in ("once", "stream"))
        assert [line["loss"] for line in once.metrics()] == [line["loss"] for line in stream.metrics()]
        np.testing.assert_array_equal(*(predictions(surelabel.load(run), str(mixed))["0"] for run in (once, stream)))


class TestOnce:
    def test_comes_from_the_cache_unchanged(self, mixed):
        first, again, anew = (walk(loader_of(mixed, decode="once", cache=cache)) for cache in (True, True, False))
        assert_equal(first, again)
        assert_equal(first, anew)

    def test_is_not_taken_for_squares_that_were_cached_without_a_crop(self, mixed):
        loader_of(mixed, decode="once", crop=None)
        windows = walk(loader_of(mixed, {"train.flip": False}, decode="once"), epochs=80)
        assert int(windows["0/00.png"][:, 0].max()) == 5 * 39

    def test_stays_one_array_where_all_images_are_square(self, tmp_path, paint):
        for number in range(8):
            pixels = np.random.default_rng(number).integers(0, 255, (20 + number, 20 + number, 3), dtype=np.uint8)
            paint(tmp_path / f"square/{number % 2}/{number}.png", pixels)
        train = {"train.crop_padding": 3}
        once, stream = (loader_of(tmp_path / "square", train, decode=decode) for decode in ("once", "stream"))
        assert isinstance(once.examples.x, torch.Tensor)
        assert_equal(walk(once, copies=2), walk(stream, copies=2))

    def test_notices_a_long_image_that_the_sample_missed(self, tmp_path, paint):
        for number in range(40):
            paint(tmp_path / f"some/{number % 2}/{number:02d}.png", number, size=(20, 20 + 20 * (number == 2)))
        loader = loader_of(tmp_path / "some", decode="once")
        assert isinstance(loader.examples.x, FramedImages)
        assert loader.examples.x.num_bytes == 3 * (39 * SIDE**2 + SIDE * 2 * SIDE)

    def test_leaves_out_unreadable_images(self, mixed):
        (mixed / "0/00.png").write_bytes(b"no image")
        (mixed / "1/01.png").write_bytes((mixed / "1/01.png").read_bytes()[:60])
        loader = loader_of(mixed, decode="once", unreadable="skip")
        assert len(loader.examples) == 22
        assert int(walk(loader, 1)["0/02.png"][0, 2].max()) == 18

    def test_is_recognised_by_its_pixels(self, mixed, paint):
        digests = [build.corpus(make_config(settings(mixed)).data, None, 0)[0].fingerprint() for _ in range(2)]
        paint(mixed / "0/00.png", 7, size=(40, 16))
        changed = build.corpus(make_config(settings(mixed)).data, None, 0)[0].fingerprint()
        assert digests[0] == digests[1] != changed

    @pytest.mark.training
    def test_resumes_in_the_middle_of_an_epoch_bit_by_bit(self, mixed, tmp_path, outcome):
        whole = fit(settings(mixed, decode="once"), tmp_path / "whole")
        with pytest.raises(Interrupted):
            fit(settings(mixed, decode="once"), tmp_path / "parts", interrupt=iter([False] * 4 + [True]).__next__)
        assert outcome(resume(tmp_path / "parts")) == outcome(whole)


def test_auto_counts_the_long_sides(mixed, monkeypatch):
    """24 squares of 16 pixels would fit into 20,000 bytes; with their long sides they do not."""
    monkeypatch.setattr("surelabel.data.images.load.IN_MEMORY", 20_000)
    assert isinstance(loader_of(mixed, crop=None).examples.x, torch.Tensor)
    assert isinstance(loader_of(mixed).examples.x, StreamedImages)


def test_a_plan_counts_the_long_sides(mixed):
    found = plan(make_config(settings(mixed)))
    frames = [(16, 40), (40, 16), (16, 16), (16, 26)]
    assert found.bytes["inputs"] == 6 * 3 * sum(height * width for height, width in frames)
    assert found.is_in_memory


def test_arrays_have_windows_over_the_whole_long_side():
    column = np.broadcast_to(np.arange(40, dtype=np.uint8)[:, None], (6, 16, 40, 3)).copy()
    config = make_config({**settings("<arrays>"), "train": {"augment": True, "flip": False, "batch_size": 6}})
    corpus, _ = build.corpus(config.data, None, 0, (column, np.arange(6) % 2))
    windows = walk(build.loader(config, corpus, torch.device("cpu")), epochs=40)
    begins = torch.stack([window[:, 0, 0, 0] for window in windows.values()])
    assert (int(begins.min()), int(begins.max())) == (0, 40 - CROP)


def test_new_images_are_looked_at_as_test_images_are(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 6), ("test", 3)):
        for name, value in (("dark", 40), ("light", 200)):
            folder = tmp_path / "images" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(value - 30, value + 30, (30, 40, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    settings = {
        "data.image_size": 24,
        "data.crop": 20,
        "model": {"name": "cnn", "options": {"width": 4}},
        "train.epochs": 2,
        "train.batch_size": 4,
        "train.threads": 1,
    }
    run = surelabel.fit(tmp_path / "images", tmp_path / "run", settings=settings)
    assert (run.data()["input_shape"], run.data()["stored_shape"]) == ([3, 20, 20], [3, 24, 24])
    # As if the sizes were the data set's defaults: the configuration does not set them.
    config = run.config()
    silent = config.model_copy(update={"data": config.data.model_copy(update={"image_size": None, "crop": None})})
    run.write_json("config.json", silent.model_dump(mode="json"))
    model = surelabel.load(run)
    columns = predictions(model, str(tmp_path / "images" / "test"))
    corpus = surelabel.api.build.corpus(config.data, None, 0)[0].tests["test"]
    expected = model.predict_proba(corpus.x[torch.arange(6)][:, :, 2:22, 2:22])
    np.testing.assert_allclose(np.stack([columns["dark"], columns["light"]], 1), expected, atol=1e-6)
