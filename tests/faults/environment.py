"""Variables that another launcher has left: the usual result, or one line that names one."""

from pathlib import Path
from random import Random

import scenes
from comparison import differing_files
from processes import Ended, copy, run
from tally import Options, Tally

COUNT = 60
NUMBERS = ("0", "1", "2", "3", "-1", "", "one", "1.5", "99999999999999999999")
VALUES = {
    **dict.fromkeys(("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"), NUMBERS),
    "MASTER_ADDR": ("127.0.0.1", "nohost.invalid", ""),
    "MASTER_PORT": ("1", "29500", "70000", "http", ""),
    "TORCHELASTIC_RUN_ID": ("none",),
    "TORCHELASTIC_USE_AGENT_STORE": ("True",),
    "SURELABEL_PARENT": ("1", "me"),
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_LOCALID"), ("0", "1", "4")),
    "SLURM_JOB_NAME": ("job", "bash"),
}
WHOLE = {
    **{"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"},
    **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
    **{"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True"},
}
"""All that torchrun sets, where it has ended."""
COMMANDS = ("new", "new", "new", "onto a finished run", "resume", "audit", "devices")


def run_environment(options: Options) -> Tally:
    """Try `count` commands with variables that are drawn at random."""
    tally = Tally("environment", planned=options.count or COUNT)
    scene = options.folder / "scene"
    scene.mkdir(parents=True)
    scenes.write_blobs(scene / "data.npz")
    trained = copy(scene, options.folder / "trained")
    stopped = copy(scene, options.folder / "stopped")
    assert run(scenes.fit_words("car"), trained, save_every=0).code == 0
    assert run(scenes.fit_words("car"), stopped, fatal="run/state.safetensors", save_every=0).was_killed
    for number in range(tally.planned):
        random = options.random("environment", number)
        command, variables = random.choice(COMMANDS), draw(random)
        start = {"new": scene, "devices": scene, "resume": stopped}.get(command, trained)
        folder = copy(start, options.folder / "tried")
        shown = " ".join(f"{name}={value!r}" for name, value in variables.items())
        case = f"{command} with {shown} (case {number} of seed {options.seed})"
        tally.judge(case, judge(command, variables, folder, trained))
    return tally


def draw(random: Random) -> dict[str, str]:
    """Return some variables: any, or all that torchrun sets but for a few."""
    if random.random() < 0.3:
        left = {name: value for name, value in WHOLE.items() if random.random() < 0.9}
        return left or WHOLE
    names = random.sample(sorted(VALUES), random.randint(1, 4))
    return {name: random.choice(VALUES[name]) for name in names}


def judge(command: str, variables: dict[str, str], folder: Path, trained: Path) -> str | None:
    """Return what is wrong with a command under these variables."""
    words = {"resume": ["resume", "run"], "audit": ["audit", "run"]}.get(command, scenes.fit_words("car"))
    words = [*words, "--devices", "2"] if command == "devices" else words
    if command == "onto a finished run":
        words = scenes.fit_words("elr")
    ended = run(words, folder, environment=variables, is_fresh=command == "devices")
    return ended.fault() or _judge_end(command, ended, folder, trained)


def _judge_end(command: str, ended: Ended, folder: Path, trained: Path) -> str | None:
    must_fail, run_dir = command == "onto a finished run", folder / "run"
    if ended.code not in ((2,) if must_fail else (0, 2)):
        return ended.describe()
    if ended.code == 2 and not must_fail:
        named = any(f"error: {name}" in ended.stderr for name in VALUES)
        is_left = command in ("new", "devices") and run_dir.exists()
        return None if named and not is_left else f"left a folder or names no variable: {ended.describe()}"
    if ended.code == 0 and not ended.stdout:
        return f"silent: {ended.describe()}"
    if command == "devices":
        return None if (run_dir / "done").is_file() else f"not finished: {ended.describe()}"
    different = set(differing_files(run_dir, trained / "run")) - {"audit.csv"}
    return f"differ: {', '.join(sorted(different))}" if different else None
