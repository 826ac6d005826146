"""The command line: its output, its errors, and how it reacts to signals."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import surelabel
from surelabel import api
from surelabel.cli import app
from surelabel.console import plain, sparkline
from surelabel.engine.loop import Interrupted
from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir

QUICK = ["--epochs", "2", "--threads", "1", "--model", "mlp", "--set", "model.widths=[8]"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments):
    arguments = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, arguments, catch_exceptions=False, prog_name="surelabel")


def done(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def as_json(*arguments):
    return json.loads(done(*arguments, "--json").stdout)


def refused(*arguments):
    """Return the error of a command; check that it is one line and that no files were left."""
    before = sorted(Path.cwd().rglob("*"))
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    assert sorted(Path.cwd().rglob("*")) == before
    return result.stderr


def write_npz(path, rows=24, classes=2, **more):
    rng = np.random.default_rng(0)
    y = np.arange(rows) % classes
    arrays = {"x": rng.normal(size=(rows, 4)) + 3 * y[:, None], "y": y}
    np.savez(path, **{**arrays, **more})
    return path


def write_images(root, names=("cat", "dog"), count=6):
    rng = np.random.default_rng(0)
    for name in names:
        (root / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(root / name / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train on noisy digits; tests only read this run."""
    out = tmp_path_factory.mktemp("cli") / "run"
    done("fit", "digits", "--out", out, "--noise", "symmetric:0.2", *QUICK)
    return out


class TestHelp:
    def test_version(self):
        assert done("--version").stdout == f"surelabel {surelabel.__version__}\n"

    def test_no_command_is_help(self):
        result = done()
        for command in ("demo", "fit", "resume", "predict", "audit", "methods"):
            assert f"  {command} " in result.stdout

    def test_fit_help_names_every_option(self):
        text = done("fit", "--help").stdout
        for option in ("out", "method", "noise", "devices", "precision", "config", "set", "json"):
            assert f"--{option}" in text


