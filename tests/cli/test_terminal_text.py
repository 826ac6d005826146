"""Names in data never control the terminal: control characters are shown, not obeyed."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from surelabel import console

ESCAPE = "\x1b]0;owned\x07"
C1 = "\x9b31m"
BIDI = "\u202egnp"
CLASSES = (f"cat{ESCAPE}", f"dog{C1}{BIDI}")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, done):
    """Write a table whose names are hostile, and train on it."""
    folder = tmp_path_factory.mktemp("terminal")
    x = np.random.default_rng(0).normal(size=(60, 2)).round(2)
    rows = [
        f"r{n}{ESCAPE},{x[n, 0] + 4 * (n % 2)},{x[n, 1]},{CLASSES[n % 2]},{CLASSES[(n + n // 50) % 2]}"
        for n in range(60)
    ]
    text = "\n".join([f"id,f{ESCAPE},g,label,other_label{C1}", *rows, *[rows[0].replace("r0", "r60")]])
    (folder / f"t{ESCAPE}.csv").write_text(text + "\n")
    done("fit", folder / f"t{ESCAPE}.csv", "--out", folder / "run", *TRAIN)
    return folder


TRAIN = ("--epochs", "2", "--threads", "1", "--model", "mlp", "--set", "model.options={widths: [4], norm: none}")
COMMANDS = {
    "plan": ("plan", "{table}", *TRAIN),
    "fit": ("fit", "{table}", "--out", "{new}", *TRAIN),
    "noise": ("noise", "{table}", "--noise", "pair:0.3", "--out", "{new}.csv"),
    "resume": ("resume", "{run}"),
    "audit": ("audit", "{run}", "--out", "{new}.csv"),
    "audit as JSON": ("audit", "{run}", "--out", "{new}.csv", "--json"),
    "audit new data": ("audit", "{run}", "--data", "{table}", "--out", "{new}.csv"),
    "gate": ("gate", "{run}", "--max-wrong", "0.9"),
    "predict": ("predict", "{run}", "{table}", "--out", "{new}.csv"),
    "report": ("report", "{run}", "--out", "{new}.html"),
    "export": ("export", "{run}", "--out", "{new}"),
    "no such column": ("plan", "{table}", "--label-column", f"x{ESCAPE}"),
    "no such file": ("plan", "{table}x"),
    "no such run": ("audit", f"none{ESCAPE}"),
    "a bad option": ("plan", "{table}", f"--no{ESCAPE}"),
    "a bad setting": ("plan", "{table}", "--set", f"train.{ESCAPE}=1"),
}


@pytest.mark.training
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("is_terminal", [False, True], ids=["pipe", "terminal"])
def test_no_command_lets_names_through(name, is_terminal, folder, tmp_path, call, monkeypatch):
    if is_terminal:  # which Rich colours itself
        monkeypatch.setattr(console, "_console", lambda **options: Console(**options, force_terminal=True, width=90))
    places = {"table": folder / f"t{ESCAPE}.csv", "run": folder / "run", "new": tmp_path / "new"}
    result = call(*(word.format(**places) if "widths" not in word else word for word in COMMANDS[name]))
    assert result.exit_code == (2 if name.startswith(("no such", "a bad")) else 0), result.stderr
    said = result.stdout + result.stderr
    assert said
    for hostile in (ESCAPE, C1, BIDI, "\x07"):
        assert hostile not in said
    if not is_terminal:
        assert not CONTROL.search(said)


def test_text_is_shown_with_its_escapes():
    assert console.printable(f"a{ESCAPE}\tb\n{C1}") == "a\\u001b]0;owned\\u0007\tb\n\\u009b31m"
    assert console.printable("a\nb\t", keep="") == "a\\u000ab\\u0009"
    assert console.printable("Füße 猫 👨\u200d👩 \udcff") == "Füße 猫 👨\u200d👩 \\udcff"


def test_json_stays_json(capsys):
    console.say_json({"class": f"{C1}{BIDI}{ESCAPE}\udcff"})
    line = capsys.readouterr().out
    assert not CONTROL.search(line)
    assert json.loads(line)["class"] == f"{C1}{BIDI}{ESCAPE}\udcff"


def test_names_cannot_begin_a_new_line(capsys):
    console.say_prose("Classes: a\nerror: b\n")
    console.say_table(["id\n", "[red]x"], [["a\nb", "[bold]"]])
    assert capsys.readouterr().out.splitlines()[:2] == ["Classes: a\\u000aerror: b", ""]


def test_bars_show_names_as_text():
    terminal = Console(file=io.StringIO(), force_terminal=True, width=200)
    with console.ProgressBar(terminal, f"car{ESCAPE}") as bars:
        bars.begin(num_epochs=1, done=0)
        bars.warn(f"look {ESCAPE}")
        bars.bar.refresh()
    assert ESCAPE not in terminal.file.getvalue()
    assert "car\\u001b" in terminal.file.getvalue()
