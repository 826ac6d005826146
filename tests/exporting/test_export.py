"""Exports: files for other tools, images as links or copies, and undo."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from surelabel import api
from surelabel.errors import ConfigError, DataError, RunError
from surelabel.exporting import Rules, export, undo
from surelabel.exporting.image_folder import safe_name


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestTables:
    @pytest.fixture(scope="class")
    @classmethod
    def out(cls, run, verdict, decision, tmp_path_factory):
        ids = run.labels()["id"].to_pylist()
        decisions = {ids[0]: decision("relabel", "2"), ids[1]: decision("keep", "1"), ids[2]: decision("skip", None)}
        folder = tmp_path_factory.mktemp("tables") / "new" / "out"
        export(run, verdict, decisions, folder, rules=Rules("all"))
        return folder

    def test_rows_are_those_of_the_run_with_where_each_label_comes_from(self, out, run):
        rows, table = read(out / "cleaned.csv"), run.labels()
        assert [row["id"] for row in rows] == table["id"].to_pylist()
        assert [row["split"] for row in rows] == table["split"].to_pylist()
        assert rows[0]["label"] == "2"
        assert (rows[0]["decided_by"], rows[0]["decided_at"][:4]) == ("person", "2026")
        assert {row["decided_by"] for row in rows} == {"model", "person", "nobody"}
        written = json.loads((out / "export.json").read_text())["time"]
        assert {row["decided_at"] for row in rows if row["decided_by"] == "model"} == {written}
        assert {row["decided_at"] for row in rows if row["decided_by"] == "nobody"} == {""}
        assert all((row["label"] != row["given"]) == (row["changed"] == "True") for row in rows)

    def test_parquet_holds_the_same(self, out):
        table, rows = pq.read_table(out / "cleaned.parquet"), read(out / "cleaned.csv")
        assert table.column_names == list(rows[0])
        for name in table.column_names:
            values = table[name].to_pylist()
            shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
            assert shown == [row[name] for row in rows], name
        assert {name for name in table.column_names if str(table[name].type) == "bool"} == {"changed"}
        assert {name for name in table.column_names if str(table[name].type) == "double"} == {"probability", "p_wrong"}

    def test_arrays_agree_with_the_table(self, out):
        rows, names = read(out / "cleaned.csv"), json.loads((out / "class_names.json").read_text())
        labels, keep = np.load(out / "labels.npy"), np.load(out / "keep_mask.npy")
        assert [names[number] for number in labels] == [row["label"] for row in rows]
        assert [names[number] for number in np.load(out / "given_labels.npy")] == [row["given"] for row in rows]
        assert np.load(out / "pred_probs.npy").shape == (len(rows), 3)
        assert keep.dtype == bool
        assert all(
            kept == (row["decided_by"] == "person" or float(row["p_wrong"]) < 0.5)
            for kept, row in zip(keep, rows, strict=True)
        )

    def test_cleanlab_s_columns(self, out):
        rows = read(out / "label_issues.csv")
        assert list(rows[0]) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
        assert [row["is_label_issue"] == "False" for row in rows] == np.load(out / "keep_mask.npy").tolist()
        p_wrong = [float(row["p_wrong"]) for row in read(out / "cleaned.csv")]
        assert [1 - float(row["label_quality"]) for row in rows] == pytest.approx(p_wrong, abs=1e-5)

    def test_hugging_face_s_class_labels(self, out):
        table = pq.read_table(out / "hf_labels.parquet")
        features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
        assert features["label"] == {"names": ["0", "1", "2"], "_type": "ClassLabel"}
        assert table["label"].to_pylist() == np.load(out / "labels.npy").tolist()

    def test_what_persons_decided(self, out, run):
        rows = read(out / "decisions.csv")
        assert [(row["id"], row["label"]) for row in rows] == list(
            zip(run.labels()["id"].to_pylist(), ("2", "1"), strict=False)
        )

    def test_the_manifest_says_how(self, out, run):
        content = json.loads((out / "export.json").read_text())
        assert content["fingerprint"] == run.data()["fingerprint"]
        assert content["rules"] == {"accept": "all", "min_probability": 0.5, "class_cap": None}
        assert content["rewrite"] == []
        counts = dict(content["counts"])
        assert counts.pop("rows") == sum(counts.values()) == 75
        assert set(content["files"]) == {path.name for path in out.iterdir()} - {"export.json"}

    def test_retraining_on_it(self, out, run, tmp_path):
        config = run.config()
        given = config.model_dump()
        given["data"] |= {"labels": str(out / "cleaned.csv"), "trusted": str(out / "decisions.csv")}
        again = api.fit(given | {"noise": None}, tmp_path / "again", settings={"train.epochs": 2})
        label = dict(zip(again.labels()["id"].to_pylist(), again.labels()["given"].to_pylist(), strict=True))
        assert label == {row["id"]: int(row["label"]) for row in read(out / "cleaned.csv")}
        trusted = {row["id"]: row["suggested"] for row in again.samples().to_pylist() if row["verdict"] == "trusted"}
        assert trusted == {row["id"]: int(row["label"]) for row in read(out / "decisions.csv")}


class TestRemoved:
    @pytest.fixture(scope="class")
    @classmethod
    def out(cls, run, verdict, decision, tmp_path_factory):
        ids = run.labels()["id"].to_pylist()
        held = {0: ("remove", None), 1: ("unsure", None), 2: ("keep", "1"), len(ids) - 1: ("remove", None)}
        decisions = {ids[row]: decision(*what) for row, what in held.items()}
        folder = tmp_path_factory.mktemp("removed") / "out"
        export(run, verdict, decisions, folder, rules=Rules("all"))
        return folder

    def test_removed_rows_leave_every_table_and_are_listed(self, out, run):
        ids = run.labels()["id"].to_pylist()
        assert [row["id"] for row in read(out / "cleaned.csv")] == ids[1:-1]
        assert np.load(out / "rows.npy").tolist() == list(range(1, len(ids) - 1))
        for name in ("labels.npy", "given_labels.npy", "keep_mask.npy", "pred_probs.npy"):
            assert len(np.load(out / name)) == len(ids) - 2, name
        assert len(read(out / "label_issues.csv")) == len(ids) - 2
        assert pq.read_table(out / "hf_labels.parquet")["id"].to_pylist() == ids[1:-1]
        listed = read(out / "removed.csv")
        assert [(row["id"], row["by"]) for row in listed] == [(ids[0], "tester"), (ids[-1], "tester")]
        counts = json.loads((out / "export.json").read_text())["counts"]
        assert counts.pop("rows") == sum(counts.values()) == len(ids) - 2

    def test_unsure_rows_stay_as_given_and_are_listed(self, out, run):
        row = read(out / "cleaned.csv")[0]
        assert (row["label"], row["decided_by"]) == (row["given"], "nobody")
        assert [one["id"] for one in read(out / "unsure.csv")] == [row["id"]]
        actions = [(one["action"], one["label"]) for one in read(out / "decisions.csv")]
        assert actions == [("remove", ""), ("unsure", ""), ("keep", "1"), ("remove", "")]

    def test_retraining_leaves_them_out(self, out, run, tmp_path):
        given = run.config().model_dump()
        given["data"] |= {"labels": str(out / "cleaned.csv"), "trusted": str(out / "decisions.csv")}
        again = api.fit(given | {"noise": None}, tmp_path / "again", settings={"train.epochs": 2})
        before, after = (set(one.labels()["id"].to_pylist()) for one in (run, again))
        assert after == before - {row["id"] for row in read(out / "removed.csv")}
        assert api.reopen_data(again).fingerprint() == again.data()["fingerprint"]

    def test_noise_is_described_without_them(self, out, run, tmp_path):
        given = run.config().model_dump()
        given["data"] |= {"trusted": str(out / "decisions.csv")}
        again = api.fit(given, tmp_path / "again", settings={"train.epochs": 1})
        assert len(api.reopen_data(again).train) == len(api.reopen_data(run).train) - 1


class TestPlace:
    def test_a_folder_with_other_things_is_refused(self, run, verdict, tmp_path):
        (tmp_path / "mine.txt").write_text("x")
        with pytest.raises(RunError, match="not an empty folder and not an export"):
            export(run, verdict, {}, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

    def test_an_empty_folder_and_an_own_export_are_taken(self, run, verdict, decision, tmp_path):
        (tmp_path / "out").mkdir()
        export(run, verdict, {}, tmp_path / "out")
        first = run.labels()["id"].to_pylist()[0]
        export(run, verdict, {first: decision("relabel", "2")}, tmp_path / "out")
        assert len(read(tmp_path / "out" / "decisions.csv")) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_an_export_that_somebody_works_in_is_not_replaced(self, run, verdict, tmp_path):
        export(run, verdict, {}, tmp_path / "out")
        (tmp_path / "out" / "cleaned.csv").write_text("id,label\n")
        (tmp_path / "out" / "mine.txt").write_text("x")
        before = contents(tmp_path)
        with pytest.raises(RunError, match=r"2 file\(s\) that the export did not write so: cleaned.csv, mine.txt"):
            export(run, verdict, {}, tmp_path / "out")
        assert contents(tmp_path) == before

    def test_the_run_itself_is_no_place(self, run, verdict):
        with pytest.raises(RunError, match="not an empty folder"):
            export(run, verdict, {}, run.path)


class TestUndo:
    def test_it_removes_what_was_written(self, run, verdict, tmp_path):
        export(run, verdict, {}, tmp_path / "out")
        assert undo(tmp_path / "out") == []
        assert not (tmp_path / "out").exists()

    def test_files_of_others_stay(self, run, verdict, tmp_path):
        export(run, verdict, {}, tmp_path / "out")
        (tmp_path / "out" / "mine.txt").write_text("x")
        assert undo(tmp_path / "out") == ["mine.txt"]
        assert contents(tmp_path) == {"out/mine.txt": b"x"}

    def test_a_changed_file_is_named_and_nothing_is_removed(self, run, verdict, tmp_path):
        export(run, verdict, {}, tmp_path / "out")
        (tmp_path / "out" / "cleaned.csv").write_text("edited")
        before = contents(tmp_path)
        with pytest.raises(RunError, match=r"1 file\(s\) were changed .* nothing was removed: cleaned.csv"):
            undo(tmp_path / "out")
        assert contents(tmp_path) == before

    def test_a_missing_file_is_no_fault(self, run, verdict, tmp_path):
        export(run, verdict, {}, tmp_path / "out")
        (tmp_path / "out" / "labels.npy").unlink()
        assert undo(tmp_path / "out") == []

    def test_what_is_no_export(self, tmp_path):
        with pytest.raises(RunError, match=r"not an export \(it has no export.json\)"):
            undo(tmp_path)
        (tmp_path / "export.json").write_text("[]")
        with pytest.raises(RunError, match="not the manifest of an export"):
            undo(tmp_path)

    @pytest.mark.parametrize("name", ["../victim.txt", "a/../../victim.txt", "linked/victim.txt", "{absolute}"])
    def test_a_manifest_cannot_reach_out_of_its_folder(self, run, verdict, tmp_path, name):
        victim = tmp_path / "victim.txt"
        victim.write_text("x")
        export(run, verdict, {}, tmp_path / "out")
        (tmp_path / "out" / "linked").symlink_to(tmp_path)
        content = json.loads((tmp_path / "out" / "export.json").read_text())
        state = {"sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}
        content["files"][name.replace("{absolute}", str(victim))] = state
        (tmp_path / "out" / "export.json").write_text(json.dumps(content))
        with pytest.raises(RunError, match="does not lie in this folder; nothing was done"):
            undo(tmp_path / "out")
        assert victim.exists()
        assert (tmp_path / "out" / "labels.npy").exists()


class TestImages:
    @pytest.fixture
    def files(self, run, tmp_path):
        """Write a file for every row; pairs of files share a name, in different folders."""
        found = {}
        for row, name in enumerate(run.labels()["id"].to_pylist()):
            path = tmp_path / "source" / str(row) / f"{row // 2}.png"
            path.parent.mkdir(parents=True)
            path.write_bytes(name.encode())
            found[name] = path
        return found

    @pytest.mark.parametrize("how", ["link", "copy"])
    def test_every_row_is_in_the_folder_of_its_new_class(self, run, verdict, files, tmp_path, how):
        before = contents(tmp_path / "source")
        export(run, verdict, {}, tmp_path / "out", images=how, paths=files)
        found = {path.read_text(): path.parent.name for path in (tmp_path / "out" / "images").glob("*/*")}
        assert found == {row["id"]: row["label"] for row in read(tmp_path / "out" / "cleaned.csv")}
        links = [path.is_symlink() for path in (tmp_path / "out" / "images").glob("*/*")]
        assert set(links) == {how == "link"}
        assert undo(tmp_path / "out") == []
        assert not (tmp_path / "out").exists()
        assert contents(tmp_path / "source") == before

    def test_a_link_that_was_turned_is_a_change(self, run, verdict, files, tmp_path):
        export(run, verdict, {}, tmp_path / "out", images="link", paths=files)
        link = next((tmp_path / "out" / "images").glob("*/*"))
        link.unlink()
        link.symlink_to(tmp_path)
        with pytest.raises(RunError, match=r"1 file\(s\) were changed"):
            undo(tmp_path / "out")

    def test_faults_are_found_before_anything_is_written(self, run, verdict, files, tmp_path):
        gone = next(iter(files))
        files[gone].unlink()
        with pytest.raises(DataError, match=r"there is no file for 1 of 75 rows"):
            export(run, verdict, {}, tmp_path / "out", images="copy", paths=files)
        with pytest.raises(DataError, match="not image files"):
            export(run, verdict, {}, tmp_path / "out", images="copy")
        with pytest.raises(ConfigError, match="'move' is not allowed; expected link or copy"):
            export(run, verdict, {}, tmp_path / "out", images="move", paths=files)
        assert not (tmp_path / "out").exists()
        assert [path.name for path in tmp_path.iterdir()] == ["source"]

    def test_names_become_safe_and_stay_different(self):
        names = [
            "..",
            ".",
            "",
            "a/b",
            "a%2Fb",
            "a\\b",
            "nul\0",
            "x" * 300,
            "x" * 301,
            " a",
            "a.",
            "naïve cat",
            ".hidden",
        ]
        safe = [safe_name(name) for name in names]
        assert len(set(safe)) == len(safe)
        assert all(name not in (".", "..", "") and not {"/", "\\", "\0"} & set(name) for name in safe)
        assert all(len(name.encode()) <= 200 for name in safe)
        assert safe_name("naïve cat") == "naïve cat"


def test_it_does_not_write_into_the_data(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for row in range(16):
        path = tmp_path / "data" / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(path)
    settings = {"train.epochs": 1, "train.threads": 1, "train.device": "cpu", "model": "mlp"}
    run = api.fit(tmp_path / "data", tmp_path / "run", settings=settings)
    with pytest.raises(ConfigError, match="lies in the data"):
        export(run, api.audit(run), {}, tmp_path / "data" / "out")
    paths = {name: tmp_path / "data" / name for name in run.labels()["id"].to_pylist()}
    export(run, api.audit(run), {}, tmp_path / "out", images="copy", paths=paths)
    again = api.fit(tmp_path / "out" / "images", tmp_path / "again", settings=settings)
    assert again.data()["num_train"] == 16
