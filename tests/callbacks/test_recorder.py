"""An audit from a plain PyTorch loop, without our engine."""

import doctest
import importlib
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import surelabel
from surelabel.callbacks import Recorder
from surelabel.engine.record import SampleRecord
from surelabel.errors import DataError, RunError, SurelabelError


@pytest.fixture(scope="module")
def recorder(blobs, plain_loop, names):
    made = Recorder(len(blobs.label), class_names=names)
    made.network = plain_loop(made, blobs)
    return made


def found_share(audit, wrong):
    """The fraction of the wrong rows among the first so many of the audit."""
    first = {int(row["id"]) for row in audit.head(len(wrong))}
    return len(first & wrong) / len(wrong)


def assert_same(one, other):
    for name, values in one.named_buffers():
        torch.testing.assert_close(values, dict(other.named_buffers())[name], rtol=0, atol=0, equal_nan=True, msg=name)


class TestAudit:
    def test_training_alone_ranks_wrong_labels_first(self, recorder, blobs):
        audit = recorder.audit()
        assert isinstance(audit, surelabel.verdicts.Audit)
        assert found_share(audit, blobs.wrong) > 0.9
        assert not any(name in audit.columns for name in ("isolation", "duplicate_group"))

    def test_features_add_a_second_opinion(self, recorder, blobs):
        audit = recorder.audit(features=blobs.x)
        assert found_share(audit, blobs.wrong) > 0.95
        low, high = audit.noise_rate.interval
        assert low <= len(blobs.wrong) / len(blobs.label) <= high
        assert {"isolation", "duplicate_group", "rival"} <= set(audit.columns)

    def test_it_says_what_is_missing(self, recorder, blobs):
        final = recorder.network(blobs.x).softmax(1)
        alone, complete = recorder.audit(), recorder.audit(features=blobs.x, predictions=final)
        assert len(alone.caveats) == 2
        assert "No features" in alone.warnings[0]
        assert "final network" in alone.warnings[1]
        assert complete.caveats == ()
        assert json.loads(json.dumps(alone.summary()["warnings"]))[:2] == list(alone.caveats)

    def test_final_predictions_are_those_of_the_audit(self, recorder, blobs, names):
        final = recorder.network(blobs.x).softmax(1).detach()
        audit = recorder.audit(predictions=final)
        rows = [int(id) for id in audit.columns["id"]]
        assert audit.columns["prediction"].tolist() == np.array(names)[final.argmax(1)][rows].tolist()

    def test_asking_in_the_middle_of_an_epoch_changes_nothing(self, blobs, plain_loop):
        asked, other = Recorder(len(blobs.label)), Recorder(len(blobs.label))
        for one in (asked, other):
            plain_loop(one, blobs, epochs=2)
            one.see([0, 1], torch.eye(3)[:2], blobs.label[:2])
        asked.audit()
        for one in (asked, other):
            one.see([2], torch.eye(3)[:1], blobs.label[2:3])
            one.end_epoch()
        assert asked.metrics == other.metrics
        assert_same(asked.record, other.record)


