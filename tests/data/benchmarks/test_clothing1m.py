import pytest
import torch

from surelabel.config import DataConfig
from surelabel.data import read_inputs
from surelabel.data.benchmarks.clothing1m import CLASSES
from surelabel.data.inputs import LazyInputs
from surelabel.errors import DataError

SMALL = {"image_size": 8}
BOTH = "images/2/26/3761328114,905362226.jpg"
"""A picture in both lists, with different labels; published names contain commas."""


def key(number):
    """Make a key, whose folders are the last three digits of the name."""
    name = f"1{number:09d},2{number:09d}"
    return f"images/{name[-3]}/{name[-2:]}/{name}.jpg"


KEYS = {
    "noisy_train": [key(number) for number in range(42)] + [BOTH],
    "clean_train": [BOTH, key(50)],
    "clean_val": [key(60), key(61)],
    "clean_test": [key(70), key(71)],
}
NOISY = {**{k: number % 14 for number, k in enumerate(KEYS["noisy_train"])}, BOTH: 3}
CLEAN = {BOTH: 5, key(50): 0, key(60): 1, key(61): 2, key(70): 3, key(71): 13}


def write(root, paint, texts=".", pictures="images"):
    """Write the official layout; the places of `texts` and `pictures` differ between copies."""
    (root / texts).mkdir(parents=True, exist_ok=True)
    for part, keys in KEYS.items():
        (root / texts / f"{part}_key_list.txt").write_text("\n".join(keys) + "\n\n")
    for part, labels in (("noisy", NOISY), ("clean", CLEAN)):
        (root / texts / f"{part}_label_kv.txt").write_text("".join(f"{k} {label}\n" for k, label in labels.items()))
    for number, k in enumerate(sorted({*NOISY, *CLEAN})):
        mode = {0: "L", 1: "CMYK"}.get(number, "RGB")
        paint(root / pictures / k.removeprefix("images/"), 0 if mode == "CMYK" else 100, (12, 9), mode)
    return root


@pytest.fixture
def root(tmp_path, paint):
    return write(tmp_path / "root", paint)


def test_training_uses_the_noisy_list_and_tests_the_clean_lists(root, load):
    corpus = load("clothing1m", root, **SMALL)
    assert corpus.train.ids.tolist() == KEYS["noisy_train"]
    assert corpus.train.label.tolist() == [NOISY[k] for k in KEYS["noisy_train"]]
    assert corpus.train.clean is None
    assert list(corpus.tests) == ["test", "clean_validation"]
    assert corpus.tests["test"].ids.tolist() == KEYS["clean_test"]
    assert corpus.tests["test"].label.tolist() == [3, 13]
    assert corpus.tests["clean_validation"].label.tolist() == [1, 2]
    assert corpus.class_names == CLASSES
    assert len(CLASSES) == 14
    assert corpus.train.x.shape == (43, 3, 8, 8)


def test_sizes_and_constants_are_those_of_the_paper(root, load):
    corpus = load("clothing1m", root)
    assert corpus.train.x.shape[1:] == (3, 256, 256)
    assert corpus.train.input_shape == (3, 224, 224)
    assert corpus.image_defaults.crop_padding == 0
    assert corpus.image_defaults.mean == pytest.approx((177.5, 166.7, 162.5), abs=0.05)
    assert load("clothing1m", root, image_size=16).train.input_shape == (3, 16, 16)
    assert load("clothing1m", root, crop=200).train.input_shape == (3, 200, 200)


def test_clean_training_pictures_are_added_on_request_with_separate_ids(root, load):
    corpus = load("clothing1m", root, {"use_clean_train": True}, **SMALL)
    assert corpus.train.ids[-3:].tolist() == [BOTH, f"clean/{BOTH}", f"clean/{key(50)}"]
    assert corpus.train.label[-3:].tolist() == [3, 5, 0]


@pytest.mark.parametrize(
    ("texts", "pictures"), [("annotations", "images"), ("images", "images"), (".", "."), (".", "images")]
)
def test_lists_and_pictures_may_be_in_any_of_the_usual_places(tmp_path, paint, load, texts, pictures):
    corpus = load("clothing1m", write(tmp_path, paint, texts, pictures), **SMALL)
    assert corpus.train.ids.tolist() == KEYS["noisy_train"]
    assert len(corpus.tests["test"]) == 2