class TestFit:
    def test_default_folder_is_the_first_free(self, folder):
        write_npz(folder / "toy.npz")
        first = as_json("fit", "toy.npz", "--method", "gce", *QUICK)
        second = as_json("fit", "toy.npz", "--method", "gce", *QUICK)
        assert (first["run"], second["run"]) == ("runs/toy-gce-1", "runs/toy-gce-2")
        assert RunDir.open(second["run"]).is_done

    def test_default_folder_is_claimed_before_training(self, folder, monkeypatch):
        write_npz(folder / "toy.npz")
        seen = []

        def fail_in_a_second_run(*_, **__):
            seen.append(sorted(path.name for path in (folder / "runs").iterdir()))
            if len(seen) < 3:
                refused("fit", "toy.npz", "--method", "gce", *QUICK)
            raise RunError("not now")

        monkeypatch.setattr(api, "fit_config", fail_in_a_second_run)
        assert "not now" in refused("fit", "toy.npz", "--method", "gce", *QUICK)
        assert seen == [[f"toy-gce-{number}" for number in range(1, count + 1)] for count in (1, 2, 3)]
        assert not (folder / "runs").exists()  # what stayed empty is removed

    def test_a_file_in_the_place_of_the_folder(self, folder):
        (folder / "notes.txt").write_text("mine")
        assert "notes.txt: is a file; choose a new folder" in refused("fit", "digits", "--out", "notes.txt")
        assert (folder / "notes.txt").read_text() == "mine"

    def test_json(self, folder):
        result = as_json("fit", "digits", "--out", "r", "--noise", "pair:0.3", *QUICK)
        assert result["run"] == "r"
        assert result["method"] == "car"
        assert result["epochs"] == 2
        assert 0 <= result["test_accuracy"] <= result["best_test_accuracy_oracle"] <= 1
        assert result["rows"] == RunDir("r").data()["num_train"]
        assert result["measures"]["wrong_labels"] == pytest.approx(0.3, abs=0.01)
        assert result["seconds"] > 0
        assert result["worth_a_look"]["budget"] >= result["suspicious"]

    def test_without_clean_labels_or_test_data(self, folder):
        write_npz(folder / "toy.npz")
        result = as_json("fit", "toy.npz", *QUICK)
        assert result["measures"] is None
        assert result["test_accuracy"] is None
        assert result["rows"] == 24

    def test_summary_and_progress(self, folder):
        result = done("fit", "digits", "--out", "r", "--noise", "symmetric:0.4", *QUICK)
        for part in ("Test accuracy:", "Labels that look wrong:", "The true labels are known here: 40.0 %", "digits/"):
            assert part in result.stdout
        assert "How far to look; the first" in result.stdout
        assert "of all wrong ones" in result.stdout
        for command in ("report", "review", "export"):
            assert f"surelabel {command} r" in result.stdout
        assert "note: symmetric noise, 40.0 % nominal (true class excluded" in result.stderr
        assert "epoch 2/2" in result.stderr

    def test_only_rank_zero_prints(self, folder, started_with):
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        started_with(dict(zip(names, "112212", strict=True)) | {"SURELABEL_PARENT": str(os.getppid())})
        assert call("fit", "nothere.npz").exit_code == 2
        assert call("fit", "nothere.npz").output == ""
        assert call("methods").output == ""

    def test_file_then_options_then_set(self, folder):
        Path("a.yaml").write_text(
            "data: {source: toy.npz}\nmethod: {name: gce, options: {q: 0.5}}\n"
            "train: {epochs: 9, seed: 4, batch_size: 6}\nmodel: {name: mlp, options: {widths: [8]}}\n"
        )
        write_npz(folder / "toy.npz")
        done("fit", "--config", "a.yaml", "--out", "r", "--epochs", "3", "--seed", "5", "--set", "train.epochs=2")
        config = RunDir("r").config()
        assert (config.train.epochs, config.train.seed, config.train.batch_size) == (2, 5, 6)
        assert config.method.options == {"q": 0.5}

    def test_another_method_than_the_files_has_its_own_options(self, folder):
        Path("a.yaml").write_text("method: {name: gce, options: {q: 0.5}}\n")
        write_npz(folder / "toy.npz")
        done("fit", "toy.npz", "--config", "a.yaml", "--out", "r", *QUICK, "--method", "cross_entropy")
        assert RunDir("r").config().method.model_dump() == {"name": "cross_entropy", "options": {}}
        done("fit", "toy.npz", "--config", "a.yaml", "--out", "s", *QUICK, "--method", "gce")
        assert RunDir("s").config().method.options == {"q": 0.5}

    @pytest.mark.parametrize(
        ("text", "kind", "rate", "included"),
        [
            ("symmetric:0.4", "symmetric", 0.4, False),
            ("symmetric:0.4:include", "symmetric", 0.4, True),
            ("pair:0.25", "pair", 0.25, False),
        ],
    )
    def test_noise(self, folder, text, kind, rate, included):
        write_npz(folder / "toy.npz")
        done("fit", "toy.npz", "--out", "r", "--noise", text, *QUICK)
        noise = RunDir("r").config().noise
        assert (noise.kind, noise.rate, noise.include_true_class) == (kind, rate, included)

    def test_folder_and_table_and_their_notes(self, folder):
        write_images(folder / "pets")
        write_images(folder / "more", count=1)
        Image.new("RGB", (9, 9)).save("more/cat/large.png")
        Path("pets.csv").write_text(
            "path,label\n" + "".join(f"pets/{n}/{i}.png,{n}\n" for n in ("cat", "dog") for i in range(6))
        )
        assert as_json("fit", "pets", "--out", "a", *QUICK)["rows"] == 12
        assert as_json("fit", "pets.csv", "--out", "b", "--test", "pets.csv", *QUICK)["test_accuracy"] is not None
        assert "note: " in done("fit", "more", "--out", "c", *QUICK).stderr


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "parts"),
        [
            (["frobnicate"], ["frobnicate", "surelabel --help"]),
            (["fit"], ["DATA", "--config"]),
            (["fit", "digits", "--colour", "red"], ["--colour", "surelabel fit --help"]),
            (["fit", "digits", "--epochs", "ten"], ["--epochs", "integer"]),
            (["fit", "digits", "--epochs", "0"], ["--epochs: ", "1", "got 0"]),
            (["fit", "digits", "--rate", "nan"], ["--rate: ", "nan"]),
            (["fit", "digits", "--rate", "inf"], ["--rate: ", "finite"]),
            (["fit", "digits", "--device", "tpu"], ["--device: ", "'cpu'", "tpu"]),
            (["fit", "digits", "--devices", "0"], ["--devices: ", "got 0"]),
            (["fit", "digits", "--precision", "8"], ["--precision: ", "bf16-mixed"]),
            (["fit", "digits", "--method", "cra"], ["'cra'", "did you mean car?"]),
            (["fit", "digits", "--model", "vgg"], ["--model: ", "'vgg'", "resnet18"]),
            (["fit", "digits", "--set", "method.lambda=3"], ["method.lambda", "penalty_weight"]),
            (["fit", "digits", "--set", "method.penalty_weight=-1"], ["method.penalty_weight", "greater than 0"]),
            (["fit", "digits", "--set", "method.penalty_weight=.nan"], ["method.penalty_weight", "nan"]),
            (["fit", "digits", "--set", "train.epoch=3"], ["train.epoch", "epochs"]),
            (["fit", "digits", "--set", "epochs"], ["--set epochs", "FIELD=VALUE"]),
            (["fit", "digits", "--set", "train.epochs=["], ["train.epochs=[", "YAML"]),
            (["fit", "digits", "--set", "data.source.x=3"], ["data.source", "mapping"]),
            (["fit", "digits", "--noise", "wavy:0.3"], ["wavy:0.3", "symmetric:RATE"]),
            (["fit", "digits", "--noise", "symmetric:lots"], ["lots", "0..1"]),
            (["fit", "digits", "--noise", "symmetric:1.4"], ["noise.rate", "1.4"]),
            (["fit", "digits", "--noise", "pair:0.3:include"], ["pair:0.3:include", "expected"]),
            (["fit", "digits", "--noise", "asymmetric:0.3"], ["noise.class_map", "cifar10, digits"]),
            (["fit", "digits", "--config", "none.yaml"], ["none.yaml", "no such"]),
            (["fit", "digits", "--test", "none.npz"], ["none.npz", "no such file"]),
            (["fit", "none.npz"], ["none.npz", "no such file"]),
            (["fit", "digist"], ["digist", "did you mean digits?"]),
            (["resume", "nowhere"], ["nowhere", "not a run directory"]),
            (["predict", "nowhere", "digits"], ["nowhere", "not a run directory"]),
            (["predict", "nowhere"], ["DATA", "surelabel predict --help"]),
            (["audit", "nowhere"], ["nowhere", "not a run directory"]),
            (["audit", "nowhere", "--top", "-1"], ["--top", "0"]),
            (["methods", "magic"], ["'magic'", "cross_entropy"]),
            (["demo", "--epochs", "0"], ["--epochs", "1"]),
            (["demo", "--figure", "figure.docx"], ["figure.docx", ".png"]),
        ],
    )
    def test_one_line_that_names_the_fault(self, folder, arguments, parts):
        line = refused(*arguments)
        for part in parts:
            assert part in line

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("train: {epochs: [", ["YAML", "line 1"]),
            ("just words", ["mapping", "str"]),
            ("train: 5", ["train", "5"]),
            ("data: digits", ["data", "'digits'"]),
            ("speed: 5", ["speed", "optimiser"]),
            ("1: 5", ["1"]),
            ("method: {name: car, options: 5}", ["method.options", "5"]),
        ],
    )
    def test_bad_file_of_settings(self, folder, text, parts):
        Path("bad.yaml").write_text(text)
        for options in ([], ["--seed", "3", "--set", "method.momentum=0.5"]):
            line = refused("fit", "digits", "--config", "bad.yaml", *options)
            assert any(part in line for part in parts)

    def test_bad_arrays(self, folder):
        x, y = np.ones((20, 4)), np.arange(20) % 2
        write_npz("single.npz", x=x, y=0 * y)
        write_npz("uneven.npz", x=x, y=y[1:])
        write_npz("objects.npz", x=x, y=np.array([None] * 20))
        x[7, 2] = np.nan
        write_npz("nan.npz", x=x, y=y)
        Path("text.npz").write_text("not an archive")
        for name, parts in {
            "single": ["a single class (0)", "at least 2"],
            "uneven": ["20 rows", "19"],
            "objects": ["y is an array of Python objects"],
            "nan": ["row 7", "NaN"],
            "text": ["not readable"],
        }.items():
            line = refused("fit", f"{name}.npz")
            assert line.startswith(f"error: {name}.npz: ")
            for part in parts:
                assert part in line

    def test_bad_images(self, folder):
        write_images(folder / "pets")
        Path("missing.csv").write_text("path,label\npets/cat/0.png,cat\npets/dog/99.png,dog\n")
        Path("blank.csv").write_text("path,label\npets/cat/0.png,\npets/dog/1.png,dog\n")
        Path("column.csv").write_text("path,tag\npets/cat/0.png,cat\n")
        assert "missing.csv, row 3: no image pets/dog/99.png" in refused("fit", "missing.csv")
        assert "blank.csv, row 2: label is blank" in refused("fit", "blank.csv")
        assert "there is no label column; available: path, tag" in refused("fit", "column.csv")
        Path("pets/dog/2.png").write_bytes(b"not an image")
        assert "pets/dog/2.png: not readable as an image" in refused("fit", "pets")
        Path("empty/cat").mkdir(parents=True)
        assert "empty: no images in its class folders" in refused("fit", "empty")
        write_images(folder / "one", names=["cat"])
        assert "one: a single class (cat)" in refused("fit", "one")

    def test_folder_that_is_taken(self, run, folder):
        Path("full").mkdir()
        Path("full/file").touch()
        for command in (["fit", "digits"], ["demo"]):
            message = refused(*command, "--out", "full")
            assert "full:" in message
            assert "empty" in message
            assert "choose another folder" in message
        Path("file").touch()
        assert "file" in refused("fit", "digits", "--out", "file")
        assert "file: already exists" in refused("demo", "--out", "file")
        for command in (["audit", run], ["predict", run, "digits"]):
            assert "there is no folder nowhere" in refused(*command, "--out", "nowhere/a.csv")

    def test_inputs_that_do_not_fit_the_run(self, run, folder):
        np.savez("wide.npz", x=np.ones((3, 7)))
        assert "wide.npz: holds 7 features" in refused("predict", run, "wide.npz")

    def test_not_finite_inputs_to_predict(self, folder):
        write_npz("toy.npz")
        done("fit", "toy.npz", "--out", "r", *QUICK)
        x = np.ones((5, 4))
        x[3, 0] = np.inf
        np.savez("bad.npz", x=x, ids=np.array(list("abcde")))
        assert "bad.npz: 1 row(s) hold NaN or infinite values, the first is row 3 (id d)" in refused(
            "predict", "r", "bad.npz"
        )

    def test_options_are_named_instead_of_settings(self, folder):
        Path("t.csv").write_text("a,b,tag\n1,2,x\n3,4,y\n5,6,z\n")
        assert "available: a, b, tag (--label-column names it)" in refused("fit", "t.csv")
        message = refused("fit", "t.csv", "--label-column", "kind")
        assert "no column 'kind', which --label-column names" in message
        assert "--text-column names" in refused("fit", "t.csv", "--label-column", "tag", "--text-column", "body")
        assert "--unreadable: input should be 'refuse' or 'skip'" in refused("fit", "t.csv", "--unreadable", "no")
        assert "--method: there is no method 'carr'" in refused("fit", "digits", "--method", "carr")
        np.savez("bad.npz", x=np.array([[1.0], [np.nan], [2.0]]), y=[0, 1, 0])
        assert "; --unreadable skip leaves such rows out" in refused("fit", "bad.npz")

    def test_settings_that_the_user_typed_are_named_as_typed(self, folder):
        assert "train.epochs: input should" in refused("fit", "digits", "--set", "train.epochs=0")
        Path("c.yaml").write_text("data: {source: digits}\ntrain: {epochs: 0}\n")
        assert "train.epochs: input should" in refused("fit", "--config", "c.yaml")

    def test_notes_name_options_too(self, folder):
        Path("t.csv").write_text("a,label,class\n" + "1,x,p\n2,y,q\n" * 6)
        result = call("plan", "t.csv")
        assert "not class; --label-column names another" in result.stderr


