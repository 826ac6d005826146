"""The outcome of a gate as files that CI systems show: JUnit XML and Markdown."""

import re
from xml.etree import ElementTree

from surelabel.verdicts.gate import FAILED, PASSED, UNKNOWN, Check, Gate, percent, points
from surelabel.verdicts.markdown import escape, table

SUITE = "surelabel gate"
HEADER = ("check", "labels", "wrong", "interval", "allowed", "outcome")
MOST_ROWS = 30
"""Checks in the Markdown table; JUnit has all of them."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
TAGS = {FAILED: "failure", UNKNOWN: "error"}
"""JUnit's name for a check that failed, and for one that could not be made."""


def to_junit(gate: Gate, run: str) -> str:
    """Return JUnit XML with a test case per check; unknown checks are errors."""
    outcomes = [check.outcome for check in gate.checks]
    counts = {"tests": len(outcomes), "failures": outcomes.count(FAILED), "errors": outcomes.count(UNKNOWN)}
    numbers = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", {"name": SUITE, **numbers})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _xml_text(run), **numbers, "skipped": "0", "time": "0"})
    for check in gate.checks:
        about = {"classname": SUITE, "name": _xml_text(check.name), "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", about)
        if check.outcome != PASSED:
            message = {"message": _xml_text(check.text), "type": check.outcome}
            ElementTree.SubElement(case, TAGS[check.outcome], message).text = _xml_text(check.text)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _xml_text(text: str) -> str:
    """Replace characters that no XML document may contain."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def to_markdown(gate: Gate, run: str) -> str:
    """Return a summary with a table of the checks, those that did not pass first."""
    order = {FAILED: 0, UNKNOWN: 1, PASSED: 2}
    checks = sorted(gate.checks, key=lambda check: order[check.outcome])
    lines = [f"### Labels of {escape(run)}: {gate.outcome}", "", f"{escape(gate.line)}.", ""]
    lines += table(HEADER, map(_cells, checks[:MOST_ROWS]))
    if len(checks) > MOST_ROWS:
        lines += ["", f"{len(checks) - MOST_ROWS:,} more checks are not shown."]
    lines += ["", *(f"- Warning: {escape(text)}" for text in gate.warnings)]
    return "\n".join(lines).rstrip() + "\n"


def _cells(check: Check) -> list[str]:
    low, high = check.rate.interval or (0.0, 1.0)
    figures = percent(check.rate.rate or 0.0), f"{points(low)} to {percent(high)}", check.allowed
    return [check.name, f"{check.rate.num_labels:,}", *figures, check.outcome]
