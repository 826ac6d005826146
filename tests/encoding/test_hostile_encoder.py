"""An encoder from a stranger: damaged, of other types, or made to fill the memory."""

import json
import shutil
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from surelabel import api
from surelabel.errors import RunError

JSON, TENSORS = "encoder.json", "encoder.safetensors"


@pytest.fixture
def run(text_run, tmp_path):
    """Copy the run, without the checksums that a stranger would write anew."""
    shutil.copytree(text_run / "run", tmp_path / "run")
    (tmp_path / "run" / "checksums.json").unlink()
    return tmp_path / "run"


def refused(run, name):
    with pytest.raises(RunError) as caught:
        api.load(run)
    assert str(run / name) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [JSON, TENSORS])
@pytest.mark.parametrize("kept", [0, 7, 1000])
def test_a_truncated_file(run, name, kept):
    (run / name).write_bytes((run / name).read_bytes()[:kept])
    refused(run, name)


@pytest.mark.parametrize("name", [JSON, TENSORS])
def test_a_changed_file_is_noticed_by_its_checksum(text_run, tmp_path, name):
    shutil.copytree(text_run / "run", tmp_path / "run")
    content = bytearray((tmp_path / "run" / name).read_bytes())
    content[-5] ^= 1
    (tmp_path / "run" / name).write_bytes(content)
    refused(tmp_path / "run", name)


def test_a_lost_file(text_run, tmp_path):
    for name in (JSON, TENSORS):
        shutil.copytree(text_run / "run", tmp_path / name)
        (tmp_path / name / name).unlink()
        refused(tmp_path / name, name)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t | {"idf.0": t["idf.0"].double()},
        lambda t: t | {"idf.0": t["idf.0"].long()},
        lambda t: t | {"idf.0": t["idf.0"][:-1]},
        lambda t: t | {"idf.0": t["idf.0"] * float("nan")},
        lambda t: t | {"components": t["components"].float()},
        lambda t: t | {"components": t["components"][:, :-1].contiguous()},
        lambda t: t | {"components": t["components"] * float("inf")},
        lambda t: t | {"components": t["components"][:0]},
        lambda t: {name: value for name, value in t.items() if name != "idf.1"},
        lambda t: t | {"more": torch.zeros(3)},
    ],
)
def test_tensors_of_another_type_or_shape(run, change):
    save_file(change(load_file(run / TENSORS)), run / TENSORS)
    refused(run, TENSORS)


def test_a_width_that_the_network_was_not_trained_on(run):
    tensors = load_file(run / TENSORS)
    save_file(tensors | {"components": tensors["components"][:-1].contiguous()}, run / TENSORS)
    assert "the run was trained on" in refused(run, JSON)


def test_huge_dimensions(run):
    """The header promises 8 TB: they are refused before anything is allocated."""
    header = json.dumps({"idf.0": {"dtype": "F32", "shape": [2**41], "data_offsets": [0, 2**43]}}).encode()
    (run / TENSORS).write_bytes(struct.pack("<Q", len(header)) + header)
    refused(run, TENSORS)
    (run / TENSORS).write_bytes(struct.pack("<Q", 2**60) + header)
    refused(run, TENSORS)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "pickle"},
        {"kind": None},
        {"column": 3},
        {"parts": []},
        {"parts": [{"analyzer": "word", "shortest": 1, "longest": 1, "terms": [1]}]},
        {"parts": [{"analyzer": "os.system", "shortest": 1, "longest": 1, "terms": ["a"]}]},
        {"parts": [{"analyzer": "word", "shortest": 1, "longest": 10**9, "terms": ["a"]}]},
        {"more": 1},
    ],
)
def test_json_of_another_form(run, change):
    content = json.loads((run / JSON).read_text())
    (run / JSON).write_text(json.dumps(content | change))
    refused(run, JSON)


def test_terms_that_occur_twice(run):
    content = json.loads((run / JSON).read_text())
    content["parts"][0]["terms"][1] = content["parts"][0]["terms"][0]
    (run / JSON).write_text(json.dumps(content))
    refused(run, JSON)


def test_a_pickle_is_not_read(run):
    (run / TENSORS).write_bytes(b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR.")
    refused(run, TENSORS)
