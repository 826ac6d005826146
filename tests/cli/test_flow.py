"""The commands that lead from a run to clean data: audit, report, review, export, retrain."""

import csv
import json
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from surelabel.runs.decisions import Journal, Wish
from surelabel.runs.run_dir import RunDir

pytestmark = pytest.mark.training
QUICK = ["--threads", "1", "--model", "mlp", "--set", "model.widths=[16]"]


def rows_of(file):
    with Path(file).open() as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, make_blobs, done):
    """Make a folder with data.npz and a finished run."""
    folder = tmp_path_factory.mktemp("flow")
    make_blobs(folder / "data.npz", num_samples=240)
    command = ["fit", folder / "data.npz", "--noise", "symmetric:0.25", "--epochs", "25", "--out", folder / "run"]
    done(*command, *QUICK)
    return folder


@pytest.fixture
def flow(finished, tmp_path, monkeypatch):
    """Copy that folder for a test to change, and make it the working folder."""
    shutil.copytree(finished, tmp_path / "flow")
    monkeypatch.chdir(tmp_path / "flow")
    return tmp_path / "flow"


def test_audit_says_how_many_are_wrong_and_what_a_review_finds(flow, call, done):
    text = done("audit", "run", "--budget", "40")
    assert "240 labels contradict the other rows" in text
    assert "Wrong labels by given class" in text
    assert "How far to look; the first" in text
    assert "of all wrong ones, in %" in text
    found = json.loads(done("audit", "run", "--budget", "40", "--min-probability", "0.9", "--json"))
    assert [plan["budget"] for plan in found["budgets"]] == [40]
    assert found["suspicious_from"] == 0.9
    rows = rows_of("run/audit.csv")
    assert found["suspicious"] == sum(float(row["p_wrong"]) >= 0.9 for row in rows)
    assert found["noise_rate"] == pytest.approx(sum(float(row["p_wrong"]) for row in rows) / len(rows), abs=1e-4)
    assert len(found["transition_matrix"]) == 3
    assert call("audit", "run", "--min-probability", "2").exit_code == 2


def test_report_is_written_where_asked(flow, call, done):
    assert "report.html" in done("report", "run")
    page = Path("run/report.html").read_text()
    assert "labels look wrong" in page
    done("report", "run", "--out", "new/folder/here.html", "--figures", "figures")
    assert Path("new/folder/here.html").is_file()
    assert {"transitions.png", "transitions.svg"} <= {file.name for file in Path("figures").iterdir()}
    failed = call("report", "run", "--out", "figures")
    assert failed.exit_code == 2
    assert failed.stderr == "error: --out figures: is a folder; expected FILE.html\n"


def test_files_of_scores_with_the_same_name_are_told_apart(flow, done):
    done("audit", "run")
    files = ("one/s.csv", "two/s.csv")
    for file in files:
        Path(file).parent.mkdir()
        shutil.copy("run/audit.csv", file)
    done("report", "run", "--out", "both.html", "--scores", files[0], "--scores", files[1])
    page = Path("both.html").read_text()
    assert [page.count(f">{file}</th>") for file in files] == [1, 1]
    done("report", "run", "--out", "one.html", "--scores", files[0])
    assert Path("one.html").read_text().count(">s</th>") == 1


def test_export_retrain_and_undo(flow, done):
    done("audit", "run")
    rows = rows_of("run/audit.csv")
    first = rows[0]
    other = next(name for name in "012" if name != first["given"])
    Journal("run/decisions.jsonl").append([Wish(first["id"], first["given"], "relabel", other)])
    before = Path("data.npz").read_bytes()
    text = done("export", "run")
    assert "1 changed by person" in text
    cleaned = {row["id"]: row for row in rows_of("run/export/cleaned.csv")}
    assert cleaned[first["id"]]["label"] == other
    assert cleaned[first["id"]]["decided_by"] == "person"
    assert rows_of("run/export/decisions.csv")[0]["id"] == first["id"]
    retrain = shlex.split(text.splitlines()[-1].removeprefix("Retrain: surelabel "))
    done(*retrain, "--warm-start", "run", "--epochs", "2", "--out", "again")
    assert RunDir("again").config().noise is None
    done("audit", "again")
    again = {row["id"]: row for row in rows_of("again/audit.csv")}
    assert again[first["id"]]["given"] == other
    assert again[first["id"]]["verdict"] == "trusted"
    assert float(again[first["id"]]["p_wrong"]) == 0
    capped = json.loads(done("export", "run", "--out", "capped", "--class-cap", "0", "--json"))
    assert capped["changed_by_model"] == 0
    done("export", "run", "--undo")
    assert not Path("run/export").exists()
    assert Path("data.npz").read_bytes() == before


def test_tensorboard_beside_the_json_lines(flow, call, done):
    pytest.importorskip("tensorboard")
    done("fit", "data.npz", "--epochs", "2", "--out", "logged", "--log", "tensorboard", *QUICK)
    assert len(Path("logged/metrics.jsonl").read_text().splitlines()) == 2
    assert list(Path("logged").rglob("events.out.tfevents*"))
    assert "available: tensorboard, wandb" in call("fit", "data.npz", "--log", "paper", *QUICK).stderr


def test_review_serves_to_those_who_have_the_key_and_ends_by_ctrl_c(flow):
    command = [sys.executable, "-m", "surelabel", "review", "run", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=flow) as server:
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            root, key = address.split("#key=")
            asked = urllib.request.Request(f"{root}api/run", headers={"x-surelabel-key": key})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                assert answer.status == 200
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{root}api/run", timeout=30)
            with refused.value as answer:
                assert answer.code == 403
        finally:
            server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    assert server.returncode in (0, 130)


def test_what_was_skipped_is_not_decided(flow, monkeypatch, done):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    first, second = RunDir("run").labels()["id"].to_pylist()[:2]
    Journal("run/decisions.jsonl").append([Wish(first, "0", "skip")])
    assert done("review", "run", "--no-open").splitlines()[-1] == "0 labels decided"
    Journal("run/decisions.jsonl").append([Wish(second, "0", "keep")])
    assert done("review", "run", "--no-open").splitlines()[-1] == "1 label decided: run/decisions.csv"


def test_data_are_found_from_another_folder_than_the_run_began_in(flow, make_blobs, monkeypatch, tmp_path, call, done):
    done("fit", "data.npz", "--epochs", "1", "--out", "near", *QUICK)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = call("report", flow / "near")
    assert result.exit_code == 0
    assert "shows no samples" not in result.stderr
    make_blobs(tmp_path / "elsewhere" / "data.npz", num_samples=90)  # other data under the same name
    assert "shows no samples" in call("report", flow / "near").stderr
