"""Several annotators: on the server, in a browser, and in exports."""

import csv
import json

import pytest
from playwright.sync_api import expect
from tests.reviewing.browsing import ThreadServer, press
from tests.reviewing.conftest import Client, decision
from typer.testing import CliRunner

from surelabel.cli import app
from surelabel.errors import ConfigError
from surelabel.reviewing.server import make_review, serve
from surelabel.runs.decisions import Journal, Wish


@pytest.fixture
def reviewed_by(corpus_of):
    """Return a function that makes what opens a run for an annotator: `reviewed_by("ann")`."""

    def make(name: str):
        return lambda run: make_review(run, corpus_of(run), name, is_independent=True)

    return make


def test_annotators_see_each_other_only_after_their_own_decision(copied, reviewed_by):
    run = copied("images")
    ann, bob = (Client(run, reviewed_by(name)) for name in ("ann", "bob"))
    first, second, third = ann.rows()[:3]
    ann.decide(decision(first), decision(second), decision(third, "unsure"))
    assert bob.rows()[0]["id"] == first["id"], "still open for bob"
    assert bob.rows()[0]["opinions"] == []
    assert [row["id"] for row in bob.rows(state="unsure")] == [third["id"]], "ann asks another"
    (now,) = bob.decide(decision(first, "relabel", label=first["suggested"])).json()["rows"]
    assert [(one["by"], one["action"]) for one in now["opinions"]] == [("ann", "keep"), ("bob", "relabel")]
    bob.decide(decision(second))
    found = bob.http.get("/api/progress").json()
    assert (found["keep"], found["relabel"]) == (1, 1)
    assert found["annotators"]["disputed"] == 1
    (pair,) = found["annotators"]["agreement"]
    assert (pair["one"], pair["other"], pair["num_rows"], pair["num_agreed"]) == ("ann", "bob", 2, 1)
    assert [row["id"] for row in ann.rows(state="disputed")] == [first["id"]]
    assert ann.post("/api/export", {}).json()["rows"] == 3
    with (run.path / "decisions.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert rows[first["id"]]["by"] == "bob"
    assert rows[first["id"]]["disagreement"] == f"ann: {first['given']}; bob: {first['suggested']}"


def test_what_others_decided_does_not_show_in_suggestions_order_or_probabilities(copied, reviewed_by):
    run = copied("images")
    ann = Client(run, reviewed_by("ann"))
    rows = ann.rows()
    ann.decide(*(decision(row, "keep" if place % 2 else "remove") for place, row in enumerate(rows[:30])))
    bob = Client(run, reviewed_by("bob"))
    shown = ("id", "rank", "suggested", "suggested_probability", "p_wrong", "kinds", "decision", "seen", "evidence")
    assert [{name: row[name] for name in shown} for row in bob.rows()] == [
        {name: row[name] for name in shown} for row in rows
    ]
    assert "After" not in bob.review.live.estimate


def test_exports_choose_a_rule(copied, tmp_path):
    run = copied("images")
    path, samples = run.path / "decisions.jsonl", run.samples().to_pylist()
    names = run.data()["class_names"]
    (one, given), (other, _) = ((row["id"], names[row["given"]]) for row in samples[:2])
    changed = next(name for name in names if name != given)
    for who, label in (("ann", given), ("bob", changed), ("eve", changed)):
        Journal(path, who, is_independent=True).append([Wish(one, given, "relabel", label)])
    Journal(path, "ann", is_independent=True).append([Wish(other, names[samples[1]["given"]], "keep")])

    def export(rule):
        result = CliRunner().invoke(app, ["export", str(run.path), "--annotators", rule, "--json"])
        assert result.exit_code == 0, result.output
        with (run.path / "export" / "cleaned.csv").open(newline="", encoding="utf-8") as file:
            return json.loads(result.stdout), {row["id"]: row for row in csv.DictReader(file)}

    counts, rows = export("majority")
    assert (rows[one]["label"], rows[one]["decided_by"]) == (changed, "person")
    assert counts["unsure"] == 0
    counts, rows = export("agree")
    assert (rows[one]["label"], rows[one]["decided_by"]) == (given, "nobody")
    assert rows[other]["decided_by"] == "person"
    assert counts["unsure"] == 1
    refused = CliRunner().invoke(app, ["export", str(run.path), "--annotators", "loudest"])
    assert refused.exit_code == 2
    assert "last, majority, agree" in refused.output


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101])
def test_odd_names_are_refused(copied, corpus_of, name):
    run = copied("images")
    with pytest.raises(ConfigError, match="--annotator"):
        serve(run, corpus_of(run), ready=lambda _: None, annotator=name)


@pytest.mark.training
def test_two_annotators_and_somebody_who_settles_it(copied, reviewed_by, open_review, opened):
    run = copied("images")
    servers = [ThreadServer(run, reviewed_by(name)) for name in ("<i>ann</i>", "bob")]
    servers.append(ThreadServer(run, open_review))
    try:
        ann, bob = (opened(one.address) for one in servers[:2])
        expect(ann.locator("#annotator")).to_have_text("as <i>ann</i>")
        shown = press(ann, "k")
        press(ann, "k")
        expect(bob.locator("#id")).to_have_text(shown)
        expect(bob.locator("#opinions")).to_be_hidden()
        press(bob, "a")
        press(bob, "k")
        expect(bob.locator("#annotators")).to_contain_text("<i>ann</i> and bob agree on 1 of 2 (Cohen's kappa")
        bob.click("#show-disputed")
        expect(bob.locator("#filter-text")).to_contain_text("disagreed on")
        expect(bob.locator("#id")).to_have_text(shown)
        expect(bob.locator("#opinions")).to_contain_text("by <i>ann</i>")
        chair = opened(servers[2].address, None)
        chair.click("#show-disputed")
        expect(chair.locator("#id")).to_have_text(shown)
        expect(chair.locator("#opinions li")).to_have_count(1)  # the other one is the decision that holds
        chair.keyboard.press("k")
        expect(chair.locator("#show-disputed")).to_be_hidden()
        assert Journal(run.path / "decisions.jsonl", rule="agree").decisions()[shown].by == "tester"
    finally:
        for one in servers:
            one.stop()
