"""States as safetensors: what is read is what was written, bit by bit."""

import io
import math
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from surelabel.engine.state_file import DTYPES, TREE, read_state, write_state

CPU = torch.device("cpu")
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.integers() | st.text() | st.tuples(st.text(), st.integers())
TENSORS = st.sampled_from(list(DTYPES)).flatmap(
    lambda dtype: st.lists(st.integers(0, 3), max_size=3).map(lambda shape: (torch.randn(shape) * 9).abs().to(dtype))
)
STATES = st.recursive(
    PLAIN | TENSORS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


def is_same(a, b) -> bool:
    """Return whether two values have the same types, order and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        bits = [x.reshape(-1).view(torch.uint8).tolist() for x in (a, b)]
        return (a.dtype, a.shape, bits[0]) == (b.dtype, b.shape, bits[1])
    if isinstance(a, dict):
        return is_same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    return (math.isnan(a) and math.isnan(b)) or a.hex() == b.hex() if isinstance(a, float) else a == b


def write(path: Path, state) -> Path:
    with path.open("wb") as file:
        write_state(file, state)
    return path


@given(state=STATES)
@settings(deadline=None)
def test_whatever_is_written_is_read(tmp_path_factory, state):
    path = write(tmp_path_factory.getbasetemp() / "any.safetensors", state)
    assert is_same(read_state(path, CPU), state)
    assert is_same(read_state(path, CPU, is_mapped=True), state)


def test_the_state_of_an_optimiser(tmp_path):
    network = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(network.parameters(), betas=(0.9, 0.99))
    network(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    state = read_state(write(tmp_path / "a", optimiser.state_dict()), CPU)
    assert is_same(state, optimiser.state_dict())
    assert list(state["state"]) == [0, 1]
    assert state["param_groups"][0]["betas"] == (0.9, 0.99)


def test_tables_are_written_from_where_they_are(tmp_path):
    table, parts = torch.zeros(1000, 10), []

    class File(io.RawIOBase):
        def write(self, data):
            parts.append(data)
            return len(data)

    write_state(File(), {"table": table, "again": table})
    assert [len(part) for part in parts[1:]] == [table.nbytes]  # once
    table.fill_(1)
    assert torch.frombuffer(parts[1], dtype=torch.float32).sum() == table.numel()  # no copy


def test_a_mapped_table_is_read_when_it_is_used(tmp_path):
    path = write(tmp_path / "state.safetensors", {"table": torch.ones(1000)})
    assert str(path) not in Path("/proc/self/maps").read_text()
    whole = read_state(path, CPU)
    assert str(path) not in Path("/proc/self/maps").read_text()
    mapped = read_state(path, CPU, is_mapped=True)
    assert str(path) in Path("/proc/self/maps").read_text()
    path.unlink()
    mapped["table"] += 1
    assert mapped["table"].sum() == 2 * whole["table"].sum()


def test_other_tools_can_read_the_tensors(tmp_path):
    content = load_file(write(tmp_path / "a", [torch.arange(3, dtype=torch.uint8), torch.ones(2, dtype=torch.float64)]))
    assert {name: value.tolist() for name, value in content.items()} == {"0": [0, 1, 2], "1": [1.0, 1.0]}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", torch.zeros(1, dtype=torch.complex64)])
def test_what_it_cannot_hold_is_named(value):
    with pytest.raises(TypeError, match=r"a state cannot hold"):
        write_state(io.BytesIO(), {"a": [value]})


@pytest.mark.parametrize(
    "tree", ["", "{", '{"tensor": "9"}', '{"object": "os.system"}', '{"float": []}', "{}", "[" * 10**5, '{"dict": [1]}']
)
def test_a_forged_tree_is_refused(tmp_path, tree):
    save_file({"0": torch.zeros(1)}, tmp_path / "a", {TREE: tree})
    with pytest.raises((ValueError, KeyError, TypeError, RecursionError, SafetensorError)):
        read_state(tmp_path / "a", CPU)


@pytest.mark.parametrize("end", [0, 4, 100, -1])
def test_a_lost_end_is_noticed(tmp_path, end):
    path = write(tmp_path / "a", {"a": torch.zeros(100)})
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(Exception, match=r"(?i)header|invalid|small|empty|fill|offset|deserializ|buffer"):
        read_state(path, CPU)


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.delattr(pickle, name)
    monkeypatch.delattr(torch, "load")
    path = write(tmp_path / "a", {"a": torch.zeros(2), "b": (1, None)})
    assert is_same(read_state(path, CPU), {"a": torch.zeros(2), "b": (1, None)})