class TestPredict:
    def test_csv(self, run, folder):
        result = done("predict", run, "digits", "--out", "p.csv")
        with Path("p.csv").open() as file:
            header, *rows = csv.reader(file)
        assert header == ["id", "predicted", "tau", *"0123456789"]
        assert len(rows) == RunDir(run).data()["tests"]["test"]
        for row in rows[:20]:
            probability = [float(value) for value in row[3:]]
            assert sum(probability) == pytest.approx(1, abs=1e-4)
            assert row[1] == str(int(np.argmax(probability)))
            assert 0 <= float(row[2]) <= 1
        assert rows[0][0] in result.stdout
        assert "p.csv" in result.stdout
        assert "confidence" not in result.stdout
        assert "tau" in result.stdout
        assert "not the probability that the prediction is right" in result.stdout
        assert "confidence" not in done("predict", "--help").stdout

    def test_json_and_default_file(self, run):
        result = as_json("predict", run, "digits")
        assert Path(result["csv"]) == run / "predictions-digits.csv"
        assert Path(result["csv"]).is_file()
        assert result["classes"] == list("0123456789")
        assert set(result["head"][0]) == {"id", "predicted", "tau", *"0123456789"}

    def test_method_without_tau_and_classes_named_like_columns(self, folder):
        y = np.array(["id", "[red]"] * 12)
        write_npz("toy.npz", y=y)
        done("fit", "toy.npz", "--out", "r", "--method", "gce", *QUICK)
        assert "[red]" in done("audit", "r").stdout
        done("predict", "r", "toy.npz", "--out", "p.csv")
        assert Path("p.csv").read_text().splitlines()[0] == "id,predicted,[red],probability of id"


