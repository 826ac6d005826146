"""Replaced labels of any source, and rows whose label a person has confirmed."""

import numpy as np
import pytest

from surelabel.config import DataConfig, NoiseConfig
from surelabel.data import load_corpus
from surelabel.data.relabel import mark_trusted
from surelabel.errors import DataError
from surelabel.training import build


@pytest.fixture
def archive(tmp_path):
    def write(labels="abab", **arrays):
        x = np.arange(2.0 * len(labels)).reshape(-1, 2)
        np.savez(tmp_path / "a.npz", x=x, y=np.array(list(labels)), **arrays)
        return str(tmp_path / "a.npz")

    return write


@pytest.fixture
def file(tmp_path):
    def write(text, name="l.csv"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


class TestLabels:
    def load(self, source, labels, **options):
        return load_corpus(DataConfig(source=source, labels=labels, **options))

    def test_they_override_those_of_the_source(self, archive, file, caplog):
        corpus = self.load(archive(), file("label,id\nb,0\nb,3\n"))
        assert corpus.train.label.tolist() == [1, 1, 0, 1]
        assert corpus.train.clean is None
        assert "l.csv: names 2 of 4 rows and changes 1 labels" in caplog.text

    def test_added_and_removed_rows_are_logged(self, archive, file, caplog):
        corpus = self.load(archive("ababa"), file("id,label\n0,b\n1,b\n2,b\ngone,a\n"))
        assert corpus.train.label.tolist() == [1, 1, 1, 1, 0]
        assert "l.csv: 1 of 4 ids are not in" in caplog.text
        assert ": gone; rows that were removed there are passed over" in caplog.text
        assert "l.csv: names 3 of 5 rows and changes 2 labels; the other 2 keep their own: 3, 4" in caplog.text

    def test_true_labels_do_not_change(self, archive, file):
        corpus = self.load(archive(clean=np.array(list("aabb"))), file("id,label\n0,b\n"))
        assert corpus.train.label.tolist() == [1, 1, 0, 1]
        assert corpus.train.clean.tolist() == [0, 0, 1, 1]

    def test_new_classes_are_logged(self, archive, file, caplog):
        assert self.load(archive(), file("id,label\n0,owl\n")).class_names == ("a", "b", "owl")
        assert "l.csv: has classes that the data do not have: owl" in caplog.text

    def test_no_new_classes_if_the_source_fixes_them(self, archive, file):
        source = archive(class_names=np.array(["b", "a"]))
        assert self.load(source, file("id,label\n0,b\n")).train.label.tolist() == [0, 0, 1, 0]
        with pytest.raises(DataError, match=r"l\.csv, row 2: there is no class 'owl'; available: b, a"):
            self.load(source, file("id,label\n0,owl\n"))

    def test_whole_numbers_are_positions_in_fixed_classes(self, archive, file):
        source = archive(class_names=np.array(["b", "a"]))
        assert self.load(source, file("id,label\n0,0\n1,1\n")).train.label.tolist() == [0, 1, 1, 0]
        with pytest.raises(DataError, match=r"l\.csv, row 3: there is no class '2'"):
            self.load(source, file("id,label\n0,0\n1,2\n"))

    def test_validation_and_test_rows_are_relabelled_too(self, archive, file):
        source = archive("abababab", x_test=np.zeros((2, 2)), y_test=np.array(["a", "a"]))
        text = "id,label\ntest/1,b\n" + "".join(f"{row},{'ba'[row % 2]}\n" for row in range(8))
        corpus = self.load(source, file(text), validation_fraction=0.25)
        assert corpus.tests["test"].label.tolist() == [0, 1]
        rows = zip(corpus.validation.ids, corpus.validation.label.tolist(), strict=True)
        assert all(label == 1 - int(name) % 2 for name, label in rows)

    CLEANED = "id,label,given,decided_by\n0,b,a,model\n1,a,b,person\n2,a,a,nobody\n3,b,b,nobody\n"

    def test_an_export_says_what_the_model_replaced_and_what_persons_decided(self, archive, file):
        train = self.load(archive(), file(self.CLEANED)).train
        assert train.label.tolist() == [1, 0, 0, 1]
        assert train.original.tolist() == [0, 1, 0, 1]
        assert train.trusted.tolist() == [False, True, False, False]
        assert train.as_given().label.tolist() == [0, 0, 0, 1], "what the model replaced, and not what a person did"
        assert train.subset(np.array([3, 0])).original.tolist() == [1, 0]

    def test_a_class_that_the_model_emptied_stays_a_class(self, archive, file):
        text = "id,label,given,decided_by\n0,a,a,nobody\n1,a,owl,model\n2,a,a,nobody\n3,b,b,nobody\n"
        assert self.load(archive("aaab"), file(text)).class_names == ("a", "b", "owl")

    @pytest.mark.parametrize("columns", ["id,label,given,other", "id,label,before,decided_by"])
    def test_columns_of_other_files_say_nothing(self, archive, file, columns):
        train = self.load(archive(), file(self.CLEANED.replace("id,label,given,decided_by", columns))).train
        assert train.label.tolist() == [1, 0, 0, 1]
        assert (train.original, train.trusted) == (None, None)

    def test_the_given_label_must_be_a_class(self, archive, file):
        source = archive(class_names=np.array(["a", "b"]))
        with pytest.raises(DataError, match=r"row 2: there is no class 'owl'; available: a, b"):
            self.load(source, file(self.CLEANED.replace("0,b,a,model", "0,b,owl,model")))
        with pytest.raises(DataError, match=r"row 2: given is blank"):
            self.load(archive(), file(self.CLEANED.replace("0,b,a,model", "0,b,,model")))

    def test_noise_on_top_is_an_experiment_of_its_own(self, archive, file):
        config = DataConfig(source=archive("abababab"), labels=file(self.CLEANED))
        corpus, _ = build.corpus(config, NoiseConfig(kind="symmetric", rate=0.3), 0)
        assert (corpus.train.original, corpus.train.trusted) == (None, None)

    def test_confirmed_rows_of_both_files_are_trusted(self, archive, file):
        config = DataConfig(source=archive(), labels=file(self.CLEANED), trusted=file("id,label\n0,b\n", "t.csv"))
        corpus, _ = build.corpus(config, None, 0)
        assert corpus.train.trusted.tolist() == [True, True, False, False]
        assert corpus.train.as_given().label.tolist() == [1, 0, 0, 1]

    def test_a_test_row_with_the_id_of_a_training_row_keeps_its_label(self, archive, file, tmp_path):
        np.savez(tmp_path / "b.npz", x=np.zeros((2, 2)), y=np.array(["a", "b"]))
        corpus = self.load(archive(), file("id,label\n0,b\n"), test=str(tmp_path / "b.npz"))
        assert corpus.train.label.tolist() == [1, 1, 0, 1]
        assert corpus.tests["test"].label.tolist() == [0, 1]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "id,label\n0,a\n7,b\n9,a\n",
                r"l\.csv, row 3: 2 of 3 ids are not in .*a\.npz: 7, 9; ids there look like '0'",
            ),
            ("id,label\n0,a\n1,b\n0,b\n", r"l\.csv, row 4: the id '0' .* row 2;"),
            ("id,label\n0,\n", r"l\.csv, row 2: label is blank"),
            ("id,label\n,a\n", r"l\.csv, row 2: id is blank"),
            ("id,klass\n0,a\n", r"l\.csv: there is no column 'label'; available: id, klass"),
            ("name,label\n0,a\n", r"l\.csv: there is no column 'id'; available: name, label"),
        ],
    )
    def test_faults_are_named_with_their_row(self, archive, file, text, message):
        with pytest.raises(DataError, match=message):
            self.load(archive(), file(text))

    def test_a_missing_file(self, archive):
        with pytest.raises(DataError, match=r"nosuch\.csv: no such file"):
            self.load(archive(), "nosuch.csv")