def test_class_names_come_from_the_file_if_it_exists(root, load):
    (root / "category_names_eng.txt").write_text("\n".join(f"Class {number}" for number in range(14)))
    assert load("clothing1m", root, **SMALL).class_names[13] == "Class 13"
    (root / "category_names_eng.txt").write_text("One\nTwo\n")
    with pytest.raises(DataError, match=r"category_names_eng\.txt: 2 different class names; expected 14"):
        load("clothing1m", root, **SMALL)


def test_missing_pictures_are_counted_and_named(root, load):
    for k in (BOTH, key(7)):
        (root / k).unlink()
    message = rf"lacks 2 of 43 listed images \(such as {key(7)}, {BOTH}\); data\.unreadable=skip.*; expected ROOT"
    with pytest.raises(DataError, match=message):
        load("clothing1m", root, **SMALL)


def test_missing_pictures_are_skipped_on_request(root, load, caplog):
    (root / key(7)).unlink()
    corpus = load("clothing1m", root, unreadable="skip", **SMALL)
    assert corpus.train.ids.tolist() == [k for k in KEYS["noisy_train"] if k != key(7)]
    assert corpus.train.label.tolist() == [NOISY[k] for k in corpus.train.ids]
    assert f"lacks 1 of 43 listed images (such as {key(7)})" in caplog.text


def test_a_class_that_would_be_skipped_entirely_is_named(root, load):
    for k in KEYS["noisy_train"]:
        if NOISY[k] == 8:
            (root / k).unlink()
    with pytest.raises(DataError, match="the class 'Downcoat' has no rows left"):
        load("clothing1m", root, unreadable="skip", **SMALL)


def test_a_root_without_pictures_is_refused_even_when_skipping(root, load):
    for folder in (root / "images").iterdir():
        folder.rename(root / f"moved_{folder.name}")
    with pytest.raises(DataError, match=r"lacks the pictures, images/0\.\.9; expected"):
        load("clothing1m", root, unreadable="skip", **SMALL)


def test_missing_lists_are_named(root, load):
    (root / "clean_train_key_list.txt").unlink()
    assert len(load("clothing1m", root, **SMALL).train) == 43
    with pytest.raises(DataError, match=r"lacks clean_train_key_list\.txt; expected"):
        load("clothing1m", root, {"use_clean_train": True}, **SMALL)
    (root / "noisy_label_kv.txt").unlink()
    with pytest.raises(DataError, match=r"lacks noisy_label_kv\.txt; expected"):
        load("clothing1m", root, **SMALL)


@pytest.mark.parametrize(
    "line", ["images/0/00/a.jpg 14", "images/0/00/a.jpg", "images/0/00/a.jpg x", "images/0/00/a.jpg -1"]
)
def test_invalid_lines_are_named(root, load, line):
    with (root / "noisy_label_kv.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(
        DataError, match=r"noisy_label_kv\.txt, line 44: expected a file and a class of 0\.\.13, got 'images"
    ):
        load("clothing1m", root, **SMALL)


def test_a_key_without_a_label_is_named(root, load):
    with (root / "clean_test_key_list.txt").open("a") as file:
        file.write(key(99))
    with pytest.raises(DataError, match=rf"clean_test_key_list\.txt, line 4: no label for {key(99)}"):
        load("clothing1m", root, **SMALL)


def test_keys_must_not_lead_out_of_the_root(root, load, paint):
    paint(root.parent / "secret.jpg")
    where = "images/../../secret.jpg"
    with (root / "noisy_train_key_list.txt").open("a") as keys, (root / "noisy_label_kv.txt").open("a") as labels:
        keys.write(f"{where}\n")
        labels.write(f"{where} 1\n")
    with pytest.raises(DataError, match="leads out of"):
        load("clothing1m", root, **SMALL)


def test_pictures_can_be_streamed(root, load):
    streamed, kept = load("clothing1m", root, decode="stream", workers=0, **SMALL), load("clothing1m", root, **SMALL)
    assert isinstance(streamed.train.x, LazyInputs)
    assert (streamed.train.x[torch.tensor([42, 0])] == kept.train.x[[42, 0]]).all()


def test_inputs_are_the_test_images(root):
    x, ids = read_inputs(DataConfig(source="clothing1m", root=str(root)), (3, 8, 8))
    assert x.shape == (2, 3, 8, 8)
    assert ids.tolist() == KEYS["clean_test"]