class TestAudit:
    def test_csv_is_ranked(self, run, folder):
        result = done("audit", run, "--out", "a.csv", "--top", "3")
        with Path("a.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == RunDir(run).data()["num_train"]
        assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1))
        suspicion = [float(row["p_wrong"]) for row in rows]
        assert suspicion == sorted(suspicion, reverse=True)
        assert rows[2]["id"] in result.stdout
        assert rows[3]["id"] not in result.stdout

    def test_json(self, run):
        result = as_json("audit", run, "--top", "2")
        assert Path(result["csv"]) == run / "audit.csv"
        assert result["rows"] == RunDir(run).data()["num_train"]
        assert [row["rank"] for row in result["top"]] == [1, 2]
        assert {"wrong_labels", "quality_auroc", "correction_accuracy"} <= set(result["measures"])


class TestMethods:
    def test_list(self):
        found = as_json("methods")
        names = [method["name"] for method in found]
        assert {"car", "cross_entropy", "gce", "co_teaching", "forward", "dividemix"} <= set(names)
        assert len(set(names)) == len(names)
        text = done("methods").stdout
        assert all(name in text for name in names)

    def test_what_each_trains_and_keeps(self):
        found = {method["name"]: method for method in as_json("methods")}
        for method in found.values():
            assert method["networks"] >= 1
            assert method["forward_passes"] >= method["backward_passes"] >= 1
            assert method["stages"]
            assert all("N" in table["shape"] for table in method["state"])
        shown = ("networks", "forward_passes", "backward_passes", "stages")
        assert [found["forward"][key] for key in shown] == [1, 1, 1, ["estimate", "train"]]
        assert [found["dividemix"][key] for key in shown] == [2, 20, 8, ["train"]]
        assert found["cross_entropy"]["state"] == []
        assert found["dividemix"]["state"] == [{"name": "clean_probability", "shape": ["2", "N"]}]
        assert {"name": "target.table", "shape": ["N", "K"]} in found["car"]["state"]
        text = done("methods").stdout
        assert "clean_probability (2 x N)" in text
        assert "estimate, train" in text
        assert "State per sample: clean_probability (2 x N)." in done("methods", "dividemix").stdout

    def test_one(self):
        (car,) = as_json("methods", "car")
        options = {option["name"]: option for option in car["options"]}
        assert options["penalty_weight"]["type"] == "number > 0"
        assert options["targets"]["type"] == "car, none, temporal_ensembling"
        assert options["momentum"]["default"] == 0.9
        assert all(option["help"] for option in car["options"])
        text = done("methods", "car").stdout
        assert "2108.08212" in text
        assert "by rule" in text


