"""What --help and `surelabel settings` tell a person who knows nothing yet."""

import io
import json
import os
import subprocess
import sys
from collections import Counter
from typing import get_args

import pytest
from pydantic import BaseModel
from rich.console import Console
from typer.testing import CliRunner

from surelabel import console
from surelabel.cli import app
from surelabel.cli.options import COMMANDS
from surelabel.config import RunConfig
from surelabel.methods import names
from surelabel.models import BACKBONES
from surelabel.overrides import set_field
from surelabel.paper.figures import FIGURES
from surelabel.paper.tables import PRESETS, SCALES
from surelabel.training.tracking import TRACKERS

DEFAULTS = {
    "--epochs": "200",
    "--batch-size": "64",
    "--rate": "0.05",
    "--seed": "0",
    "--method": "car",
    "--model": "auto",
    "--device": "auto",
    "--devices": "1",
    "--precision": "32-true",
    "--cache": "on",
    "--unreadable": "refuse",
    "--folds": "0",
}


def call(*arguments, columns=80):
    # The runner of Typer ignores COLUMNS for help; `surelabel settings` reads it.
    runner = CliRunner(env={"COLUMNS": str(columns)})
    return runner.invoke(app, arguments, prog_name="surelabel", terminal_width=columns)


def help_of(command, columns=80, option="--help"):
    result = call(*([command] if command else []), option, columns=columns)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def entries(text):
    """Return the help of each option and argument, by its first word; lines are joined."""
    found, name = {}, None
    for line in text.splitlines():
        word = line.split()[0] if line.strip() else ""
        if line.startswith("  ") and line[2:3] not in (" ", ""):
            name = word.rstrip(",")
            found[name] = line[2 + len(word) :].strip()
        elif name is not None and word:
            found[name] += f" {line.strip()}"
    return found


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_h_is_help(command):
    assert help_of(command, option="-h") == help_of(command)
    assert "-h, --help" in help_of(command)


def test_the_list_of_commands_has_whole_sentences():
    text = help_of("", columns=60)
    assert "..." not in text.partition("Commands:")[2]
    found = entries(text.partition("Commands:")[2])
    assert list(found) == list(COMMANDS)
    assert all(sentence.endswith(".") for sentence in found.values())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_sixty_columns_hide_nothing(command):
    narrow, wide = help_of(command, columns=60), help_of(command, columns=200)
    assert max(map(len, narrow.splitlines())) <= 60
    # A word with a hyphen may continue on the next line.
    assert "".join(narrow.split()) == "".join(wide.split())
    assert "…" not in narrow


def test_the_width_is_that_of_the_terminal():
    command = [sys.executable, "-m", "surelabel", "fit", "--help"]
    environment = {**os.environ, "COLUMNS": "60"}
    text = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert 50 < max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize("command", ["fit", "plan", "tune"])
def test_defaults(command):
    found = entries(help_of(command))
    for option, default in DEFAULTS.items():
        assert found[option].endswith(f"Default: {default}"), option


def test_the_defaults_shown_are_those_of_the_configuration():
    config = RunConfig(data={"source": "digits"})
    shown = {"--epochs": config.train.epochs, "--batch-size": config.train.batch_size, "--rate": config.optimiser.rate}
    assert {option: DEFAULTS[option] for option in shown} == {option: str(value) for option, value in shown.items()}


