"""Variables of launchers: a process that nobody has launched is alone, whatever they say."""

import os
import socket

import pytest

import surelabel
from surelabel import launcher
from surelabel.errors import ConfigError

RANK_1 = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
TORCHRUN = {**RANK_1, **MEETING, "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "False"}
SLURM = {"SLURM_NTASKS": "4", "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_JOB_NAME": "job"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1, 1)),
        (MEETING, (0, 1, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, 1)),
        (SLURM, (0, 1, 1)),
        (TORCHRUN, (1, 2, 2)),
        ({**TORCHRUN, "RANK": "3", "WORLD_SIZE": "4", "GROUP_RANK": "1"}, (3, 4, 2)),
        ({**RANK_1, **MEETING, launcher.PARENT: str(os.getppid())}, (1, 2, 2)),
    ],
    ids=["nothing", "an address", "alone", "slurm", "torchrun", "two machines", "our child"],
)
def test_what_this_process_is(started_with, monkeypatch, variables, expected):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    started_with(variables)
    assert launcher.started_as() == expected
    assert launcher.has_nonzero_rank() == (expected[0] > 0)


MISFITS = {
    "RANK alone": ({"RANK": "1"}, "RANK=1 "),
    "LOCAL_RANK alone": ({"LOCAL_RANK": "1"}, "LOCAL_RANK=1 "),
    "WORLD_SIZE alone": ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2 "),
    "not a number": ({"RANK": "first"}, "RANK=first "),
    "no launcher": ({**RANK_1, **MEETING}, "RANK=1 "),
    "another's child": ({**RANK_1, **MEETING, launcher.PARENT: "1"}, "RANK=1 "),
    "no number of processes": ({k: v for k, v in TORCHRUN.items() if k != "WORLD_SIZE"}, "WORLD_SIZE is missing"),
    "half of torchrun": ({**RANK_1, **MEETING, "TORCHELASTIC_RUN_ID": "none"}, "TORCHELASTIC_RUN_ID=none "),
    "no address": ({k: v for k, v in TORCHRUN.items() if k != "MASTER_ADDR"}, "MASTER_ADDR is missing"),
    "rank too large": ({**TORCHRUN, "RANK": "2"}, "RANK=2 does not fit WORLD_SIZE=2"),
    "negative": ({**TORCHRUN, "LOCAL_RANK": "-1"}, "LOCAL_RANK=-1 "),
    "another place": ({**TORCHRUN, "LOCAL_RANK": "0"}, "LOCAL_RANK=0 does not fit RANK=1"),
    "port": ({**TORCHRUN, "MASTER_PORT": "70000"}, "MASTER_PORT=70000 "),
    "word as port": ({**TORCHRUN, "MASTER_PORT": "http"}, "MASTER_PORT=http "),
}


@pytest.mark.parametrize(("variables", "expected"), MISFITS.values(), ids=MISFITS)
def test_a_variable_that_does_not_fit_is_named_before_anything_is_written(
    started_with, tiny, tmp_path, variables, expected
):
    run = surelabel.fit(tiny("car", train__epochs=1), tmp_path / "done")
    before = (run.path / "samples.parquet").read_bytes()
    started_with(variables)
    for out in ("new", "done"):
        with pytest.raises(ConfigError, match=r"unset .*torchrun") as caught:
            surelabel.fit(tiny("gce", train__epochs=1), tmp_path / out)
        assert str(caught.value).startswith(expected)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()
    assert (run.path / "samples.parquet").read_bytes() == before


def test_a_launcher_that_has_ended_does_not_answer(started_with):
    with socket.create_server(("127.0.0.1", 0)) as agent:
        port = str(agent.getsockname()[1])
        variables = {**TORCHRUN, "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        started_with(variables)
        assert launcher.started_as() == (1, 2, 2)
    started_with(variables)
    with pytest.raises(ConfigError, match=f"MASTER_PORT={port} .*no launcher answers"):
        launcher.started_as()


def test_a_command_that_does_not_train_prints_as_ever(started_with, call):
    started_with({"RANK": "1"})
    assert "car" in call("methods").stdout


def test_torchrun_needs_the_name_of_the_run(started_with, call, blobs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started_with({**TORCHRUN, "RANK": "0", "LOCAL_RANK": "0"})
    result = call("fit", blobs)
    assert result.exit_code == 2
    assert "--out is missing" in result.stderr
    assert not (tmp_path / "runs").exists()


def test_processes_of_tune_and_reproduce_are_alone():
    assert launcher.without_launcher({**TORCHRUN, "HOME": "here"}) == {"HOME": "here"}
