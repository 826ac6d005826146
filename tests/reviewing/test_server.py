"""The requests that the review page sends to the server."""

import io
import re
import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.reviewing.conftest import decision, plant_kinds

import surelabel.reviewing
from surelabel.errors import ConfigError, RunError
from surelabel.reviewing.review import PageFilter, ProgressFilter
from surelabel.reviewing.server import make_review, serve
from surelabel.runs.decisions import FILE_NAME, Journal, Wish
from surelabel.verdicts import audit

PAGE = Path(surelabel.reviewing.__file__).parent / "page"


def test_rows_come_by_rank_with_all_that_the_page_shows(client):
    page = client()
    rows = page.rows()
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    first, run = rows[0], page.http.get("/api/run").json()
    assert {first["given"], first["suggested"]} <= set(run["classes"])
    assert first["decision"] is None
    assert first["seen"] == 0
    assert "clean" not in first["evidence"]
    assert {"tau", "mean_margin", "first_learned", "forgotten", "prediction"} <= set(first["evidence"])
    assert sum(share for _, share in first["candidates"]) == pytest.approx(1, abs=1e-4)
    table = audit(page.review.run_dir)
    assert run["is_calibrated"] == table.is_calibrated
    assert first["p_wrong"] == pytest.approx(table[0]["p_wrong"])


def test_filters(client):
    page = client()
    rows = page.rows()
    given, suggested = rows[0]["given"], rows[0]["suggested"]
    pair = page.rows(given=given, suggested=suggested)
    assert pair
    assert {(row["given"], row["suggested"]) for row in pair} == {(given, suggested)}
    assert all(0.2 <= row["p_wrong"] <= 0.8 for row in page.rows(low=0.2, high=0.8))
    assert page.rows(after=5)[0]["rank"] == 6
    page.decide(decision(rows[0]), decision(rows[1], "skip"))
    assert [row["rank"] for row in page.rows()][:2] == [3, 4]
    assert [row["rank"] for row in page.rows(state="decided")] == [1]
    assert [row["rank"] for row in page.rows(state="skipped")] == [2]
    assert len(page.rows(state="all")) == len(rows)
    assert page.http.get("/api/rows", params={"low": 2}).status_code == 422
    assert page.http.get("/api/rows", params={"kind": "strange"}).status_code == 422


def test_kinds_are_counted_and_shown(copied, corpus_of):
    run = copied("images")
    copies = plant_kinds(run)
    review = make_review(run, corpus_of(run))
    found = review.rows(PageFilter(kind="duplicate", low=0))["rows"]
    assert sorted(row["id"] for row in found) == sorted(copies)
    one, other = found
    assert one["partner"] == {"id": other["id"], "given": other["given"]}
    assert one["given"] != other["given"]
    assert "duplicate" in one["kinds"]
    answer = review.rows(PageFilter(kind="outlier", low=0))
    assert answer["num_found"] == 3
    assert all(row["evidence"]["isolation"] == 9 and row["partner"] is None for row in answer["rows"])
    menus = review.progress(ProgressFilter())["menus"]["kinds"]
    assert menus == {**menus, "duplicate": 2, "outlier": 3, "ambiguous": 1}
    assert menus["wrong"] == len(review.rows(PageFilter(kind="wrong", low=0))["rows"])
    assert review.progress(ProgressFilter(kind="outlier", low=0))["inside"] == 3


def test_a_request_can_ask_for_more_rows(client):
    page = client()
    assert len(page.rows(count=5)) == 5
    assert len(page.rows(count=1000)) == len(page.review.suspects)
    assert page.http.get("/api/rows", params={"count": 1001}).status_code == 422


def test_counts_of_the_filters_follow_decisions(client):
    page = client()

    def menus(**wanted):
        return page.http.get("/api/progress", params={"low": 0, **wanted}).json()["menus"]

    before = menus()
    given, suggested, count = before["pairs"][0]
    row = page.rows(given=given, suggested=suggested)[0]
    page.decide(decision(row))
    now = menus()
    assert now["given"][given] == before["given"][given] - 1
    assert now["suggested"][suggested] == before["suggested"][suggested] - 1
    assert [given, suggested, count - 1] in now["pairs"] or count == 1
    assert menus(state="all") == before
    assert menus(state="decided")["pairs"] == [[given, suggested, 1]]