class TestRecording:
    def test_it_is_the_record_of_the_engine(self):
        label = torch.tensor([0, 1, 2, 0])
        engine, mine = SampleRecord(label, 3), Recorder(4)
        rng = torch.Generator().manual_seed(1)
        for epoch in range(1, 5):
            engine.open_epoch(epoch)
            for rows in torch.randperm(4, generator=rng).split(2):
                logits = torch.randn(2, 3, generator=rng)
                engine.see(rows, logits, label[rows])
                mine.see(rows, logits, label[rows])
            engine.close_epoch(epoch)
            mine.end_epoch()
        assert_same(engine, mine.record)

    def test_epochs_are_counted_by_rows_if_nobody_ends_them(self, blobs, plain_loop):
        ended, counted = Recorder(len(blobs.label)), Recorder(len(blobs.label))
        plain_loop(ended, blobs, epochs=3)
        plain_loop(counted, blobs, epochs=3, ends=False)
        assert len(counted.metrics) == 3
        assert counted.metrics == ended.metrics
        assert torch.equal(counted.record.first_learned, ended.record.first_learned)

    def test_any_form_of_numbers(self):
        forms = [
            ([0, 1], [[2.0, 0.0], [0.0, 2.0]], [0, 1]),
            (np.array([0, 1]), np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([0, 1])),
            (torch.tensor([0, 1]), torch.tensor([[2.0, 0.0], [0.0, 2.0]], dtype=torch.bfloat16), torch.tensor([0, 1])),
            (range(2), [-2.0, 2.0], [0, 1]),
            (range(2), [[-2.0], [2.0]], [0, 1]),
        ]
        for form in forms:
            made = Recorder(2)
            made.see(*form)
            assert made.record.mean_given_probability.tolist() == pytest.approx([0.8808] * 2, abs=1e-3)

    def test_rows_that_were_never_seen_are_left_out(self):
        made = Recorder(100)
        for _ in range(3):
            made.see(range(10, 100), np.eye(3)[np.arange(90) % 3], np.arange(90) % 3)
            made.end_epoch()
        audit = made.audit(features=np.random.default_rng(0).normal(size=(100, 3)))
        assert audit.row.tolist() == list(range(10, 100))
        assert audit.columns["id"].astype(int).tolist() == audit.columns["row"].tolist()
        assert any("10 of 100 rows were never seen" in text for text in audit.caveats)

    def test_a_checkpoint_goes_on(self, blobs, plain_loop):
        whole, first, second = (Recorder(len(blobs.label)) for _ in range(3))
        rng = torch.Generator().manual_seed(0)
        batches = [(rows, torch.randn(50, 3, generator=rng)) for _ in range(4) for rows in torch.arange(300).split(50)]
        for number, (rows, logits) in enumerate(batches):
            whole.see(rows, logits, blobs.label[rows])
            part = first if number < 10 else second
            if number == 10:
                second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
            part.see(rows, logits, blobs.label[rows])
        assert second.metrics == whole.metrics
        assert_same(second.record, whole.record)

    @pytest.mark.parametrize(
        ("arguments", "guilty"),
        [
            (([0, 1], [[1.0, 0.0]], [0, 1]), r"\(2,\), \(1, 2\), \(2,\)"),
            (([9], [[1.0, 0.0]], [0]), "index: got 9 to 9; expected 0 to 3"),
            (([0], [[1.0, 0.0]], [2]), "label: got 2 to 2; expected 0 to 1"),
            (([-1], [[1.0, 0.0]], [0]), "index: got -1"),
            (([0], [[float("nan"), 0.0]], [0]), "NaN"),
            (([3], [[1.0, 0.0]], [1]), "row 3: its label was 0 and is now 1"),
        ],
    )
    def test_what_cannot_be_right_is_named(self, arguments, guilty):
        made = Recorder(4)
        made.see([3], [[1.0, 0.0]], [0])
        before = made.record.visits.clone()
        with pytest.raises(DataError, match=guilty):
            made.see(*arguments)
        assert torch.equal(made.record.visits, before)

    @pytest.mark.parametrize(
        ("make", "guilty"),
        [
            (lambda: Recorder(1), "at least 2"),
            (lambda: Recorder(3, ids=["a", "b", "a"]), "ids: got 2"),
            (lambda: Recorder(3, class_names=["a"]).see([0], [[1.0, 2.0]], [0]), "class_names: 1 names"),
            (lambda: Recorder(3).audit(), "nothing was recorded"),
        ],
    )
    def test_a_recorder_that_cannot_be_right(self, make, guilty):
        with pytest.raises(SurelabelError, match=guilty):
            make()

    def test_predictions_must_be_probabilities(self, recorder, blobs):
        with pytest.raises(DataError, match="predictions: expected probabilities of 3 classes"):
            recorder.audit(predictions=recorder.network(blobs.x))
        with pytest.raises(DataError, match="features"):
            recorder.audit(features=blobs.x[:5])


@pytest.fixture(scope="module")
def data(blobs, names, tmp_path_factory):
    file = tmp_path_factory.mktemp("recorded") / "blobs.csv"
    labels = np.array(names)[blobs.label]
    lines = [",".join([*(f"{v:.6f}" for v in row), name]) for row, name in zip(blobs.x.tolist(), labels, strict=True)]
    file.write_text("\n".join(["a,b,c,d,label", *lines]) + "\n")
    return file


@pytest.fixture(scope="module")
def run(recorder, data):
    return recorder.save(data.parent / "run", data=data)


@pytest.fixture(scope="module")
def bare(recorder, data):
    return recorder.save(data.parent / "bare")


