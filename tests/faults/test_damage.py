"""A flipped bit or a lost end in each kind of file is noticed; `make faults` tries every file."""

import pytest
from damage import COMMANDS, make_runs, try_damage
from tally import Options

pytestmark = pytest.mark.training

CASES = [
    ("finished", "config.json", "a lost end", "audit"),
    ("finished", "data.json", "garbage", "predict"),
    ("finished", "metrics.jsonl", "garbage", "report"),
    ("finished", "metrics.jsonl", "a lost file", "report"),
    *(("finished", "done", "a lost file", command) for command in ("export", "resume")),
    ("finished", "samples.parquet", "eight flipped bits", "export"),
    ("finished", "model.safetensors", "flipped bits in the last quarter", "predict"),
    ("finished", "decisions.jsonl", "a flipped bit", "export"),
    ("finished", "decisions.jsonl", "eight flipped bits", "audit"),
    ("finished", "decisions.jsonl", "eight flipped bits", "report"),
    *(("finished", "decisions.jsonl", "nothing", command) for command in ("audit", "report", "export", "review")),
    ("finished", "decisions.count", "garbage", "export"),
    ("finished", "done", "a folder in its place", "review"),
    ("finished", "done", "a folder in its place", "resume"),
    ("finished", "done", "nothing", "audit"),
    ("unfinished", "state.safetensors", "flipped bits in the last quarter", "resume"),
    ("unfinished", "labels.parquet", "a folder in its place", "resume"),
    ("unfinished", "state.safetensors", "a lost file", "resume"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a finished and an unfinished run, by name, and the folder of both."""
    folder = tmp_path_factory.mktemp("damage")
    return {scene.name: scene for scene in make_runs(folder)}, folder


@pytest.mark.parametrize(("state", "name", "kind", "command"), CASES)
def test_damage_changes_no_result_in_silence(made, state, name, kind, command):
    scenes, folder = made
    assert command in COMMANDS
    assert try_damage(scenes[state], f"run/{name}", kind, command, Options(0, None, folder)) is None