class TestWithoutLabels:
    """Sources without labels, for which the file must name every row."""

    def test_an_array(self, tmp_path, file):
        np.save(tmp_path / "x.npy", np.eye(3))
        corpus = load_corpus(DataConfig(source=str(tmp_path / "x.npy"), labels=file("id,label\n2,b\n0,a\n1,a\n")))
        assert corpus.train.label.tolist() == [0, 0, 1]

    def test_an_archive(self, tmp_path, file):
        np.savez(tmp_path / "x.npz", x=np.eye(2))
        config = DataConfig(source=str(tmp_path / "x.npz"), labels=file("id,label\n1,b\n0,a\n"))
        assert load_corpus(config).train.label.tolist() == [0, 1]

    def test_arrays_and_data_sets(self, file):
        labels = file("id,label\n1,b\n0,a\n")
        assert load_corpus(DataConfig(source="<arrays>", labels=labels), {"x": np.eye(2)}).class_names == ("a", "b")

        class Rows:
            def __len__(self):
                return 2

            def __getitem__(self, row):
                return np.eye(2)[row]

        assert load_corpus(DataConfig(source="<dataset>", labels=labels), Rows()).train.label.tolist() == [0, 1]

    def test_a_folder_of_loose_images(self, tmp_path, paint, file):
        for name in ("a.png", "b.png", "deep/c.png"):
            paint(tmp_path / "photos" / name)
        text = "id,label\na.png,cat\nb.png,dog\ndeep/c.png,cat\n"
        corpus = load_corpus(DataConfig(source=str(tmp_path / "photos"), labels=file(text), cache=False))
        assert corpus.train.ids.tolist() == ["a.png", "b.png", "deep/c.png"]
        assert corpus.train.label.tolist() == [0, 1, 0]
        assert corpus.class_names == ("cat", "dog")

    def test_a_table_without_labels_or_with_blank_ones(self, tmp_path, file):
        for text in ("id,f\nq,1\nr,2\n", "id,f,label\nq,1,\nr,2,a\n"):
            (tmp_path / "t.csv").write_text(text)
            config = DataConfig(source=str(tmp_path / "t.csv"), labels=file("id,label\nq,b\nr,a\n"))
            assert load_corpus(config).train.label.tolist() == [1, 0]

    def test_rows_without_a_label_are_counted(self, tmp_path, file):
        np.save(tmp_path / "x.npy", np.eye(9))
        config = DataConfig(source=str(tmp_path / "x.npy"), labels=file("id,label\n2,b\n0,a\n"))
        with pytest.raises(
            DataError, match=r"l\.csv: 7 of 9 rows in .*x\.npy have no label, .*: 1, 3, 4, 5, 6 and 2 more"
        ):
            load_corpus(config)

    def test_skipped_rows_may_be_named(self, tmp_path, paint, file, caplog):
        for name in ("a.png", "b.png"):
            paint(tmp_path / "photos" / name)
        (tmp_path / "photos/c.png").write_bytes(b"nothing")
        labels = file("id,label\na.png,cat\nb.png,dog\nc.png,cat\n")
        config = DataConfig(source=str(tmp_path / "photos"), labels=labels, unreadable="skip", cache=False)
        assert len(load_corpus(config).train) == 2
        assert "l.csv: 1 of 3 ids are not in" in caplog.text


