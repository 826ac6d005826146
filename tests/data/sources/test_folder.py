"""Folders of images: classes, train and test folders, links, and images that cannot be read."""

import os
import re

import numpy as np
import pytest
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data import load_corpus, read_inputs
from surelabel.errors import DataError


def load(root, **options):
    return load_corpus(DataConfig(source=str(root), cache=False, **options))


@pytest.fixture
def root(tmp_path, paint):
    for name in ("dog/2.png", "dog/1.jpg", "cat/deeper/x.bmp", "cat/a.gif"):
        paint(tmp_path / "root" / name)
    return tmp_path / "root"


def test_rows_are_in_the_order_of_their_paths(root):
    (root / "notes.txt").write_text("not an image")
    (root / "cat" / "thumbs.db").write_bytes(b"")
    (root / ".hidden").mkdir()
    corpus = load(root)
    assert corpus.class_names == ("cat", "dog")
    assert corpus.train.ids.tolist() == ["cat/a.gif", "cat/deeper/x.bmp", "dog/1.jpg", "dog/2.png"]
    assert corpus.train.label.tolist() == [0, 0, 1, 1]
    assert corpus.train.x.shape == (4, 3, 8, 8)
    assert corpus.train.clean is None


@pytest.mark.parametrize("suffix", ["png", "JPG", "jpeg", "bmp", "webp", "gif", "tif", "tiff"])
def test_formats(root, paint, suffix):
    paint(root / "dog" / f"3.{suffix}")
    assert f"dog/3.{suffix}" in load(root).train.ids


def test_train_and_test_folders(root, paint):
    for name in ("cat/a.png", "dog/b.png"):
        paint(root / "parts/train" / name, size=(6, 6))
    paint(root / "parts/test/dog/c.png", size=(12, 12))
    paint(root / "parts/val/owl/d.png")
    corpus = load(root / "parts")
    assert corpus.train.ids.tolist() == ["train/cat/a.png", "train/dog/b.png"]
    assert corpus.tests["test"].ids.tolist() == ["test/dog/c.png"]
    assert corpus.tests["test"].label.tolist() == [1]
    assert corpus.tests["test"].x.shape[2:] == (6, 6)
    assert corpus.class_names == ("cat", "dog")


def test_a_validation_folder_is_read_when_it_is_named(root, paint):
    for name in ("train/cat/a.png", "train/dog/b.png", "val/dog/d.png"):
        paint(root / "parts" / name)
    corpus = load(root / "parts", test=str(root / "parts/val"))
    assert corpus.tests["test"].ids.tolist() == ["dog/d.png"]


def test_a_class_may_be_called_train(root, paint):
    paint(root / "train/a.png")
    assert load(root).class_names == ("cat", "dog", "train")


def test_numbered_folders_are_sorted_by_value(tmp_path, paint):
    for name in ("10", "9", "1"):
        paint(tmp_path / name / "a.png")
    assert load(tmp_path).class_names == ("1", "9", "10")


def test_a_class_folder_without_images_is_named_and_passed_over(root, caplog):
    before = load(root)
    (root / "owl").mkdir()
    assert load(root).fingerprint() == before.fingerprint()
    assert "root/owl: a class folder without images is passed over" in caplog.text


def test_class_folders_without_any_images_are_an_error(tmp_path):
    (tmp_path / "empty" / "owl").mkdir(parents=True)
    with pytest.raises(DataError, match="empty: no images in its class folders"):
        load(tmp_path / "empty")


def test_an_image_without_a_class_folder_is_named(root, paint):
    paint(root / "stray.png")
    paint(root / "zebra.png")
    with pytest.raises(DataError, match=r"root/stray\.png \(and 1 more\): an image without a label; expected .*CLASS"):
        load(root)


def test_a_folder_without_class_folders_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no class folders; expected .*/CLASS/image"):
        load(tmp_path)


@pytest.mark.parametrize("name", [b"dog/caf\xe9.png", b"caf\xe9/1.png", b"dog/caf\xe9/1.png"])
def test_names_that_are_not_utf8_are_named(root, paint, name):
    paint(root / os.fsdecode(name))
    there = re.escape(str(root / name.decode(errors="backslashreplace").removesuffix("/1.png")))
    with pytest.raises(DataError, match=f"^{there}: a name that is not UTF-8; ") as caught:
        load(root)
    str(caught.value).encode()
    with pytest.raises(DataError, match=f"^{there}: a name that is not UTF-8; "):
        read_inputs(DataConfig(source=str(root), cache=False), (3, 8, 8))


