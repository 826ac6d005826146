"""Labels from a file: matched to the rows, checked against the manifest, refused for other data."""

import json

import numpy as np
import pytest

from surelabel import fit
from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError, DataError
from surelabel.noise import inject, save

CLEAN = np.repeat([0, 1, 2], [20, 30, 10])
NAMES = ("cat", "dog", "owl")
IDS = np.array([f"row {number}" for number in range(60)])
OTHER_ORDER = np.random.default_rng(0).permutation(60)


def from_file(path, clean=CLEAN, names=NAMES, ids=IDS, **options):
    return inject(clean, names, NoiseConfig(kind="file", path=str(path), **options), 0, ids=ids)


def write(path, seed=3, ids=IDS, **options):
    config = NoiseConfig(**{"kind": "symmetric", "rate": 0.4, **options})
    noisy, manifest = inject(CLEAN, NAMES, config, seed, ids=ids)
    save(path, noisy, manifest, ids)
    return noisy, manifest


@pytest.mark.parametrize("suffix", ["npy", "csv"])
class TestSaved:
    def test_comes_back(self, tmp_path, suffix):
        noisy, first = write(tmp_path / f"a.{suffix}")
        again, manifest = from_file(tmp_path / f"a.{suffix}")
        assert np.array_equal(again, noisy)
        assert (manifest.kind, manifest.seed, manifest.nominal_rate) == ("file", 3, 0.4)
        assert manifest.labels_sha256 == first.labels_sha256
        assert manifest.convention == f"a.{suffix}: symmetric, true class excluded, exact count"
        assert sorted(file.name for file in tmp_path.glob("a.*")) == sorted([f"a.{suffix}", "a.json"])

    def test_classes_in_another_order_are_matched_by_name(self, tmp_path, suffix):
        noisy, _ = write(tmp_path / f"a.{suffix}")
        names, number = ("owl", "cat", "dog"), np.array([1, 2, 0])
        again, _ = from_file(tmp_path / f"a.{suffix}", clean=number[CLEAN], names=names)
        assert np.array_equal(again, number[noisy])

    def test_is_refused_for_another_seed(self, tmp_path, suffix):
        write(tmp_path / f"a.{suffix}")
        from_file(tmp_path / f"a.{suffix}", seed=3)
        with pytest.raises(DataError, match="do not belong together: the seed: 4, expected 3"):
            from_file(tmp_path / f"a.{suffix}", seed=4)

    def test_is_refused_for_other_clean_labels(self, tmp_path, suffix):
        write(tmp_path / f"a.{suffix}")
        with pytest.raises(DataError, match=r"the data \(clean labels\) differ$"):
            from_file(tmp_path / f"a.{suffix}", clean=CLEAN[::-1])

    def test_is_refused_for_other_class_names(self, tmp_path, suffix):
        write(tmp_path / f"a.{suffix}")
        with pytest.raises(DataError, match=r"has the class '(owl|emu)', which|class names\) differ"):
            from_file(tmp_path / f"a.{suffix}", names=("cat", "dog", "emu"))

    def test_is_refused_when_the_labels_were_changed(self, tmp_path, suffix):
        _, manifest = write(tmp_path / f"a.{suffix}")
        text = json.dumps(manifest.to_dict())
        write(tmp_path / f"a.{suffix}", seed=4)
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(DataError, match=rf"a\.{suffix} and the noise manifest .*: the labels differ"):
            from_file(tmp_path / f"a.{suffix}")

    def test_is_refused_beside_something_that_is_no_manifest(self, tmp_path, suffix):
        write(tmp_path / f"a.{suffix}")
        (tmp_path / "a.json").write_text('{"a": 1}')
        with pytest.raises(DataError, match=r"a\.json: not a noise manifest"):
            from_file(tmp_path / f"a.{suffix}")


class TestOrder:
    def test_rows_in_another_order_are_refused_by_position(self, tmp_path):
        write(tmp_path / "a.npy")
        with pytest.raises(
            DataError, match=r"the data \(clean labels\) differ; the data \(ids or their order\) differ"
        ):
            from_file(tmp_path / "a.npy", clean=CLEAN[OTHER_ORDER], ids=IDS[OTHER_ORDER])
        swapped = IDS.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        with pytest.raises(DataError, match=r": the data \(ids or their order\) differ"):
            from_file(tmp_path / "a.npy", ids=swapped)

    def test_rows_in_another_order_are_found_by_id(self, tmp_path):
        noisy, _ = write(tmp_path / "a.csv")
        again, _ = from_file(tmp_path / "a.csv", clean=CLEAN[OTHER_ORDER], ids=IDS[OTHER_ORDER])
        assert np.array_equal(again, noisy[OTHER_ORDER])

    def test_with_a_manifest_the_rows_must_be_the_same(self, tmp_path):
        write(tmp_path / "a.csv")
        with pytest.raises(DataError, match="its noise was drawn for 60 rows, the data have 50; with a manifest"):
            from_file(tmp_path / "a.csv", clean=CLEAN[:50], ids=IDS[:50])
        (tmp_path / "a.json").unlink()
        assert len(from_file(tmp_path / "a.csv", clean=CLEAN[:50], ids=IDS[:50])[0]) == 50

    def test_rows_without_a_label_are_refused(self, tmp_path):
        write(tmp_path / "a.csv")
        with pytest.raises(DataError, match="no label for 1 of 60 rows, the first is the id 'another'"):
            from_file(tmp_path / "a.csv", ids=np.array([*IDS[:59], "another"]))