class TestTrusted:
    def load(self, source, trusted, noise=None, **options):
        return build.corpus(DataConfig(source=source, trusted=trusted, **options), noise, 0)[0]

    def test_no_row_is_trusted_by_default(self, archive):
        assert self.load(archive(), None).train.trusted is None

    def test_rows_are_marked(self, archive, file):
        corpus = self.load(archive(), file("id\n3\n0\n"))
        assert corpus.train.trusted.tolist() == [True, False, False, True]
        assert corpus.train.label.tolist() == [0, 1, 0, 1]

    def test_a_file_without_decisions(self, archive, file):
        assert not self.load(archive(), file("id,label,decided_at\n")).train.trusted.any()

    def test_its_label_overrides_the_given_one(self, archive, file):
        corpus = self.load(archive(), file("id,label\n0,b\n1,b\n"))
        assert corpus.train.label.tolist() == [1, 1, 0, 1]
        assert corpus.train.trusted.tolist() == [True, True, False, False]
        assert corpus.train.clean is None

    @pytest.mark.parametrize("text", ["id\n0\n1\n", "id,label\n0,a\n1,b\n"])
    def test_injected_noise_does_not_change_confirmed_labels(self, archive, file, text):
        noise = NoiseConfig(kind="pair", rate=1.0)
        corpus = self.load(archive(), file(text), noise)
        assert corpus.train.label.tolist() == [0, 1, 1, 0]
        assert corpus.train.clean.tolist() == [0, 1, 0, 1]

    def test_it_overrides_the_file_of_labels(self, archive, file):
        labels = file("id,label\n0,b\n", "own.csv")
        assert self.load(archive(), file("id,label\n0,a\n"), labels=labels).train.label.tolist() == [0, 1, 0, 1]

    def test_validation_rows_are_marked_and_test_rows_may_be_named(self, archive, file):
        source = archive("abababab", x_test=np.zeros((2, 2)), y_test=np.array(["a", "a"]))
        text = "id\ntest/1\n" + "".join(f"{row}\n" for row in range(8))
        corpus = self.load(source, file(text), validation_fraction=0.25)
        assert corpus.train.trusted.all()
        assert corpus.validation.trusted.all()
        assert corpus.tests["test"].trusted is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("id\n7\n9\n", r"l\.csv, row 2: 2 of 2 ids are not in .*a\.npz: 7, 9; ids there look like '0'"),
            ("id\n1\n1\n", r"l\.csv, row 3: the id '1' .* row 2;"),
            ("id,label\n1,owl\n", r"l\.csv, row 2: there is no class 'owl'; available: a, b"),
            ("id,label\n1,\n", r"l\.csv, row 2: label is blank"),
        ],
    )
    def test_faults_are_named_with_their_row(self, archive, file, text, message):
        with pytest.raises(DataError, match=message):
            self.load(archive(), file(text))

    def test_parts_survive(self, archive, file):
        corpus = load_corpus(DataConfig(source=archive()))
        marked = mark_trusted(corpus, DataConfig(source="x", trusted=file("id\n0\n")))
        assert marked.train.x is corpus.train.x
        assert marked.class_names == corpus.class_names