def test_skipped_files_may_have_any_name(root):
    (root / os.fsdecode(b"dog/caf\xe9.txt")).write_text("not an image")
    assert len(load(root).train) == 4


class TestUnreadable:
    @pytest.fixture(autouse=True)
    def _broken(self, root, paint):
        whole = paint(root / "dog/3.png", np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8))
        (root / "dog/cut.png").write_bytes(whole.read_bytes()[:-60])
        (root / "dog/none.png").write_bytes(b"")
        (root / "cat/text.jpg").write_bytes(b"nothing")

    def test_they_are_counted_and_named(self, root):
        with pytest.raises(
            DataError, match=r"root: 3 of 8 images.*cat/text\.jpg: not readable.*dog/cut\.png; .*none\.png"
        ):
            load(root)

    def test_they_can_be_skipped_and_are_listed(self, root, caplog):
        corpus = load(root, unreadable="skip")
        assert corpus.train.ids.tolist() == ["cat/a.gif", "cat/deeper/x.bmp", "dog/1.jpg", "dog/2.png", "dog/3.png"]
        assert corpus.train.label.tolist() == [0, 0, 1, 1, 1]
        assert "3 of 8 images" in caplog.text
        assert "dog/cut.png" in caplog.text

    def test_no_class_may_be_lost(self, root):
        (root / "owl").mkdir()
        (root / "owl/a.png").write_bytes(b"nothing")
        with pytest.raises(
            DataError, match=r"root: the class 'owl' has no rows left: all 1 were left out as unreadable"
        ):
            load(root, unreadable="skip")

    def test_the_limit_of_pillow_applies(self, root, paint, monkeypatch):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
        paint(root / "dog/bomb.png", size=(20, 20))
        with pytest.raises(DataError, match="bomb"):
            load(root)


def test_rotated_grey_and_transparent_images_can_be_mixed(tmp_path, paint):
    picture = np.arange(6 * 8, dtype=np.uint8).reshape(6, 8)
    turned = Image.Exif()
    turned[0x0112] = 6
    paint(tmp_path / "a/turned.png", np.rot90(picture), exif=turned)
    paint(tmp_path / "a/grey.png", picture)
    paint(tmp_path / "b/colour.png", np.stack([picture] * 3, axis=2))
    paint(tmp_path / "b/clear.png", (9, 9, 9, 0), size=(8, 6), mode="RGBA")
    x = dict(zip(load(tmp_path).train.ids, load(tmp_path).train.x.numpy(), strict=True))
    assert all(np.array_equal(x[name], [picture] * 3) for name in ("a/turned.png", "a/grey.png", "b/colour.png"))
    assert (x["b/clear.png"] == 255).all()


def test_greyscale_alone_has_one_channel(tmp_path, paint):
    for name in ("a/1.png", "b/2.png"):
        paint(tmp_path / name, mode="L")
    assert load(tmp_path).train.x.shape == (2, 1, 8, 8)


@pytest.mark.parametrize(
    ("link", "target"), [("dog/link.png", "secret/x.png"), ("owl", "secret"), ("dog/more", "secret")]
)
def test_links_out_of_the_root_are_refused(root, tmp_path, paint, link, target):
    paint(tmp_path / "secret/x.png")
    (root / link).symlink_to(tmp_path / target)
    with pytest.raises(DataError, match=f"{link}: leads out of .*root"):
        load(root)


def test_links_inside_the_root_are_followed(root):
    (root / "dog" / "link.png").symlink_to(root / "dog" / "2.png")
    assert "dog/link.png" in load(root).train.ids


def test_circular_links_are_an_error(root):
    (root / "dog" / "again").symlink_to(root / "cat")
    (root / "cat" / "again").symlink_to(root / "dog")
    with pytest.raises(DataError, match="a link to a folder that contains it"):
        load(root)


def test_the_size_can_be_set(root):
    assert load(root, image_size=16).train.x.shape == (4, 3, 16, 16)