class TestInputs:
    X = np.random.default_rng(0).integers(0, 256, (60, 12), dtype=np.uint8)

    def take(self, path, x):
        config = NoiseConfig(kind="file", path=str(path))
        return inject(CLEAN, NAMES, config, 0, ids=IDS, inputs=lambda rows: x[rows])

    def test_noise_that_depends_on_inputs_is_refused_for_others(self, tmp_path):
        config = NoiseConfig(kind="instance", rate=0.4)
        noisy, manifest = inject(CLEAN, NAMES, config, 0, ids=IDS, inputs=lambda rows: self.X[rows])
        save(tmp_path / "a.npy", noisy, manifest)
        again, record = self.take(tmp_path / "a.npy", self.X)
        assert np.array_equal(again, noisy)
        assert record.inputs_sha256 == manifest.inputs_sha256
        with pytest.raises(DataError, match=r"the data \(inputs\) differ$"):
            self.take(tmp_path / "a.npy", 255 - self.X)

    def test_in_another_order_the_inputs_have_another_hash(self, tmp_path):
        config = NoiseConfig(kind="instance", rate=0.4)
        noisy, manifest = inject(CLEAN, NAMES, config, 0, ids=IDS, inputs=lambda rows: self.X[rows])
        save(tmp_path / "a.csv", noisy, manifest, IDS)
        truth, x, ids = CLEAN[OTHER_ORDER], self.X[OTHER_ORDER], IDS[OTHER_ORDER]
        config = NoiseConfig(kind="file", path=str(tmp_path / "a.csv"))
        again, record = inject(truth, NAMES, config, 0, ids=ids, inputs=lambda rows: x[rows])
        save(tmp_path / "b.npy", again, record)
        config = NoiseConfig(kind="file", path=str(tmp_path / "b.npy"))
        assert np.array_equal(
            inject(truth, NAMES, config, 0, ids=ids, inputs=lambda rows: x[rows])[0], noisy[OTHER_ORDER]
        )


