"""Exit codes mean the same on every output: a reader that left, a full disk, none at all.

A process that has only imported the commands forks for each of them, which is quick.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.training  # slow: it starts many commands

COMMANDS = {
    "gate run --max-wrong 0.99": 0,
    "gate run --max-wrong 0": 1,
    "gate lost --max-wrong 0.99": 3,
    "gate run": 2,
    "audit run": 0,
    "audit nowhere": 2,
    "report run": 0,
    "export run --out export{number}": 0,
    "predict run data.npz": 0,
    "fit data.npz --out again{number} --epochs 1 --threads 1 --device cpu --model mlp": 0,
    "resume run": 0,
    "noise data.npz --noise symmetric:0.3 --out noisy.csv": 0,
    "methods car": 0,
    "settings": 0,
    "gate --help": 0,
    "--version": 0,
    "--nothing": 2,
}
BOTH = [words for words in COMMANDS if words.startswith("gate")]
WRITES_NOTHING = {"gate run", "audit nowhere", "--nothing"}

FORK = """
import json, os, sys
import surelabel.api, surelabel.reporting, surelabel.exporting, surelabel.training.build, surelabel.engine.loop
import surelabel.verdicts.audit, surelabel.reporting.report, surelabel.training.predictor, surelabel.training.session
from surelabel.cli import main

def output(kind, fd):
    if kind == "closed":
        os.close(fd)
        setattr(sys, {1: "stdout", 2: "stderr"}[fd], None)
        return
    if kind == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open("/dev/full", os.O_WRONLY)
    os.dup2(writer, fd)

def end(main):
    try:
        main()
    except SystemExit as ending:
        code = ending.code
    try:  # what Python does at the end; the rest of it takes most of a second
        [stream.flush() for stream in (sys.stdout, sys.stderr) if stream]
    except OSError:
        code = 120
    os._exit(code)

codes = []
for number, (words, kinds) in enumerate(json.load(open(sys.argv[1]))):
    child = os.fork()
    if not child:
        os.dup2(os.open(f"stderr{number}", os.O_WRONLY | os.O_CREAT), 2)
        for fd, kind in kinds.items():
            output(kind, int(fd))
        sys.argv = ["surelabel", *words.replace("{number}", str(number)).split()]
        end(main)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
json.dump(codes, open("codes.json", "w"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_blobs, done):
    """Train a run, and one whose audit cannot tell how many labels are wrong."""
    folder = tmp_path_factory.mktemp("outputs")
    make_blobs(folder / "data.npz")
    rng = np.random.default_rng(0)
    np.savez(folder / "lost.npz", x=rng.normal(size=(75, 6)).astype(np.float32), y=rng.integers(0, 3, 75))
    options = ["--epochs", 1, "--threads", 1, "--device", "cpu", "--model", "mlp"]
    done("fit", folder / "data.npz", "--out", folder / "run", "--noise", "symmetric:0.3", *options)
    done("fit", folder / "lost.npz", "--out", folder / "lost", *options, "--set", "train.second_opinion=false")
    return folder


@pytest.fixture(scope="module")
def ended(folder):
    """Run every command on every output; return exit code and stderr by command and output."""
    outputs = {"pipe": {1: "pipe"}, "full": {1: "full"}, "closed": {1: "closed"}, "both": {1: "pipe", 2: "pipe"}}
    cases = [(words, name) for words in COMMANDS for name in outputs if name != "both" or words in BOTH]
    (folder / "cases.json").write_text(json.dumps([(words, outputs[name]) for words, name in cases]))
    subprocess.run([sys.executable, "-c", FORK, "cases.json"], cwd=folder, check=True)
    codes = json.loads((folder / "codes.json").read_text())
    said = [(folder / f"stderr{number}").read_text() for number in range(len(cases))]
    return dict(zip(cases, zip(codes, said, strict=True), strict=True))


@pytest.mark.parametrize("output", ["pipe", "closed"])
@pytest.mark.parametrize("words", COMMANDS)
def test_a_missing_reader_changes_no_exit_code(ended, words, output):
    code, said = ended[words, output]
    assert code == COMMANDS[words]
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert ("error: " in said) == (code == 2)


@pytest.mark.parametrize("words", BOTH)
def test_nor_do_two_missing_readers(ended, words):
    assert ended[words, "both"] == (COMMANDS[words], "")


@pytest.mark.parametrize("words", [words for words in COMMANDS if words not in WRITES_NOTHING])
def test_a_full_output_is_an_error_that_names_it(ended, words):
    code, said = ended[words, "full"]
    assert code == 2
    assert "Exception ignored" not in said
    assert said.splitlines()[-1].startswith("error: standard output: No space left on device")


@pytest.mark.parametrize(("closed", "code"), [("| true", 0), (">&-", 0), ("2>&-", 0), (">/dev/full", 2)])
def test_a_gate_in_a_shell(folder, closed, code):
    command = f"{sys.executable} -m surelabel gate run --max-wrong 0.99 {closed}; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True).returncode == code


def test_a_closed_output_is_not_a_file_of_the_run(folder):
    # The first file that is opened gets the number of a closed output, and what is printed there.
    before = {path: path.read_bytes() for path in Path(folder, "run").iterdir() if path.is_file()}
    command = f"{sys.executable} -m surelabel audit run --out out.csv >&- 2>&- <&-"
    assert subprocess.run(["bash", "-c", command], cwd=folder).returncode == 0
    assert {path: path.read_bytes() for path in Path(folder, "run").iterdir() if path.is_file()} == before
    assert (folder / "out.csv").read_text().startswith("rank,row,id,")
