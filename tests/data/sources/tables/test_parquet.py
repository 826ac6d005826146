"""Parquet: single files, and folders in the layout of the hub."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data import load_corpus, read_inputs
from surelabel.errors import DataError


def png(value, size=(8, 8)):
    file = io.BytesIO()
    Image.new("RGB", size, (value,) * 3).save(file, "PNG")
    return file.getvalue()


def hub_table(labels, names=("cat", "dog", "owl"), start=0, **columns):
    """Return images as the hub writes them: {bytes, path}, with class names in the metadata."""
    images = [{"bytes": png(start + row), "path": None} for row in range(len(labels))]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    table = pa.table({"img": pa.array(images, kind), "label": pa.array(labels, pa.int64()), **columns})
    features = {"img": {"_type": "Image"}, "label": {"names": list(names), "_type": "ClassLabel"}}
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write(path, table, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def load(source, **options):
    return load_corpus(DataConfig(source=str(source), cache=False, **options))


class TestHubTable:
    def test_bytes_and_names_from_the_metadata(self, tmp_path):
        corpus = load(write(tmp_path / "t.parquet", hub_table([1, 0, 1]), row_group_size=2))
        assert corpus.class_names == ("cat", "dog", "owl")
        assert corpus.train.label.tolist() == [1, 0, 1]
        assert corpus.train.ids.tolist() == ["0", "1", "2"]
        assert corpus.train.x[:, 0, 0, 0].tolist() == [0, 1, 2]
        assert corpus.train.x.dtype == torch.uint8

    def test_another_label_column_shares_the_names_and_truth_is_known(self, tmp_path):
        table = hub_table([1, 0, 1], human=pa.array([1, 1, 0]))
        corpus = load(write(tmp_path / "t.parquet", table), label_column="human", clean_column="label")
        assert corpus.train.label.tolist() == [1, 1, 0]
        assert corpus.train.clean.tolist() == [1, 0, 1]

    def test_a_test_file_with_true_labels_alone(self, tmp_path):
        source = write(tmp_path / "train.parquet", hub_table([1, 0, 1], human=pa.array([1, 1, 0])))
        test = write(tmp_path / "test.parquet", hub_table([2, 0]))
        corpus = load(source, test=str(test), label_column="human", clean_column="label")
        assert corpus.tests["test"].label.tolist() == [2, 0]

    def test_but_training_on_true_labels_by_accident_is_an_error(self, tmp_path):
        with pytest.raises(DataError, match=r"there is no column 'human', which data\.label_column names"):
            load(write(tmp_path / "t.parquet", hub_table([1, 0])), label_column="human", clean_column="label")

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([0, 1, -1, None], r"t\.parquet, row 2: label is blank \(and 1 more\)"),
            ([0, 1, 3], r"t\.parquet, row 2: label is 3; there are 3 classes, counted from 0"),
        ],
    )
    def test_bad_labels(self, tmp_path, labels, message):
        with pytest.raises(DataError, match=message):
            load(write(tmp_path / "t.parquet", hub_table(labels)))

    def test_a_missing_image(self, tmp_path):
        table = hub_table([0, 1, 0])
        images = table["img"].to_pylist()
        images[1] = {"bytes": None, "path": "x.png"}
        source = write(tmp_path / "t.parquet", table.set_column(0, "img", pa.array(images, table["img"].type)))
        with pytest.raises(DataError, match=r"t\.parquet, row 1: img is blank; expected an image"):
            load(source)
        with pytest.raises(DataError, match="the class 'dog' has no rows left"):
            load(source, unreadable="skip")

    def test_a_broken_image_is_named_by_its_row(self, tmp_path):
        table = hub_table([0, 1, 0, 1])
        images = table["img"].to_pylist()
        images[2] = {"bytes": b"nothing", "path": None}
        source = write(tmp_path / "t.parquet", table.set_column(0, "img", pa.array(images, table["img"].type)))
        with pytest.raises(DataError, match=r"t\.parquet, row 2: not readable as an image"):
            load(source)
        assert load(source, unreadable="skip").train.ids.tolist() == ["0", "1", "3"]

    def test_paths_without_bytes_are_relative_to_the_file(self, tmp_path, paint):
        paint(tmp_path / "a.png")
        paint(tmp_path / "b.png", 7)
        images = pa.array(
            [{"bytes": None, "path": "a.png"}, {"bytes": None, "path": "b.png"}], hub_table([0])["img"].type
        )
        table = pa.table({"image": images, "label": ["x", "y"]})
        corpus = load(write(tmp_path / "t.parquet", table))
        assert corpus.train.ids.tolist() == ["a.png", "b.png"]
        assert corpus.train.x[1, 0, 0, 0] == 7


class TestTypes:
    def test_plain_bytes(self, tmp_path):
        table = pa.table({"picture": [png(3), png(4)], "label": ["x", "y"], "id": [7, 8]})
        corpus = load(write(tmp_path / "t.parquet", table))
        assert corpus.train.x[:, 0, 0, 0].tolist() == [3, 4]
        assert corpus.train.ids.tolist() == ["7", "8"]

    def test_paths(self, tmp_path, paint):
        paint(tmp_path / "a.png")
        paint(tmp_path / "b.png")
        table = pa.table({"path": ["a.png", "b.png"], "label": ["x", "y"]})
        assert load(write(tmp_path / "t.parquet", table)).train.ids.tolist() == ["a.png", "b.png"]
        table = pa.table({"path": ["a.png", "c.png"], "label": ["x", "y"]})
        with pytest.raises(DataError, match=r"t\.parquet, row 1: no image .*c\.png"):
            load(write(tmp_path / "t.parquet", table))

    def test_numbers_and_lists_of_numbers(self, tmp_path):
        table = pa.table(
            {
                "z": pa.array([1, 2], pa.int8()),
                "embedding": pa.array([[1.5, 2], [3, 4]], pa.list_(pa.float32())),
                "yes": [True, False],
                "text": ["1", "2"],
                "label": ["x", "y"],
            }
        )
        corpus = load(write(tmp_path / "t.parquet", table))
        assert corpus.train.x.tolist() == [[1.5, 2, 1, 1], [3, 4, 0, 2]]

    def test_features_of_lists_are_named_by_their_place_and_rows_left_alone_may_lack_them(self, tmp_path):
        lists = pa.array([[1.0, 2.0], [3.0, 4.0], None])
        table = pa.table({"f": lists, "label": ["x", "y", "x"], "split": ["train", "train", "validation"]})
        corpus = load(write(tmp_path / "t.parquet", table))
        assert corpus.train.x.tolist() == [[1, 2], [3, 4]]
        assert corpus.feature_names == ("f[0]", "f[1]")

    @pytest.mark.parametrize(
        ("column", "message"),
        [
            (pa.array([1.0, float("inf"), 2]), r"t\.parquet, row 1: f is inf; expected a finite number"),
            (
                pa.array([[1.0, 2.0], None, [1.0]]),
                r"t\.parquet, row 1: f has 0 numbers, where others have 2 \(and 1 more",
            ),
            (pa.array([[1.0], [None], [1.0]]), r"t\.parquet, row 1: f holds values that are missing or not finite"),
        ],
    )
    def test_bad_numbers(self, tmp_path, column, message):
        with pytest.raises(DataError, match=message):
            load(write(tmp_path / "t.parquet", pa.table({"f": column, "label": ["x", "y", "x"]})))

    @pytest.mark.parametrize(
        ("labels", "names"),
        [
            (pa.array([10.0, 9.0]), ("9", "10")),
            (pa.array([True, False]), ("False", "True")),
            (pa.array(["b", "a"]).dictionary_encode(), ("a", "b")),
            (pa.array([-1, 4]), ("-1", "4")),
        ],
    )
    def test_kinds_of_labels(self, tmp_path, labels, names):
        assert load(write(tmp_path / "t.parquet", pa.table({"f": [1.0, 2.0], "label": labels}))).class_names == names

    def test_labels_that_are_none(self, tmp_path):
        with pytest.raises(DataError, match=r"t\.parquet, row 1: label is 0\.5; labels are whole numbers or text"):
            load(write(tmp_path / "t.parquet", pa.table({"f": [1.0, 2.0], "label": [0.0, 0.5]})))
        with pytest.raises(DataError, match=r"t\.parquet, row 0: label is \[0\] \(and 1 more\); labels are whole"):
            load(write(tmp_path / "t.parquet", pa.table({"f": [1.0, 2.0], "label": [[0], [1]]})))

    def test_another_kind_of_file(self, tmp_path):
        (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing")
        with pytest.raises(DataError, match=r"t\.parquet: not readable as a parquet table") as caught:
            load(tmp_path / "t.parquet")
        assert "\n" not in str(caught.value)
        with pytest.raises(DataError, match=r"u\.parquet: no such file"):
            load(tmp_path / "u.parquet")

    @pytest.mark.parametrize("row", [0, 1])
    def test_text_that_is_not_utf8(self, tmp_path, paint, row):
        paint(tmp_path / os.fsdecode(b"caf\xe9.png"))
        paint(tmp_path / "tree.png")
        names = [b"tree.png", b"tree.png"]
        names[row] = b"caf\xe9.png"
        paths = pa.array(names, pa.binary()).view(pa.string())  # a view is not checked for UTF-8
        source = write(tmp_path / "t.parquet", pa.table({"path": paths, "label": ["a", "b"]}))
        with pytest.raises(DataError, match=r"t\.parquet: not readable as a parquet table \(.*(?i:utf-?8)"):
            load(source)

    @pytest.mark.parametrize("name", [b"caf\xe9.parquet", b"caf\xe9/train.parquet"])
    def test_names_that_are_not_utf8(self, tmp_path, name):
        written = write(tmp_path / "apart.parquet", pa.table({"f": [1.0, 2.0], "label": ["a", "b"]}))
        source = tmp_path / "folder" / os.fsdecode(name)
        source.parent.mkdir(parents=True)
        written.rename(source)
        with pytest.raises(DataError, match=r"folder/caf\\xe9.*parquet: a name that is not UTF-8"):
            load(tmp_path / "folder")


class TestFolder:
    @pytest.mark.parametrize(
        "layout",
        [
            ("train.parquet", "test.parquet"),
            ("data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
            ("plain_text/train-00000-of-00001-abc.parquet", "plain_text/test-00000-of-00001-def.parquet"),
            ("default/train/0000.parquet", "default/test/0000.parquet"),
            ("train/0.parquet", "test/0.parquet"),
            ("set-train.parquet", "set_test.parquet"),
        ],
    )
    def test_train_and_test_are_found_by_name(self, tmp_path, layout):
        write(tmp_path / layout[0], hub_table([0, 1, 2]))
        write(tmp_path / layout[1], hub_table([2, 1], start=9))
        write((tmp_path / layout[0]).with_name("validation.parquet"), hub_table([0]))
        (tmp_path / "README.md").write_text("a data set")
        corpus = load(tmp_path)
        assert corpus.train.ids.tolist() == ["0", "1", "2"]
        assert corpus.tests["test"].ids.tolist() == ["test/0", "test/1"]
        assert corpus.tests["test"].label.tolist() == [2, 1]
        assert corpus.tests["test"].x[:, 0, 0, 0].tolist() == [9, 10]

    def test_splits_in_several_files_are_joined_in_order(self, tmp_path):
        for number in range(3):
            write(tmp_path / f"data/train-{number:05d}-of-00003.parquet", hub_table([number, 0], start=10 * number))
        corpus = load(tmp_path)
        assert corpus.train.x[:, 0, 0, 0].tolist() == [0, 1, 10, 11, 20, 21]
        assert corpus.train.label.tolist() == [0, 0, 1, 0, 2, 0]
        assert not corpus.tests

    def test_rows_are_counted_per_file(self, tmp_path):
        write(tmp_path / "train-00000-of-00002.parquet", hub_table([1, 0]))
        write(tmp_path / "train-00001-of-00002.parquet", hub_table([1, None]))
        with pytest.raises(DataError, match=r"train-00001-of-00002\.parquet, row 1: label is blank"):
            load(tmp_path)

    def test_a_missing_file_of_several_is_named(self, tmp_path):
        write(tmp_path / "data/train-00001-of-00003.parquet", hub_table([0, 1]))
        message = r"train-00000-of-00003\.parquet \(and 1 more\): missing; 3 files belong together"
        with pytest.raises(DataError, match=message):
            load(tmp_path)

    def test_files_that_name_no_split_are_all_for_training(self, tmp_path):
        write(tmp_path / "b.parquet", hub_table([1]))
        write(tmp_path / "a.parquet", hub_table([0]))
        assert load(tmp_path).train.label.tolist() == [0, 1]

    def test_faults_of_layout(self, tmp_path):
        write(tmp_path / "one/test.parquet", hub_table([0, 1]))
        with pytest.raises(DataError, match="no train part, only test"):
            load(tmp_path)
        write(tmp_path / "two/train.parquet", hub_table([0, 1]))
        with pytest.raises(DataError, match="several data sets in the folders one, two; give one of them"):
            load(tmp_path)

    def test_files_with_different_columns(self, tmp_path):
        write(tmp_path / "train-00000-of-00002.parquet", hub_table([1, 0]))
        write(tmp_path / "train-00001-of-00002.parquet", pa.table({"img": [png(1)], "kind": ["x"]}))
        with pytest.raises(
            DataError, match=r"train-00001-of-00002\.parquet: there is no column 'label', as other files"
        ):
            load(tmp_path)

    def test_an_image_folder_may_contain_a_parquet_file(self, tmp_path, paint):
        for name in ("cat/a.png", "dog/b.png"):
            paint(tmp_path / name)
        write(tmp_path / "notes.parquet", pa.table({"a": [1]}))
        assert load(tmp_path).train.ids.tolist() == ["cat/a.png", "dog/b.png"]

    def test_links_out_of_the_root_are_refused(self, tmp_path):
        write(tmp_path / "secret/train.parquet", hub_table([0, 1]))
        (tmp_path / "root").mkdir()
        (tmp_path / "root/train.parquet").symlink_to(tmp_path / "secret/train.parquet")
        with pytest.raises(DataError, match=r"train\.parquet: leads out of .*root"):
            load(tmp_path / "root")

    def test_a_download_of_the_hub_links_into_its_store(self, tmp_path):
        blob = write(tmp_path / "datasets--x/blobs/abc", hub_table([0, 1]))
        data = tmp_path / "datasets--x/snapshots/rev/data"
        data.mkdir(parents=True)
        (data / "train-00000-of-00001.parquet").symlink_to(os.path.relpath(blob, data))
        assert len(load(data.parent).train) == 2

    def test_inputs_are_the_test_set(self, tmp_path):
        write(tmp_path / "train.parquet", hub_table([0, 1, 2]))
        config = DataConfig(source=str(tmp_path), cache=False)
        assert len(read_inputs(config, (3, 8, 8))[0]) == 3
        write(tmp_path / "test.parquet", hub_table([0, 1]))
        assert len(read_inputs(config, (3, 8, 8))[0]) == 2

    def test_as_test_data_its_test_split_is_read(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.zeros((2, 8, 8, 3), np.uint8), y=np.array(["cat", "dog"]))
        write(tmp_path / "hub/train.parquet", hub_table([0, 1, 2]))
        write(tmp_path / "hub/test.parquet", hub_table([1]))
        assert load(tmp_path / "a.npz", test=str(tmp_path / "hub")).tests["test"].label.tolist() == [1]


SHARED = Path(os.environ.get("SURELABEL_SHARED_DATA", Path(__file__).parents[5] / "shared" / "data"))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no data at {SHARED}; SURELABEL_SHARED_DATA names another folder")
class TestRealFiles:
    def test_cifar10_with_its_human_labels(self):
        corpus = load_corpus(
            DataConfig(source=str(SHARED / "cifar10"), label_column="human_label", clean_column="label")
        )
        assert corpus.class_names[:3] == ("airplane", "automobile", "bird")
        assert (len(corpus.train), len(corpus.tests["test"])) == (50_000, 10_000)
        assert round((corpus.train.label != corpus.train.clean).double().mean().item(), 4) == 0.1723

    def test_train_and_test_by_name(self):
        config = DataConfig(source=str(SHARED / "cifar10/train.parquet"), test=str(SHARED / "cifar10/test.parquet"))
        corpus = load_corpus(config)
        assert (len(corpus.train), len(corpus.tests["test"])) == (50_000, 10_000)

    def test_cifar100_has_its_fine_labels(self):
        assert load_corpus(DataConfig(source=str(SHARED / "cifar100"))).num_classes == 100
