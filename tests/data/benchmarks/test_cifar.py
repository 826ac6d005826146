import pickle

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from surelabel.config import DataConfig
from surelabel.data import read_inputs
from surelabel.data.benchmarks.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES, CIFAR100_SUPERCLASSES
from surelabel.errors import ConfigError, DataError

ORDER = [0, 7, 4, 1, 8, 5, 2, 9, 6, 3]
ANY = {"verify": False}

LAYOUTS = {
    "folder": lambda files, root: files.batches(root / "cifar-10-batches-py"),
    "folder itself": lambda files, root: files.batches(root / "."),
    "archive": lambda files, root: files.archive(root / "cifar-10-python.tar.gz"),
    "parquet": lambda files, root: files.parquet(root),
    "parquet in data": lambda files, root: files.parquet(root / "data", num_shards=1),
    "parquet in shards": lambda files, root: files.parquet(root / "plain_text", num_shards=3),
    "parquet without names": lambda files, root: files.parquet(root, names=False),
}


def write(layout, files, root):
    if layout != "folder itself":
        root.mkdir()
    LAYOUTS[layout](files, root)
    return root


def test_the_classes_are_in_their_published_order():
    assert len(CIFAR10_CLASSES) == 10
    assert CIFAR10_CLASSES[3:6] == ("cat", "deer", "dog")
    assert len(CIFAR100_CLASSES) == 100
    assert list(CIFAR100_CLASSES) == sorted(CIFAR100_CLASSES)
    assert len(CIFAR100_SUPERCLASSES) == 20


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_yields_the_same_rows(tmp_path, load, cifar10, layout):
    corpus = load("cifar10", write(layout, cifar10, tmp_path / "root"), ANY)
    assert corpus.class_names == CIFAR10_CLASSES
    assert corpus.train.x.shape == (10, 3, 32, 32)
    assert corpus.train.x[:, 0, 0, 0].tolist() == list(range(10))
    assert corpus.train.label.tolist() == ORDER
    assert corpus.train.clean.tolist() == ORDER
    assert corpus.train.ids[[0, 9]].tolist() == ["train/00000", "train/00009"]
    assert corpus.tests["test"].label.tolist() == [0, 1, 2, 3]
    assert corpus.tests["test"].ids[0] == "test/00000"
    assert corpus.image_defaults.crop_padding == 4
    assert corpus.image_defaults.flip
    assert corpus.image_defaults.mean == pytest.approx((125.3, 123.0, 113.9), abs=0.05)


