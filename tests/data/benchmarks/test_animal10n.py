import numpy as np
import pytest

from surelabel.config import DataConfig
from surelabel.data import read_inputs
from surelabel.data.benchmarks.animal10n import CLASSES
from surelabel.errors import DataError

RECORD = 4 + 4 + 3 * 64 * 64


def records(labels, order="<"):
    """Make records of id, label and pixels; the channels of picture i are i, i + 1 and i + 2."""
    kind = np.dtype([("id", f"{order}i4"), ("label", f"{order}i4"), ("pixels", "u1", (3, 64, 64))])
    rows = np.zeros(len(labels), kind)
    rows["id"], rows["label"] = 7_000_000 + np.arange(len(labels)), labels
    rows["pixels"] = np.arange(len(labels))[:, None, None, None] + np.arange(3)[:, None, None]
    return rows.tobytes()


def write_binary(root, order="<"):
    root.mkdir(exist_ok=True)
    for number in (10, 9, 1):
        (root / f"data_batch_{number}.bin").write_bytes(records([number % 10, 3], order))
    (root / "test_batch.bin").write_bytes(records([4, 5, 0], order))
    return root


def write_raw(root, paint, size=(64, 64)):
    for name in ("9_cat.jpg", "0_b.jpg", "1_z.png", "0_a.jpg"):
        paint(root / "training" / name, int(name[0]), size)
    for name in ("3_y.jpg", "2_x.jpg"):
        paint(root / "testing" / name, size=size)
    return root


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_binary_version_is_read_in_either_byte_order(tmp_path, load, order):
    corpus = load("animal10n", write_binary(tmp_path, order))
    assert corpus.train.x.shape == (6, 3, 64, 64)
    assert corpus.train.x[1, :, 5, 5].tolist() == [1, 2, 3]
    assert corpus.train.label.tolist() == [1, 3, 9, 3, 0, 3]
    assert corpus.train.ids[[0, 5]].tolist() == ["train/00000", "train/00005"]
    assert corpus.train.clean is None
    assert corpus.tests["test"].label.tolist() == [4, 5, 0]
    assert corpus.class_names == CLASSES


def test_the_files_of_the_raw_version_are_sorted(tmp_path, paint, load):
    corpus = load("animal10n", write_raw(tmp_path, paint))
    assert corpus.train.ids.tolist() == [
        "training/0_a.jpg",
        "training/0_b.jpg",
        "training/1_z.png",
        "training/9_cat.jpg",
    ]
    assert corpus.train.label.tolist() == [0, 0, 1, 9]
    assert corpus.tests["test"].ids.tolist() == ["testing/2_x.jpg", "testing/3_y.jpg"]


def test_the_raw_version_may_be_one_folder_deeper_and_of_other_sizes(tmp_path, paint, load):
    corpus = load("animal10n", write_raw(tmp_path / "raw_image_ver", paint, (90, 70)).parent)
    assert corpus.train.x.shape == (4, 3, 64, 64)


def test_there_is_no_augmentation_by_default(tmp_path, load):
    look = load("animal10n", write_binary(tmp_path)).image_defaults
    assert look.crop_padding == 0
    assert not look.flip


def test_labels_that_are_invalid_in_both_byte_orders_are_refused(tmp_path, load):
    (write_binary(tmp_path) / "data_batch_9.bin").write_bytes(records([1, 10]))
    with pytest.raises(DataError, match=r"data_batch_9\.bin: .* 0\.\.9"):
        load("animal10n", tmp_path)


@pytest.mark.parametrize("size", [0, RECORD - 1, RECORD + 8])
def test_truncated_batches_are_named(tmp_path, load, size):
    (write_binary(tmp_path) / "data_batch_1.bin").write_bytes(records([1, 2])[:size])
    with pytest.raises(DataError, match=rf"data_batch_1\.bin: {size} bytes .* {RECORD} bytes"):
        load("animal10n", tmp_path)


def test_a_name_without_a_class_is_refused(tmp_path, paint, load):
    paint(write_raw(tmp_path, paint) / "training/10_x.jpg", size=(64, 64))
    with pytest.raises(DataError, match=r"training/10_x\.jpg: .* 0_ to 9_"):
        load("animal10n", tmp_path)


def test_a_missing_part_is_named(tmp_path, load):
    (write_binary(tmp_path) / "test_batch.bin").unlink()
    with pytest.raises(DataError, match=r"lacks testing/ and test_batch\*\.bin; expected ROOT/.*kaist"):
        load("animal10n", tmp_path)


def test_inputs_are_the_test_images(tmp_path):
    x, ids = read_inputs(DataConfig(source="animal10n", root=str(write_binary(tmp_path))), (3, 32, 32))
    assert x.shape == (3, 3, 32, 32)
    assert ids[0] == "test/00000"