class TestPlain:
    """Files from another tool, without a manifest."""

    GIVEN = np.roll(CLEAN, 3)

    @pytest.mark.parametrize("labels", [GIVEN.astype(np.int16), GIVEN.astype(np.uint8), np.array(NAMES)[GIVEN]])
    def test_numbers_and_names_by_position(self, tmp_path, labels):
        np.save(tmp_path / "a.npy", labels)
        noisy, manifest = from_file(tmp_path / "a.npy", ids=None)
        assert np.array_equal(noisy, self.GIVEN)
        assert (manifest.seed, manifest.mode, manifest.realised_rate) == (None, None, (self.GIVEN != CLEAN).mean())
        assert "file noise" in manifest.describe()
        assert "without a manifest" in manifest.describe()
        assert "seed" not in manifest.describe()

    @pytest.mark.parametrize("labels", [NAMES, "012"])
    def test_a_table_with_names_or_numbers(self, tmp_path, labels):
        lines = [f"{one},x,{labels[label]}" for one, label in zip(IDS, self.GIVEN, strict=True)]
        (tmp_path / "a.csv").write_text("\ufeffid,note,label\n" + "\n\n".join(lines[::-1]) + "\n")
        assert np.array_equal(from_file(tmp_path / "a.csv")[0], self.GIVEN)

    def test_class_names_that_are_numbers_are_names(self, tmp_path):
        (tmp_path / "a.csv").write_text("id,label\na,1\nb,2\nc,2\n")
        noisy, _ = from_file(tmp_path / "a.csv", clean=np.zeros(3, int), names=("1", "2"), ids=np.array(list("abc")))
        assert noisy.tolist() == [0, 1, 1]

    @pytest.mark.parametrize(
        ("array", "fault"),
        [
            (GIVEN[1:], "59 labels for 60 rows; expected one for each"),
            (GIVEN + 1, r"label \d+ \(counted from 0\) is 3; expected a class name \(cat, dog, owl\) or 0\.\.2"),
            (GIVEN - 1, r"label \d+ \(counted from 0\) is -1"),
            (np.array(["cat"] * 59 + ["cow"]), r"label 59 \(counted from 0\) is 'cow'; expected a class name"),
            (GIVEN * 1.0, r"holds float64 of shape \(60,\); expected class numbers or class names of shape \(N,\)"),
            (GIVEN[None], r"holds int64 of shape \(1, 60\)"),
            (np.array([None] * 60), "not readable as an .npy of labels"),
        ],
    )
    def test_arrays_that_are_no_labels_are_refused(self, tmp_path, array, fault):
        np.save(tmp_path / "a.npy", array, allow_pickle=True)
        with pytest.raises(DataError, match=rf"a\.npy: {fault}") as caught:
            from_file(tmp_path / "a.npy")
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("", r"a\.csv: an empty table"),
            ("id,class\na,cat\n", r"a\.csv: there is no column 'label'; available: id, class"),
            ("id,label\na,cat\n\nb,\n", r"a\.csv, row 4: label is blank"),
            ("id,label\na,cat\n,dog\n", r"a\.csv, row 3: id is blank"),
            ("id,label\na,cat\nb\n", r"a\.csv, row 3: label is blank"),
            ("id,label\na,cat\nb,dog\na,owl\n", r"a\.csv, row 4: the id 'a' .* row 2;"),
            ('id,label\na,"cat\n', r"a\.csv: not readable as a CSV"),
            (f"id,label\na,{2**70}\n", rf"a\.csv: label 0 \(counted from 0\) is {2**70}; expected a class name"),
            ("id,label\na,cow\n", r"a\.csv: label 0 \(counted from 0\) is 'cow'"),
        ],
    )
    def test_tables_that_are_no_labels_are_refused(self, tmp_path, text, fault):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(DataError, match=fault) as caught:
            from_file(tmp_path / "a.csv")
        assert "\n" not in str(caught.value)

    def test_other_files_are_refused(self, tmp_path):
        with pytest.raises(DataError, match=r"none\.npy: no such file"):
            from_file(tmp_path / "none.npy")
        with pytest.raises(ConfigError, match=r"noise\.path: .*a\.txt is not an \.npy, a \.csv .* or a run directory"):
            from_file(tmp_path / "a.txt")
        with pytest.raises(DataError, match="not readable as a run directory with labels"):
            from_file(tmp_path)


class TestSave:
    def test_labels_that_are_not_the_manifest_s_are_not_write(self, tmp_path):
        noisy, manifest = inject(CLEAN, NAMES, NoiseConfig(kind="pair", rate=0.3), 0, ids=IDS)
        with pytest.raises(DataError, match="the labels differ"):
            save(tmp_path / "a.npy", noisy[::-1], manifest)
        with pytest.raises(DataError, match="ids or their order"):
            save(tmp_path / "a.csv", noisy, manifest, IDS[::-1])
        assert list(tmp_path.iterdir()) == []

    def test_places_that_cannot_be_written_to_are_refused(self, tmp_path):
        noisy, manifest = inject(CLEAN, NAMES, NoiseConfig(kind="pair", rate=0.3), 0)
        for path, fault in (
            (tmp_path / "a.txt", r"expected FILE\.npy or FILE\.csv"),
            (tmp_path / "none" / "a.npy", "there is no folder"),
            (tmp_path / "a.csv", "a .csv needs the rows' ids"),
        ):
            with pytest.raises(ConfigError, match=fault):
                save(path, noisy, manifest)
        assert list(tmp_path.iterdir()) == []


class TestRun:
    def test_the_labels_of_a_run_are_taken_by_id(self, tiny, tmp_path):
        """Even if the same rows are split differently."""
        first = fit(tiny("cross_entropy", train__epochs=1, train__seed=4), tmp_path / "first")
        noise = {"kind": "file", "path": str(first.path)}
        config = tiny("cross_entropy", train__epochs=1, data__validation_fraction=0.2, noise=noise)
        second = fit(config, tmp_path / "second")
        given = [sorted((row["id"], row["given"]) for row in run.labels().to_pylist()) for run in (first, second)]
        assert given[0] == given[1]
        record = json.loads((second.path / "noise.json").read_text())
        assert (record["kind"], record["seed"]) == ("file", 4)
        assert record["convention"] == "first: symmetric, true class excluded, exact count"

    def test_a_run_on_other_data_is_refused(self, tiny, tmp_path, make_blobs):
        first = fit(tiny("cross_entropy", train__epochs=1), tmp_path / "first")
        other = make_blobs(tmp_path / "other.npz", seed=1)
        noise = {"kind": "file", "path": str(first.path)}
        with pytest.raises(DataError, match=r"first and the noise manifest .*the data \(clean labels\) differ"):
            fit(tiny("cross_entropy", data__source=str(other), noise=noise), tmp_path / "second")
        assert not (tmp_path / "second").exists()
