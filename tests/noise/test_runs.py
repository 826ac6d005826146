"""Noise in runs: the record, what is refused on resuming, and the command that writes labels."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from surelabel import fit, resume
from surelabel.cli import app
from surelabel.engine.loop import Interrupted
from surelabel.errors import RunError
from surelabel.noise import read_manifest, verify
from surelabel.runs import checksums


@pytest.fixture
def begun(tiny, tmp_path):
    """A run that was interrupted after a few steps."""
    stops = iter([False] * 3 + [True])
    with pytest.raises(Interrupted):
        fit(tiny("car"), tmp_path / "run", interrupt=lambda: next(stops))
    return tmp_path / "run"


def edit(file, **changes):
    (file.parent / checksums.FILE_NAME).unlink()
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


class TestResume:
    def test_the_same_noise_is_resumed(self, begun):
        assert resume(begun).is_done

    @pytest.mark.parametrize(
        ("changes", "fault"),
        [
            ({"labels_sha256": "0"}, "the labels differ"),
            ({"seed": 7}, "the seed: 0, expected 7"),
            ({"clean_sha256": "0"}, r"the data \(clean labels\) differ"),
            ({"ids_sha256": "0"}, r"the data \(ids or their order\) differ"),
        ],
    )
    def test_other_noise_is_refused_and_the_difference_named(self, begun, changes, fault):
        edit(begun / "noise.json", **changes)
        with pytest.raises(
            RunError, match=rf"noise\.json: the noise differs from that at the start of this run: {fault}; start"
        ):
            resume(begun)

    def test_other_labels_in_the_data_are_refused(self, begun, blobs):
        with np.load(blobs) as data:
            np.savez(blobs, **{**data, "y": np.roll(data["y"], 1)})
        with pytest.raises(RunError, match=r"\(labels of the training rows, true labels of the training rows\)"):
            resume(begun)

    def test_a_run_without_its_record_is_refused(self, begun):
        (begun / "noise.json").unlink()
        with pytest.raises(RunError, match=r"noise\.json: there is none; start a new run"):
            resume(begun)

    def test_a_start_that_was_cut_short_leaves_no_false_record(self, tiny, tmp_path):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "lock").touch()  # the first file of a run
        (tmp_path / "run" / "noise.json").write_text("{}")
        run = fit(tiny("cross_entropy", noise=None, train__epochs=1), tmp_path / "run")
        assert not (run.path / "noise.json").exists()


def test_instance_noise_trains_on_all_parts(tiny, tmp_path):
    config = tiny(
        "cross_entropy",
        train__epochs=1,
        data__validation_fraction=0.2,
        noise={"kind": "instance", "rate": 0.3, "instance_scale": "length"},
    )
    run = fit(config, tmp_path / "run")
    manifest, labels = read_manifest(run.path / "noise.json"), run.labels()
    assert manifest.num_samples == 75
    verify(labels["given"].to_numpy(), manifest, clean=labels["clean"].to_numpy(), ids=labels["id"].to_pylist())


def test_confirmed_labels_are_in_the_record(tiny, tmp_path):
    """They are set after the draw; the record describes the labels that were trained on."""
    confirmed = [str(number) for number in range(0, 75, 2)]
    (tmp_path / "trusted.csv").write_text("id\n" + "\n".join(confirmed) + "\n")
    config = tiny("cross_entropy", train__epochs=1, data__trusted=str(tmp_path / "trusted.csv"))
    run = fit(config, tmp_path / "run")
    manifest, labels = read_manifest(run.path / "noise.json"), run.labels().to_pylist()
    assert manifest.convention == "true class excluded, exact count; then 38 confirmed labels set"
    assert manifest.num_changed == sum(row["given"] != row["clean"] for row in labels)
    assert all(row["given"] == row["clean"] for row in labels if row["id"] in confirmed)
    noise = {"kind": "file", "path": str(run.path)}
    again = fit(tiny("cross_entropy", train__epochs=1, noise=noise), tmp_path / "again")
    assert [row["given"] for row in again.labels().to_pylist()] == [row["given"] for row in labels]


class TestCommand:
    @pytest.fixture(autouse=True)
    def _folder(self, blobs, monkeypatch):
        monkeypatch.chdir(blobs.parent)

    def call(self, *arguments):
        return CliRunner().invoke(app, [*arguments], catch_exceptions=False, prog_name="surelabel")

    def done(self, *arguments):
        result = self.call(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def test_it_writes_what_fit_would_train_on(self, tiny):
        arguments = ["noise", "blobs.npz", "--noise", "symmetric:0.3", "--seed", "4", "--out", "a.npy"]
        result = json.loads(self.done(*arguments, "--json"))
        assert (result["labels"], result["manifest"], result["seed"]) == ("a.npy", "a.json", 4)
        run = fit(tiny("cross_entropy", train__epochs=1, train__seed=4), "run")
        assert np.array_equal(np.load("a.npy"), run.labels()["given"].to_numpy())
        assert result["num_changed"] == (np.load("a.npy") != run.labels()["clean"].to_numpy()).sum()

    def test_it_says_so_and_fit_takes_it(self):
        text = self.done("noise", "blobs.npz", "--noise", "pair:0.4", "--out", "a.csv")
        assert "pair noise, 40.0 % nominal (each class to the next, exact count per class)" in text
        assert "surelabel fit blobs.npz --noise file:a.csv" in text
        quick = ["--epochs", "1", "--threads", "1", "--set", "model.widths=[4]", "--model", "mlp"]
        self.done("fit", "blobs.npz", "--noise", "file:a.csv", "--out", "run", "--seed", "9", *quick)
        assert json.loads(Path("run/noise.json").read_text())["seed"] == 0

    @pytest.mark.parametrize(
        ("arguments", "fault"),
        [
            (["--out", "a.npy"], "noise: not configured"),
            (["--noise", "pair:0.3", "--out", "a.txt"], "expected FILE.npy or FILE.csv"),
            (["--noise", "pair:0.3", "--out", "none/a.npy"], "there is no folder none"),
            (["--noise", "pair:2", "--out", "a.npy"], "noise.rate"),
            (["--noise", "file:none.npy", "--out", "a.npy"], "none.npy: no such file"),
            (["--noise", "pair:0.3"], "--out"),
        ],
    )
    def test_errors_are_one_line(self, arguments, fault):
        result = self.call("noise", "blobs.npz", *arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert fault in result.stderr
        assert sorted(file.name for file in Path().iterdir()) == ["blobs.npz"]

    def test_any_matrix_by_settings(self):
        matrix = "noise.matrix=[[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]"
        self.done("noise", "blobs.npz", "--set", "noise.kind=matrix", "--set", matrix, "--out", "a.npy")
        assert read_manifest(Path("a.json")).kind == "matrix"
