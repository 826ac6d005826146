"""The saved position of a run."""

import pytest
import torch
from torch import nn

from surelabel.core import Method, Outputs, Pass, SampleStore, Step, Task, View
from surelabel.engine.checkpoint import Position, Snapshot, load, pack_plan, restore, save, unpack_plan
from surelabel.engine.state_file import write_state
from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir

CPU = torch.device("cpu")


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> Outputs:
        return Outputs(self.layer(x), x)


class Two(Method):
    """A network, a table, and two steps."""

    def __init__(self) -> None:
        super().__init__(Task(2, 3, torch.tensor([0, 1, 1]), 5, Line))
        self.network, self.table = Line(), SampleStore(3, 2)

    def first_step(self, _batch, _clock, **_others) -> Step:
        return Step({})

    def second_step(self, _batch, _clock, **_others) -> Step:
        return Step({})


def plan_of(method: Two) -> list[Pass]:
    return [
        Pass(method.first_step, {"labelled": View(torch.tensor([2, 0]), copies=2), "unlabelled": View(batch_size=7)}),
        Pass(method.second_step, {"batch": View(augment=False)}),
    ]


def snapshot_of(method: Two) -> Snapshot:
    position = Position(["warm"], "train", 4, 9, True, 1, 3, 96, 1.5)
    metrics = {"sums": {"loss": torch.tensor(1.25, dtype=torch.float64)}, "counts": {"loss": 3}}
    best = {"loss": 0.5, "epoch": 2, "networks": {"network": {"weight": torch.ones(2)}}}
    history = [{"epoch": 1, "terms": {"a": 0.5}}]
    return Snapshot(position, plan_of(method), history, {"rate": 0.25}, best, metrics, {"scale": 2.0})


def trained(method: Two) -> torch.optim.Optimizer:
    optimiser = torch.optim.SGD(method.network.parameters(), lr=0.1, momentum=0.9)
    method.network(torch.ones(1, 2)).logits.sum().backward()
    optimiser.step()
    method.table.write(torch.tensor([1]), torch.tensor([[3.0, 4.0]]))
    return optimiser


def test_a_plan_is_bound_to_another_method_again():
    old, new = Two(), Two()
    plan = unpack_plan(pack_plan(plan_of(old)), new)
    assert [walk.step for walk in plan] == [new.first_step, new.second_step]
    assert list(plan[0].views) == ["labelled", "unlabelled"]
    labelled, unlabelled = plan[0].views.values()
    assert labelled.indices.tolist() == [2, 0]
    assert (labelled.copies, labelled.augment, labelled.batch_size) == (2, True, None)
    assert (unlabelled.indices, unlabelled.batch_size) == (None, 7)
    assert not plan[1].views["batch"].augment


def test_everything_comes_back(tmp_path):
    old, run_dir = Two(), RunDir(tmp_path)
    optimiser = trained(old)
    torch.manual_seed(5)
    save(run_dir, {"method": old}, optimiser, snapshot_of(old))
    expected = torch.rand(3)
    torch.manual_seed(6)

    new = Two()
    state = load(run_dir, CPU)
    snapshot = restore(state, {"method": new}, new)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(new.network.layer.weight, old.network.layer.weight)
    assert new.table.whole().tolist() == [[0, 0], [3, 4], [0, 0]]
    assert snapshot.position == snapshot_of(old).position
    assert (snapshot.history, snapshot.notes) == ([{"epoch": 1, "terms": {"a": 0.5}}], {"rate": 0.25})
    assert snapshot.metrics == {"sums": {"loss": torch.tensor(1.25)}, "counts": {"loss": 3}}
    assert snapshot.metrics["sums"]["loss"].dtype == torch.float64
    assert snapshot.precision == {"scale": 2.0}
    assert snapshot.best["networks"]["network"]["weight"].tolist() == [1, 1]
    again = torch.optim.SGD(new.network.parameters(), lr=0.1, momentum=0.9)
    again.load_state_dict(state["optimiser"])
    assert torch.equal(
        again.state[new.network.layer.weight]["momentum_buffer"],
        optimiser.state[old.network.layer.weight]["momentum_buffer"],
    )


def test_between_stages_there_is_no_optimiser_and_no_best(tmp_path):
    method, run_dir = Two(), RunDir(tmp_path)
    save(run_dir, {"method": method}, None, Snapshot(Position(finished=["a"]), [], [], {}, None, {}, {}))
    state = load(run_dir, CPU)
    snapshot = restore(state, {"method": method}, method)
    assert (state["optimiser"], snapshot.best, snapshot.plan) == (None, None, [])
    assert snapshot.position == Position(finished=["a"])


def test_nothing_in_it_is_executed(tmp_path):
    torch.save({"modules": Two()}, tmp_path / "state.safetensors")
    with pytest.raises(RunError, match=r"state\.safetensors: not readable as resume state") as caught:
        load(RunDir(tmp_path), CPU)
    assert "\n" not in str(caught.value)


def test_a_state_without_some_of_its_parts(tmp_path):
    RunDir(tmp_path).write_stream("state.safetensors", lambda file: write_state(file, {"modules": {}}))
    with pytest.raises(RunError, match=r"state\.safetensors: not readable as resume state: parts of it are missing"):
        load(RunDir(tmp_path), CPU)


@pytest.mark.parametrize("content", [b"", b"half a state"])
def test_a_damaged_state(tmp_path, content):
    (tmp_path / "state.safetensors").write_bytes(content)
    with pytest.raises(RunError, match="not readable as resume state") as caught:
        load(RunDir(tmp_path), CPU)
    assert "\n" not in str(caught.value)


def test_no_state(tmp_path):
    with pytest.raises(RunError, match="no state to resume from"):
        load(RunDir(tmp_path), CPU)


def test_a_state_with_other_tables_is_refused_with_what_to_do():
    with pytest.raises(RunError, match=r"start a new run.*weight"):
        restore({"modules": {"method": {}}}, {"method": nn.Linear(1, 1)}, None)