@pytest.mark.parametrize(
    ("command", "option", "choices"),
    [
        ("fit", "--method", names()),
        ("fit", "--model", ["auto", *BACKBONES, "timm:NAME"]),
        ("fit", "--device", ["auto", "cpu", "cuda", "mps"]),
        ("fit", "--precision", ["32-true", "bf16-mixed", "16-mixed"]),
        ("fit", "--unreadable", ["refuse", "skip"]),
        ("fit", "--cache", ["on", "off"]),
        ("fit", "--log", TRACKERS),
        (
            "fit",
            "--noise",
            ["symmetric", "asymmetric", "superclass", "block", "pair", "instance", "file:PATH"],
        ),
        ("resume", "--device", ["auto", "cpu", "cuda", "mps"]),
        ("reproduce", "NAME", PRESETS),
        ("reproduce", "--scale", SCALES),
        ("reproduce", "--protocol", ["car", "original"]),
        ("reproduce", "--car", ["paper", "code"]),
        ("figures", "NUMBER|NAME|all", [f"{figure.number} ({figure.name})" for figure in FIGURES]),
        ("export", "--accept", ["safe", "all"]),
        ("export", "--images", ["link", "copy"]),
        ("settings", "PART", RunConfig.model_fields),
    ],
)
def test_choices(command, option, choices):
    text = entries(help_of(command, columns=1000))[option]
    assert [choice for choice in choices if choice not in text] == []


def test_noise_has_only_options_that_act():
    found = entries(help_of("noise"))
    for option in ("--method", "--model", "--epochs", "--rate", "--folds", "--device", "--warm-start", "--test"):
        assert option not in found
    for option in ("--root", "--labels", "--trusted", "--label-column", "--noise", "--seed", "--config", "--set"):
        assert option in found
    assert "No such option: --epochs" in call("noise", "digits", "--epochs", "3", "--out", "a.npy").stderr


def list_fields(model, prefix=""):
    """Yield the dotted name of every field that has a value of its own."""
    for name, field in model.model_fields.items():
        found = (field.annotation, *get_args(field.annotation))
        inner = [one for one in found if isinstance(one, type) and issubclass(one, BaseModel)]
        for one in inner:
            yield from list_fields(one, f"{prefix}{name}.")
        if not inner:
            yield f"{prefix}{name}"


class TestSettings:
    def test_every_field_with_type_default_and_meaning(self):
        rows = json.loads(call("settings", "--json").stdout)
        assert set(list_fields(RunConfig)) - {row["name"] for row in rows} == set()
        for row in rows:
            assert row["meaning"].endswith("."), row
            assert row["type"], row
            assert row["is_required"] or "default" in row

    def test_defaults_can_be_set(self):
        """What the list says of a field is what --set takes."""
        for row in json.loads(call("settings", "--json").stdout):
            content = {"data": {"source": "digits"}}
            part, *_ = row["name"].split(".")
            if part == "noise":
                content["noise"] = {"kind": "pair"}
            if row["meaning"].startswith("With kind "):
                content["optimiser"] = {"schedule": {"kind": row["meaning"].split()[2].rstrip(":")}}
            if row["name"] == "data.epoch.balanced":
                content["data"]["epoch"] = {"batches": 3}
            if not row["is_required"]:
                set_field(content, row["name"], row["default"])
                RunConfig.model_validate(content)

    def test_text_and_one_part(self):
        text = call("settings", "train").stdout
        assert "train.epochs: integer >= 1; default 200\n    Number of epochs of the whole run.\n" in text
        assert "optimiser." not in text
        assert "optimiser.schedule.period" in call("settings").stdout
        assert max(map(len, call("settings", columns=60).stdout.splitlines())) <= 60

    def test_an_unknown_part(self):
        result = call("settings", "speed")
        assert result.exit_code == 2
        assert "'speed'" in result.stderr
        assert "optimiser" in result.stderr


@pytest.mark.parametrize("command", [["methods"], ["methods", "car"]])
def test_tables_on_a_narrow_terminal_hide_nothing(command, monkeypatch):
    seen = {}
    for width in (60, 300):
        page = io.StringIO()
        terminal = Console(file=page, force_terminal=True, width=width, highlight=False, color_system=None)
        monkeypatch.setattr(console, "_console", lambda terminal=terminal, **_: terminal)
        call(*command)
        seen[width] = page.getvalue()
    assert "…" not in seen[60]
    assert max(map(len, seen[60].splitlines())) <= 60
    narrow, wide = (Counter("".join(text.split())) for text in (seen[60], seen[300]))
    assert wide - narrow == Counter()  # wrapping moves letters and loses none
