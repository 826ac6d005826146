import json

import pytest

from surelabel.config import DataConfig
from surelabel.data import read_inputs
from surelabel.errors import DataError

SMALL = {"image_size": 8}
KEYS = [
    "filet_mignon/k1.jpg",
    "hot_and_sour_soup/k1.jpg",
    "apple_pie/k3.jpg",
    "apple_pie/k2.jpg",
    "filet_mignon/k4.jpg",
]
TEST = {"apple_pie": ["apple_pie/11", "apple_pie/12"], "hot_and_sour_soup": ["hot_and_sour_soup/13"]}


def write(root, paint):
    """Write the release: lists with header lines, a key in two classes, verification labels."""
    (root / "meta").mkdir(parents=True)
    (root / "meta/classes.txt").write_text("class_name\napple_pie\nfilet_mignon\nhot_and_sour_soup\n")
    (root / "meta/imagelist.tsv").write_text("class_name/key\n" + "\n".join(KEYS) + "\n\n")
    (root / "meta/verified_train.tsv").write_text("class_name/key\tverification_label\napple_pie/k2.jpg\t0\n")
    for key in KEYS:
        paint(root / "images" / key, size=(12, 8))
    return root


def write_food101(root, paint, suffix):
    (root / "meta").mkdir(parents=True)
    keys = [key for keys in TEST.values() for key in keys]
    (root / f"meta/test.{suffix}").write_text(json.dumps(TEST) if suffix == "json" else "\n".join(keys) + "\n")
    for key in keys:
        paint(root / f"images/{key}.jpg")
    return root


@pytest.mark.parametrize("folder", [".", "Food-101N_release"])
def test_the_release_is_read_without_its_header_lines(tmp_path, paint, load, folder):
    write(tmp_path / "root" / folder, paint)
    corpus = load("food101n", tmp_path / "root", **SMALL)
    assert corpus.train.ids.tolist() == KEYS
    assert corpus.train.label.tolist() == [1, 2, 0, 0, 1]
    assert corpus.train.clean is None
    assert corpus.class_names == ("apple_pie", "filet_mignon", "hot_and_sour_soup")
    assert corpus.tests == {}


@pytest.mark.parametrize("suffix", ["txt", "json"])
@pytest.mark.parametrize("folder", [".", "food-101"])
def test_the_test_set_is_that_of_food101(tmp_path, paint, load, suffix, folder):
    write(tmp_path / "root", paint)
    write_food101(tmp_path / "other" / folder, paint, suffix)
    test = load("food101n", tmp_path / "root", {"food101": str(tmp_path / "other")}, **SMALL).tests["test"]
    assert test.ids.tolist() == ["food101/apple_pie/11", "food101/apple_pie/12", "food101/hot_and_sour_soup/13"]
    assert test.label.tolist() == [0, 0, 2]


def test_sizes_and_constants_are_those_of_imagenet(tmp_path, paint, load):
    corpus = load("food101n", write(tmp_path / "root", paint))
    assert corpus.train.x.shape[1:] == (3, 256, 256)
    assert corpus.train.input_shape == (3, 224, 224)
    assert corpus.image_defaults.std == pytest.approx((58.395, 57.12, 57.375))


@pytest.mark.parametrize("line", ["tofu/k1.jpg", "apple_pie", "apple_pie/"])
def test_invalid_lines_are_named(tmp_path, paint, load, line):
    with (write(tmp_path, paint) / "meta/imagelist.tsv").open("a") as file:
        file.write(line)
    with pytest.raises(DataError, match=rf"imagelist\.tsv, line 8: expected CLASS/IMAGE .* got '{line}'"):
        load("food101n", tmp_path, **SMALL)


def test_missing_files_are_named(tmp_path, paint, load):
    root = write(tmp_path / "root", paint)
    with pytest.raises(
        DataError, match=r"data\.options\.food101: .* lacks meta/test\.txt or meta/test\.json; expected FOLDER"
    ):
        load("food101n", root, {"food101": str(tmp_path)}, **SMALL)
    (root / "images/apple_pie/k2.jpg").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of 5 listed images \(such as images/apple_pie/k2\.jpg\)"):
        load("food101n", root, **SMALL)
    (root / "meta/classes.txt").unlink()
    with pytest.raises(DataError, match=r"lacks meta/classes\.txt; expected ROOT/"):
        load("food101n", root, **SMALL)


def test_inputs_are_the_test_images_or_else_the_training_images(tmp_path, paint):
    write(tmp_path / "root", paint)
    write_food101(tmp_path / "other", paint, "txt")
    config = DataConfig(source="food101n", root=str(tmp_path / "root"))
    assert read_inputs(config, (3, 8, 8))[1].tolist() == KEYS
    with_test = config.model_copy(update={"options": {"food101": str(tmp_path / "other")}})
    assert len(read_inputs(with_test, (3, 8, 8))[1]) == 3