def test_progress_and_the_wrong_labels_left(client):
    page = client()
    wanted = {"low": 0.5}
    before = page.http.get("/api/progress", params=wanted).json()
    rows = page.rows(low=0.5)
    assert before["inside"] == len(rows)
    assert before["wrong_left"] == pytest.approx(float(page.review.suspects.p_wrong.sum()))
    page.decide(decision(rows[0]), decision(rows[1], "relabel", label=rows[1]["suggested"]), decision(rows[2], "skip"))
    after = page.http.get("/api/progress", params=wanted).json()
    assert (after["keep"], after["relabel"], after["skip"]) == (1, 1, 1)
    assert (after["inside_decided"], after["inside_skipped"]) == (2, 1)
    assert after["wrong_left"] == pytest.approx(before["wrong_left"] - rows[0]["p_wrong"] - rows[1]["p_wrong"])


def test_images_are_those_of_the_rows(client):
    page = client()
    for row in page.rows()[:5]:
        answer = page.http.get(f"/image/{row['split']}/{row['position']}")
        assert answer.headers["content-type"] == "image/png"
        rows = page.review.suspects.splits[row["split"]]
        assert str(rows.ids[row["position"]]) == row["id"]
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(answer.content))), rows.x[row["position"]][0].numpy())


def test_lengths_of_the_list_are_told_and_the_page_begins_with_those_worth_a_look(client):
    page = client("features")
    table = audit(page.review.run_dir)
    found = page.http.get("/api/progress").json()
    plans = [plan.to_dict() for plan in table.budgets()]
    assert [{name: one[name] for name in plans[0]} for one in found["lengths"]] == plans
    assert found["worth_a_look"] == table.worth_a_look.budget
    low = page.http.get("/api/run").json()["low"]
    assert len(page.rows(low=low, count=1000)) == table.worth_a_look.budget
    for one in found["lengths"]:
        assert len(page.rows(low=one["p_wrong"], count=1000)) == one["budget"]


def test_features_come_as_values_beside_their_classes(client):
    page = client("features")
    row = next(row for row in page.rows() if row["given"] != row["suggested"] and row["split"] == "train")
    values = page.http.get(f"/api/values/{row['split']}/{row['position']}").json()
    rows = page.review.suspects.splits["train"]
    assert {one["name"]: one["value"] for one in values} == pytest.approx(
        {f"x{n}": float(rows.x[row["position"], n]) for n in range(6)}
    )
    mean = rows.x[rows.label == page.review.suspects.class_names.index(row["given"])].mean(0)
    assert {one["name"]: one["given_mean"] for one in values} == pytest.approx(
        {f"x{n}": float(mean[n]) for n in range(6)}, abs=1e-5
    )
    assert [abs(one["pull"]) for one in values] == sorted((abs(one["pull"]) for one in values), reverse=True)
    assert row["preview"] == values[:4]
    assert page.http.get("/image/train/0").status_code == 400


def test_held_out_rows_are_found_by_their_own_position(client):
    page = client("features")
    samples = {row["id"]: row for row in page.review.run_dir.samples().to_pylist()}
    rows = [row for row in page.rows(state="all") if row["split"] == "validation"]
    assert rows
    for row in rows:
        held_out = page.review.suspects.splits["validation"]
        assert str(held_out.ids[row["position"]]) == row["id"]
        values = page.http.get(f"/api/values/validation/{row['position']}").json()
        assert {one["value"] for one in values} == {float(value) for value in held_out.x[row["position"]]}
        assert row["candidates"][0][1] == pytest.approx(max(samples[row["id"]]["probability"]))
    assert page.decide(decision(rows[0])).status_code == 200


def test_decisions_conflicts_and_undo(client):
    page = client()
    row = page.rows()[0]
    answer = page.decide(decision(row, "relabel", label=row["suggested"]))
    (now,) = answer.json()["rows"]
    assert now["decision"]["label"] == row["suggested"]
    assert now["decision"]["by"] == "tester"
    late = page.decide(decision(row))
    assert late.status_code == 409
    assert late.json()["rows"] == [now]
    (undone,) = page.decide(decision(now, "undo")).json()["rows"]
    assert undone["decision"] is None
    assert undone["seen"] == 2


def test_accepting_all_suspects_at_once_does_not_raise_the_estimate(client):
    page = client("features")
    before = audit(page.review.run_dir)
    rows = page.rows(low=0.5, count=1000)
    page.decide(*(decision(row, "relabel", label=row["suggested"]) for row in rows))
    after = audit(page.review.run_dir)
    assert len(rows) > 10
    assert after.noise_rate.num_wrong == pytest.approx(before.noise_rate.num_wrong)
    assert after.noise_rate.interval == pytest.approx(before.noise_rate.interval)