@pytest.fixture
def stopped(folder):
    """Train a run that is interrupted in its second epoch."""
    calls = iter(range(1000))
    settings = {"train.epochs": 3, "train.threads": 1, "model": {"name": "mlp", "options": {"widths": [8]}}}
    with pytest.raises(Interrupted):
        api.fit("digits", "stopped", settings=settings, interrupt=lambda: next(calls) == 30)
    return Path("stopped")


class TestResume:
    def test_finishes(self, stopped):
        assert "not ended; finish it with: surelabel resume stopped" in refused("audit", stopped)
        assert "not ended; finish it with: surelabel resume stopped" in refused("predict", stopped, "digits")
        assert as_json("resume", stopped, "--threads", "1")["epochs"] == 3
        again = done("resume", stopped)
        assert "already ended" in again.stderr
        assert "Test accuracy" in again.stdout

    def test_second_process_is_refused(self, stopped):
        with RunDir(stopped).locked():
            assert "another process is training" in refused("resume", stopped)
        assert "resume the run with: surelabel resume stopped" in refused("fit", "digits", "--out", stopped)


def started(*arguments):
    command = [sys.executable, "-m", "surelabel", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path, process):
    for _ in range(600):
        if path.is_file() and path.stat().st_size:
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    pytest.fail(f"{path} did not appear")


