"""`surelabel gate` as CI calls it: exit code, one line, JUnit XML and Markdown."""

import json
from xml.etree import ElementTree

import pytest

from surelabel.reporting.gate_files import to_junit, to_markdown
from surelabel.verdicts import Rate
from surelabel.verdicts.gate import FAILED, Check, Gate

HOSTILE = "a|b\x00<script>&`*\n\ud800"


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("digits", ["--max-wrong", "0.27"], 0),
        ("digits", ["--max-wrong", "0.22"], 3),
        ("digits", ["--max-wrong", "0.22", "--accept-estimate"], 0),
        ("digits", ["--max-wrong", "0.02"], 1),
        ("digits", ["--max-wrong", "0.27", "--class-max", "0.05"], 1),
        ("photos", ["--max-wrong", "0.9"], 3),
        ("digits", [], 2),
        ("digits", ["--max-wrong", "2"], 2),
    ],
)
def test_exit_code_and_one_line(stored, call, name, options, code):
    result = call("gate", stored(name), *options)
    assert result.exit_code == code, result.stderr
    lines = (result.stderr if code == 2 else result.stdout).splitlines()
    word = {0: "gate passed: ", 1: "gate failed: ", 2: "error: ", 3: "gate unknown: "}[code]
    assert len(lines) == 1
    assert lines[0].startswith(word)


def test_against_a_baseline(stored, call):
    digits, others = stored("digits"), stored("imbalanced")
    assert call("gate", digits, "--against", digits).exit_code == 0
    refused = call("gate", digits, "--against", others)
    assert refused.exit_code == 2
    assert "different classes" in refused.stderr


def test_decisions_of_people_count(stored, call):
    from surelabel.runs.decisions import FILE_NAME, Journal, Wish
    from surelabel.verdicts import audit

    run = stored("digits")
    before = audit(run)
    limit = before.noise_rate.interval[1]
    assert call("gate", run, "--max-wrong", limit).exit_code == 0
    rows = list(before.head(len(before)))[: len(before) // 2]
    journal = Journal(run / FILE_NAME)
    for row in rows:
        journal.append([Wish(row["id"], row["given"], "remove")])
    assert call("gate", run, "--max-wrong", limit).exit_code == 1


def test_files(stored, call, tmp_path):
    run, xml, page = stored("digits"), tmp_path / "gate.xml", tmp_path / "gate.md"
    limits = ("--max-wrong", 0.25, "--class-max", 0.24, "--accept-estimate")
    result = call("gate", run, *limits, "--junit", xml, "--markdown", page, "--json")
    content = json.loads(result.stdout)
    suite = ElementTree.parse(xml).getroot().find("testsuite")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == [check["name"] for check in content["checks"] if check["outcome"] == "failed"] == ["class '8'"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("11", "1", "0")
    text = page.read_text()
    assert text.startswith("### Labels of digits: failed\n")
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 1 + 11


def test_an_unknown_outcome_is_an_error_in_junit(stored, call, tmp_path):
    xml = tmp_path / "gate.xml"
    call("gate", stored("photos"), "--max-wrong", 0.9, "--junit", xml)
    assert "cannot tell" in ElementTree.parse(xml).getroot().find("testsuite/testcase/error").get("message")


def test_inputs_and_folders_are_not_overwritten(stored, call):
    run = stored("digits")
    before = (run / "samples.parquet").read_bytes()
    for option, file in (("--junit", run / "samples.parquet"), ("--markdown", run), ("--junit", run / "no" / "x.xml")):
        result = call("gate", run, "--max-wrong", 0.5, option, file)
        assert result.exit_code == 2
        assert option in result.stderr
    assert (run / "samples.parquet").read_bytes() == before


def test_hostile_class_names_stay_text():
    check = Check(f"class {HOSTILE}", FAILED, HOSTILE, HOSTILE, Rate(10, 5, 1, 9), 0.1, 0.4)
    gate = Gate((check,), (HOSTILE,))
    root = ElementTree.fromstring(to_junit(gate, HOSTILE).encode())
    assert "<script>" in root.find("testsuite/testcase").get("name")
    page = to_markdown(gate, HOSTILE)
    row = next(line for line in page.splitlines() if line.startswith("| class"))
    assert row.replace("\\|", "").count("|") == 7
    assert "<script>" not in page.replace("\\<", "")