class TestRun:
    """A saved recording is a run for every command that reads one."""

    def test_the_commands_read_it(self, run, done, blobs):
        found = json.loads(done("audit", run.path, "--json"))
        assert found["rows"] == len(blobs.label)
        assert (run.path / "audit.csv").is_file()
        done("report", run.path)
        assert "recorded" in (run.path / "report.html").read_text()
        done("export", run.path, "--accept", "all")
        assert (run.path / "export" / "cleaned.csv").is_file()
        assert json.loads(done("gate", run.path, "--max-wrong", 0.9, "--json"))["outcome"] == "passed"

    def test_the_data_give_a_second_opinion_and_the_inputs(self, run):
        assert run.second_opinion()["power"] > 0.8
        assert surelabel.api.reopen_data(run).train.x.shape == (300, 4)

    def test_the_review_page_opens(self, run):
        from surelabel.reviewing.server import make_review

        corpus = surelabel.api.reopen_data(run)
        review = make_review(run, corpus, "tester")
        assert review.journal.path == run.path / "decisions.jsonl"

    def test_the_retrain_command_names_a_method(self, run, done, tmp_path, call):
        out = done("export", run.path, "--out", tmp_path / "clean")
        assert "--method car" in out

    def test_without_data_all_but_the_inputs(self, bare, done, call):
        done("audit", bare.path)
        done("report", bare.path)
        done("export", bare.path)
        refused = call("review", bare.path, "--no-open")
        assert refused.exit_code == 2
        assert "recorded without its data" in refused.stderr

    def test_there_is_no_model(self, bare):
        with pytest.raises(RunError, match="no model"):
            surelabel.load(bare)

    def test_a_folder_that_is_taken_is_refused(self, recorder, bare):
        with pytest.raises(RunError, match="not empty"):
            recorder.save(bare.path)

    def test_other_data_are_refused(self, recorder, data, tmp_path):
        lines = data.read_text().splitlines()
        for name, text in {"fewer": lines[:-1], "other": [lines[0], lines[2], lines[1], *lines[3:]]}.items():
            file = tmp_path / f"{name}.csv"
            file.write_text("\n".join(text) + "\n")
            with pytest.raises(DataError, match=r"data: "):
                recorder.save(tmp_path / "run", data=file)
            assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["recorder", "hugging_face", "lightning", "skorch"])
def test_examples(name):
    module = importlib.import_module(f"surelabel.callbacks.{name}")
    result = doctest.testmod(module)
    assert result.attempted > 3
    assert result.failed == 0


def test_importing_callbacks_loads_nothing_heavy():
    heavy = ("torch", "transformers", "lightning", "skorch")
    code = f"import sys, surelabel.callbacks; dir(surelabel.callbacks); print([n for n in {heavy} if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "packages", "extra"),
    [
        ("LightningRecorder", ("lightning", "pytorch_lightning"), "surelabel[lightning]"),
        ("SkorchRecorder", ("skorch",), "surelabel[skorch]"),
        ("record_trainer", ("transformers",), "surelabel[trainer]"),
    ],
)
def test_a_missing_package_names_its_extra(name, packages, extra):
    lines = ["import sys", *(f"sys.modules[{package!r}] = None" for package in packages)]
    lines += ["from surelabel.callbacks import Recorder", f"from surelabel.callbacks import {name} as found"]
    lines += ["found(None, Recorder(2))"]
    result = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert "ImportError" in result.stderr
    assert extra in result.stderr.splitlines()[-1]


TWO_PROCESSES = """
import sys, torch, torch.distributed as dist
from surelabel.callbacks import Recorder
dist.init_process_group("gloo")
rng, label, recorder = torch.Generator().manual_seed(0), torch.arange(40) % 3, Recorder(40)
for _ in range(3):
    logits = torch.randn(40, 3, generator=rng)
    for rows in torch.randperm(40, generator=rng).split(10):
        mine = rows.chunk(2)[dist.get_rank()]
        recorder.see(mine, logits[mine], label[mine])
if dist.get_rank() == 0:
    torch.save(recorder.state_dict(), sys.argv[1])
dist.destroy_process_group()
"""


@pytest.mark.training
def test_two_processes_record_what_one_does(tmp_path):
    script, saved, rng = tmp_path / "two.py", tmp_path / "state.pt", torch.Generator().manual_seed(0)
    script.write_text(TWO_PROCESSES)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, saved]
    done = subprocess.run(launch, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    alone, together, label = Recorder(40), Recorder(40), torch.arange(40) % 3
    for _ in range(3):
        logits = torch.randn(40, 3, generator=rng)
        for rows in torch.randperm(40, generator=rng).split(10):
            alone.see(rows, logits[rows], label[rows])
    together.load_state_dict(torch.load(saved))
    assert together.metrics == alone.metrics
    assert_same(together.record, alone.record)
