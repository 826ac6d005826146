"""The course of probabilities at checkpoints, by hand."""

import math

import pytest
import torch
from tests.conftest import settings_for

from surelabel import api
from surelabel.engine import trajectory as trajectories
from surelabel.engine.record import SampleRecord
from surelabel.engine.trajectory import Trajectory

GIVEN = torch.tensor([0, 1, 3])


def logits(**p: float) -> list[float]:
    """Logits of four classes, a to d, with these probabilities."""
    return [math.log(p[name]) for name in "abcd"]


def say(record, epoch, rows):
    record.open_epoch(epoch)
    index = torch.tensor(list(rows))
    record.see(index, torch.tensor(list(rows.values())), GIVEN[index])
    record.close_epoch(epoch)


def test_two_checkpoints_by_hand():
    record = SampleRecord(GIVEN, 4)
    say(record, 1, {0: logits(a=0.4, b=0.3, c=0.2, d=0.1), 1: logits(a=0.7, b=0.1, c=0.15, d=0.05)})
    say(record, 2, {0: logits(a=0.1, b=0.2, c=0.3, d=0.4)})
    found = record.trajectory.tensors()
    assert found["epochs"].tolist() == [1, 2]
    assert found["given"][0].tolist() == pytest.approx([0.4, 0.1], abs=1e-3)
    assert found["given"][1].tolist() == pytest.approx([0.1, -1], abs=1e-3)
    assert found["given"].dtype == torch.float16
    assert found["classes"][0, 0].tolist() == [0, 1, 2]
    assert found["classes"][1, 0].tolist() == [0, 2, 1]
    assert sorted(found["classes"][0, 1].tolist()) in ([0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3])  # means are equal
    assert found["probability"][1, 0].tolist() == pytest.approx([0.7, 0.15, 0.1], abs=1e-3)
    assert found["classes"][2].tolist() == [[-1] * 3] * 2


def test_classes_are_those_with_the_largest_running_mean():
    record = SampleRecord(GIVEN, 4)
    for epoch in (1, 2, 3):
        say(record, epoch, {0: logits(a=0.1, b=0.5, c=0.35, d=0.05)})
    say(record, 4, {0: logits(a=0.2, b=0.05, c=0.05, d=0.7)})
    found = record.trajectory.tensors()
    assert found["classes"][0, 3].tolist() == [1, 2, 3]
    assert found["probability"][0, 3].tolist() == pytest.approx([0.05, 0.05, 0.7], abs=1e-3)


def test_all_rows_at_once_count_too():
    record = SampleRecord(GIVEN, 4)
    record.open_epoch(1)
    record.see_all(torch.tensor([logits(a=0.4, b=0.3, c=0.2, d=0.1)] * 3))
    record.close_epoch(1)
    assert record.trajectory.tensors()["given"][:, 0].tolist() == pytest.approx([0.4, 0.3, 0.1], abs=1e-3)
    assert record.trajectory.tensors()["classes"][:, 0].tolist() == [[0, 1, 2]] * 3


def test_there_are_never_more_than_20_checkpoints_and_they_cover_all_of_training():
    table = Trajectory(2, 3)
    for epoch in range(1, 201):
        if table.takes(epoch):
            table.add(epoch, torch.full((2,), epoch / 1000), torch.tensor([[0.0, 1, 2, epoch / 1000, 0, 0]] * 2))
    found = table.tensors()
    epochs = found["epochs"].tolist()
    assert 10 <= len(epochs) <= 20
    assert epochs == list(range(16, 201, 16))
    assert found["given"][0].tolist() == pytest.approx([epoch / 1000 for epoch in epochs], abs=1e-3)
    assert found["probability"][1, :, 0].tolist() == pytest.approx([epoch / 1000 for epoch in epochs], abs=1e-3)


def test_of_many_rows_only_the_given_class_is_kept(monkeypatch):
    monkeypatch.setattr(trajectories, "MOST_ROWS", 2)
    record = SampleRecord(GIVEN, 4)
    say(record, 1, {0: logits(a=0.4, b=0.3, c=0.2, d=0.1)})
    assert record.trajectory.tensors().keys() == {"epochs", "given"}


def test_a_run_that_was_stopped_ends_with_the_same_course(blobs, tmp_path):
    settings = settings_for("car", blobs, train__epochs=3)
    whole = api.fit(settings, tmp_path / "whole")
    steps = iter(range(1000))
    with pytest.raises(KeyboardInterrupt):
        api.fit(settings, tmp_path / "parts", interrupt=lambda: next(steps) == 6)
    parts = api.resume(tmp_path / "parts")
    one, other = (run.tensors("trajectory.safetensors") for run in (whole, parts))
    assert one.keys() == other.keys() == {"epochs", "given", "classes", "probability"}
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert one["epochs"].tolist() == [1, 2, 3]
    assert (one["given"] >= 0).all()


def test_a_state_of_an_older_version_is_resumed_without():
    record = SampleRecord(GIVEN, 4)
    state = {name: values for name, values in record.state_dict().items() if not name.startswith("tra")}
    record.load_state_dict(state)
    say(record, 1, {0: logits(a=0.4, b=0.3, c=0.2, d=0.1)})
    assert record.trajectory is None