@pytest.mark.training
class TestProcesses:
    """Commands as separate processes, on arrays: the digits would load scikit-learn first."""

    @pytest.fixture
    def toy(self, folder):
        return write_npz(folder / "toy.npz", rows=1500).name

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
    def test_signal_saves_and_resume_finishes(self, folder, toy, number, code):
        process = started("fit", toy, "--out", "r", *QUICK, "--epochs", "60", "--json")
        wait_for(folder / "r/metrics.jsonl", process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code
        assert out == ""
        assert err.splitlines()[-1] == "stopped; the state is saved. Resume with: surelabel resume r"
        assert 0 < len(RunDir("r").metrics()) < 60
        assert as_json("resume", "r", "--threads", "1")["epochs"] == 60
        assert [row["epoch"] for row in RunDir("r").metrics()] == list(range(1, 61))

    def test_second_process_on_a_run_that_trains(self, folder, toy):
        process = started("fit", toy, "--out", "r", *QUICK, "--epochs", "5000")
        try:
            wait_for(folder / "r/metrics.jsonl", process)
            resumed, repeated = call("resume", "r"), call("fit", toy, "--out", "r")
            assert resumed.exit_code == repeated.exit_code == 2
            assert resumed.stderr == "error: r: another process is training in this run directory\n"
            assert "r: this folder is not empty; resume the run with: surelabel resume r" in repeated.stderr
        finally:
            process.terminate()
            process.communicate(timeout=60)

    def test_stopping_two_processes_saves_and_says_how_to_resume(self, folder, toy):
        process = started("fit", toy, "--out", "r", *QUICK, "--epochs", "5000", "--devices", "2")
        wait_for(folder / "r/metrics.jsonl", process)
        process.terminate()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 143, err
        assert err.count("Resume with: surelabel resume r") == 1
        assert (folder / "r/state.safetensors").is_file()

    def test_two_devices(self, toy):
        process = started("fit", toy, *QUICK, "--devices", "2", "--json")
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert json.loads(out)["run"] == "runs/toy-car-1"
        assert err.count("epoch 2/2") == 1


@pytest.mark.training
class TestDemo:
    def test_json(self, folder):
        result = as_json("demo", "--seed", "1", "--epochs", "3")
        keys = {"test_accuracy", "best_test_accuracy", "memorised", "quality_auroc", "correction_accuracy", "seconds"}
        assert set(result) == {"cross_entropy", "car", "seed", "noise", "epochs", "figure"}
        assert set(result["cross_entropy"]) == set(result["car"]) == keys
        assert (result["seed"], result["epochs"]) == (1, 3)
        assert result["noise"] == pytest.approx(0.4, abs=0.001)
        assert Path(result["figure"]).read_bytes().startswith(b"\x89PNG")
        assert sorted(path.name for path in folder.iterdir()) == ["surelabel-demo"]

    def test_quick(self, folder, monkeypatch):
        monkeypatch.setattr(sys.modules["surelabel.cli.demo"], "QUICK_EPOCHS", 2)
        assert as_json("demo", "--quick")["epochs"] == 2
        assert as_json("demo", "--quick", "--epochs", "1")["epochs"] == 1

    def test_table_and_kept_runs(self, folder):
        result = done("demo", "--epochs", "2", "--out", "kept")
        for part in (
            "Cross entropy",
            "CAR",
            "test accuracy, last epoch",
            "wrong labels memorised",
            "kept/memorisation.png",
        ):
            assert part in result.stdout
        assert result.stderr.count("note: symmetric noise") == 1
        for method in ("cross_entropy", "car"):
            assert RunDir.open(folder / "kept" / method).is_done


class TestConsole:
    def test_plain_values(self):
        assert plain({"a": np.float32(0.5), "b": [np.int64(3), float("nan")], "c": Path("x")}) == {
            "a": 0.5,
            "b": [3, None],
            "c": "x",
        }

    def test_sparkline(self):
        assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
        assert sparkline([0.0] * 100 + [1.0] * 100, width=4) == "▁▁██"
        assert sparkline([]) == ""