def test_channels_come_before_rows_in_the_batches(tmp_path, load, cifar10):
    batch = cifar10.batches(tmp_path / "cifar-10-batches-py") / "data_batch_1"
    content = pickle.loads(batch.read_bytes())
    content[b"data"] = np.stack([np.arange(3072) // 1024, np.arange(3072) % 32]).astype(np.uint8)
    batch.write_bytes(pickle.dumps(content, 2))
    x = load("cifar10", tmp_path, ANY).train.x
    assert x[0].float().mean((1, 2)).tolist() == [0, 1, 2]
    assert x[1, 0, 5].tolist() == list(range(32))


def test_class_folders_have_paths_as_ids(tmp_path, load, cifar10):
    corpus = load("cifar10", cifar10.pictures(tmp_path))
    assert corpus.train.ids[:2].tolist() == ["train/airplane/0000.png", "train/automobile/0003.png"]
    assert corpus.train.label.tolist() == list(range(10))
    assert corpus.train.x[1, 0, 0, 0] == 3
    assert corpus.train.clean.tolist() == corpus.train.label.tolist()
    assert len(corpus.tests["test"]) == 4


def test_a_folder_that_is_not_a_class_is_named(tmp_path, load, cifar10, paint):
    paint(cifar10.pictures(tmp_path) / "train/unicorn/1.png", size=(32, 32))
    with pytest.raises(DataError, match=r"train/unicorn: not a class of cifar10"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize("layout", ["batches", "parquet", "archive"])
def test_cifar100_has_fine_and_coarse_labels(tmp_path, load, cifar100, layout):
    place = {"batches": "cifar-100-python", "parquet": "cifar100", "archive": "cifar-100-python.tar.gz"}[layout]
    getattr(cifar100, layout)(tmp_path / place)
    fine = load("cifar100", tmp_path, ANY)
    assert fine.class_names == CIFAR100_CLASSES
    assert fine.train.label.tolist() == [10 * label for label in ORDER]
    coarse = load("cifar100", tmp_path, ANY, label_column="coarse_label")
    assert coarse.class_names == CIFAR100_SUPERCLASSES
    assert coarse.train.label.tolist() == [10 * label % 20 for label in ORDER]
    assert coarse.train.clean.tolist() == coarse.train.label.tolist()
    assert coarse.tests["test"].label.tolist() == [0, 10, 0, 10]


def test_another_label_column_has_the_given_labels_and_the_usual_one_the_clean(tmp_path, load, cifar10):
    human = [3, *ORDER[1:]]
    cifar10.parquet(tmp_path, human_label=human, weight=[1000] * 10)
    corpus = load("cifar10", tmp_path, label_column="human_label")
    assert corpus.train.label.tolist() == human
    assert corpus.train.clean.tolist() == ORDER
    assert corpus.tests["test"].label.tolist() == [0, 1, 2, 3]
    with pytest.raises(
        ConfigError, match=r"data\.label_column: there is no column 'weight'; available: label, human_label"
    ):
        load("cifar10", tmp_path, label_column="weight")


def test_class_numbers_follow_the_names_in_the_schema(tmp_path, load, cifar100):
    table = pyarrow.parquet.read_table(cifar100.parquet(tmp_path) / "train.parquet")
    text = table.schema.metadata[b"huggingface"].decode().replace('"crab"', '"cra"').replace('"apple", "aqu', '"aqu')
    text = text.replace('"baby"', '"apple", "baby"')
    table = table.replace_schema_metadata({"huggingface": text})
    pyarrow.parquet.write_table(table, tmp_path / "train.parquet")
    label = load("cifar100", tmp_path).train.label.tolist()
    assert label == [1 if 10 * number == 0 else 10 * number for number in ORDER]
    assert load("cifar100", tmp_path).class_names == CIFAR100_CLASSES


def test_unknown_class_names_are_refused(tmp_path, load, cifar10):
    cifar10.classes = ("unicorn", *CIFAR10_CLASSES[1:])
    cifar10.parquet(tmp_path)
    with pytest.raises(DataError, match=r"train\.parquet: unexpected classes in label, such as 'unicorn'"):
        load("cifar10", tmp_path)


def test_class_numbers_out_of_range_are_named(tmp_path, load, cifar10):
    cifar10.labels["train"][4] = -1
    cifar10.parquet(tmp_path)
    with pytest.raises(DataError, match=r"train\.parquet: label of row 4 is -1; expected 0\.\.9"):
        load("cifar10", tmp_path)


def test_an_unreadable_image_is_named(tmp_path, load, cifar10):
    cifar10._png = lambda value: b"broken" if value == 2 else type(cifar10)._png(cifar10, value)
    cifar10.parquet(tmp_path)
    with pytest.raises(DataError, match=r"train/00002"):
        load("cifar10", tmp_path)


def test_published_checksums_are_verified(tmp_path, load, cifar10):
    cifar10.batches(tmp_path / "a/cifar-10-batches-py")
    cifar10.archive(tmp_path / "b-10.tar.gz")
    (tmp_path / "b").mkdir()
    (tmp_path / "b-10.tar.gz").rename(tmp_path / "b/cifar-10-python.tar.gz")
    for root, file in (("a", "data_batch_1"), ("b", "cifar-10-python.tar.gz")):
        with pytest.raises(
            DataError, match=rf"{file}: not the published file: its md5 sum is \w+, expected c\w+; .*verify=false"
        ):
            load("cifar10", tmp_path / root)
        assert len(load("cifar10", tmp_path / root, ANY).train) == 10


def test_a_malicious_batch_is_refused_and_not_run(tmp_path, load, cifar10):
    touched = tmp_path / "touched"
    folder = cifar10.batches(tmp_path / "cifar-10-batches-py")
    (folder / "data_batch_3").write_bytes(f"cos\nsystem\n(S'touch {touched}'\ntR.".encode())
    with pytest.raises(DataError, match=r"data_batch_3: refused as a pickle .*\(it names (os|posix)\.system"):
        load("cifar10", tmp_path, ANY)
    assert not touched.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({b"data": np.zeros((2, 10), dtype=np.uint8)}, r"expected `data`, uint8 \(N, 3072\), found uint8 \(2, 10\)"),
        ({b"labels": [1]}, r"expected `labels`, 2 whole numbers, found 1 values"),
        ({b"labels": [1, 10]}, r"`labels` of row 1 is 10; expected 0\.\.9"),
    ],
)
def test_invalid_batches_are_named(tmp_path, load, cifar10, change, message):
    batch = cifar10.batches(tmp_path / "cifar-10-batches-py") / "data_batch_2"
    batch.write_bytes(pickle.dumps({**pickle.loads(batch.read_bytes()), **change}, 2))
    with pytest.raises(DataError, match=f"data_batch_2: {message}"):
        load("cifar10", tmp_path, ANY)


def test_missing_batches_are_listed(tmp_path, load, cifar10):
    folder = cifar10.batches(tmp_path / "cifar-10-batches-py")
    (folder / "data_batch_4").unlink()
    (folder / "test_batch").unlink()
    with pytest.raises(
        DataError, match=r"lacks cifar-10-batches-py/data_batch_4, cifar-10-batches-py/test_batch; expected"
    ):
        load("cifar10", tmp_path, ANY)


def test_a_truncated_archive_is_named(tmp_path, load, cifar10):
    path = cifar10.archive(tmp_path / "cifar-10-python.tar.gz")
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz: not readable as an archive"):
        load("cifar10", tmp_path, ANY)


def test_a_missing_test_part_is_named(tmp_path, load, cifar10):
    (cifar10.parquet(tmp_path) / "test.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks test\.parquet; expected one of ROOT"):
        load("cifar10", tmp_path)


def test_an_incomplete_download_is_refused(tmp_path, load, cifar10):
    (cifar10.parquet(tmp_path / "data", num_shards=3) / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks some of the 00003 files of which train-00000-of-00003\.parquet is one"):
        load("cifar10", tmp_path)


def test_links_of_a_hub_download_are_followed_into_its_store_only(tmp_path, load, cifar10):
    snapshot, store = tmp_path / "datasets--cifar10/snapshots/abc", tmp_path / "datasets--cifar10/blobs"
    cifar10.parquet(snapshot)
    store.mkdir()
    for number, path in enumerate(sorted(snapshot.iterdir())):
        path.rename(store / str(number))
        path.symlink_to(store / str(number))
    assert len(load("cifar10", snapshot).train) == 10
    (snapshot / "test.parquet").unlink()
    (snapshot / "test.parquet").symlink_to(cifar10.parquet(tmp_path / "elsewhere") / "test.parquet")
    with pytest.raises(DataError, match=r"test\.parquet: leads out of"):
        load("cifar10", snapshot)


def test_sizes_can_be_set_and_inputs_are_the_test_images(tmp_path, load, cifar10):
    cifar10.parquet(tmp_path)
    assert load("cifar10", tmp_path, image_size=16).train.x.shape == (10, 3, 16, 16)
    x, ids = read_inputs(DataConfig(source="cifar10", root=str(tmp_path)), (3, 32, 32))
    assert x.shape == (4, 3, 32, 32)
    assert ids[0] == "test/00000"