def test_removed_and_unsure_rows(client):
    page = client()
    rows = page.rows()
    page.decide_each(decision(rows[0], "remove"), decision(rows[1], "unsure"), decision(rows[2], "skip"))
    found = page.http.get("/api/progress", params={"low": 0}).json()
    assert (found["remove"], found["unsure"], found["skip"]) == (1, 1, 1)
    assert (found["inside_decided"], found["inside_skipped"]) == (1, 2)
    for state, row in zip(("removed", "unsure", "skipped"), rows, strict=False):
        assert [one["id"] for one in page.rows(state=state)] == [row["id"]]
    assert [row["id"] for row in page.rows()] == [row["id"] for row in rows[3:]]
    table = audit(page.review.run_dir)
    decided = dict(zip(table.columns["id"].tolist(), table.columns["decided"].tolist(), strict=True))
    assert decided[rows[0]["id"]] == "(removed)"
    assert decided[rows[1]["id"]] == decided[rows[2]["id"]] == ""
    assert table.summary()["review"] == {"decided": 1, "bulk": 0, "wrong": 1, "removed": 1, "random": None}
    assert page.post("/api/export", {}).json()["rows"] == 2
    written = (page.review.run_dir.path / "decisions.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[-3] for line in written] == ["action", "remove", "unsure"]


def test_choosing_the_given_class_is_keeping_it(client):
    page = client()
    row = page.rows()[0]
    page.decide(decision(row, "relabel", label=row["given"]))
    assert page.review.journal.decisions()[row["id"]].action == "keep"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "nobody"},
        {"action": "burn"},
        {"action": "relabel"},
        {"action": "relabel", "label": "unicorn"},
        {"seen": -1},
        {"by": "me"},
    ],
)
def test_bad_decisions_are_refused(client, change):
    page = client()
    assert page.decide({**decision(page.rows()[0]), **change}).status_code in (400, 422)
    assert not page.review.journal.decisions()


def test_a_full_disk_is_told(client, monkeypatch):
    page = client()
    row = page.rows()[0]

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page.review.journal, "_sync", full)
    answer = page.decide(decision(row))
    assert answer.status_code == 500
    assert "No space left" in answer.json()["error"]
    assert page.rows()[0]["decision"] is None


def test_export(client):
    page = client()
    rows = page.rows()
    page.decide(decision(rows[0]), decision(rows[1], "skip"))
    made = page.post("/api/export", {}).json()
    assert made["rows"] == 1
    assert (
        Path(made["file"]).read_text(encoding="utf-8").splitlines()[0] == "id,label,decided_at,action,by,disagreement"
    )


def test_names_reach_the_page_as_data_only(client):
    """Names that contain HTML are sent as JSON, and the page never parses text as HTML."""
    page = client()
    assert page.http.get("/api/rows").headers["content-type"] == "application/json"
    assert any("<img" in name for name in page.http.get("/api/run").json()["classes"])
    assert page.http.get("/").content == (PAGE / "index.html").read_bytes()
    for file in PAGE.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", file.read_text()), file


def test_the_page_names_no_other_site():
    for file in PAGE.iterdir():
        links = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", file.read_text(encoding="utf-8"))
        assert [link for link in links if "w3.org" not in link] == [], file
    assert not re.search(r"\sstyle=|<style|\son\w+=|<script>", (PAGE / "index.html").read_text(encoding="utf-8"))


def test_other_data_are_refused(copied, corpus_of):
    run, other = copied("images"), copied("features")
    with pytest.raises(RunError, match="the data have changed since this run was trained"):
        make_review(run, corpus_of(other))


def test_what_is_taken_back_leaves_the_csv(copied, corpus_of, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    run = copied("images")
    journal = Journal(run.path / FILE_NAME)
    id, given = str(corpus_of(run).train.ids[0]), "0"
    journal.append([Wish(id, given, "keep")])
    file = run.path / "decisions.csv"
    serve(run, corpus_of(run), ready=lambda _: None)
    assert len(file.read_text().splitlines()) == 2
    journal.append([Wish(id, given, "undo", seen=1)])
    serve(run, corpus_of(run), ready=lambda _: None)
    assert len(file.read_text().splitlines()) == 1, "the header"


def test_a_port_that_is_taken(copied, corpus_of):
    run = copied("images")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port {port}: .*; 0 chooses a free one"):
            serve(run, corpus_of(run), port, ready=lambda _: None)


def test_a_run_that_is_moved_away_meanwhile_is_an_error(copied, corpus_of, monkeypatch):
    run = copied("images")
    corpus, away = corpus_of(run), run.path.with_name("away")
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: run.path.rename(away))
    with pytest.raises(RunError, match=f"{run.path}: was moved or deleted during the review"):
        serve(run, corpus, ready=lambda _: None)
