"""The random check is blind: nothing that the model says of a row of it reaches the page."""

import json

import pytest
from playwright.sync_api import expect
from tests.reviewing.browsing import press
from tests.reviewing.conftest import decision, plant_kinds

from surelabel.runs.decisions import Journal, Wish

ALLOWED = {
    "is_blind",
    "rank",
    "id",
    "split",
    "position",
    "given",
    "seen",
    "decision",
    "snippet",
    "preview",
    "opinions",
}
"""What the page gets of a row of the sample."""


def drawn(page, count=20):
    """Draw a sample; return its rows."""
    assert page.post("/api/sample", {"count": count}).status_code == 200
    return page.rows(queue="random")


def answer(page, one):
    """Answer a row of the sample; return what the page gets of it."""
    found = page.post("/api/decisions", {"decisions": [one], "queue": "random"})
    assert found.status_code == 200, found.text
    return found.json()["rows"][0]


class TestServer:
    @pytest.mark.parametrize("name", ["images", "features"])
    def test_rows_of_the_sample_come_without_the_model(self, client, name):
        page = client(name)
        rows = drawn(page)
        assert {frozenset(row) for row in rows} == {frozenset(ALLOWED)}
        now = answer(page, decision(rows[0]))
        undone = answer(page, decision(now, "undo"))
        assert set(now) == set(undone) == ALLOWED
        assert now["rank"] == undone["rank"] == 1, "the place in the sample, not among the suspects"
        assert now["decision"]["action"] == "keep"
        assert undone["decision"] is None
        late = page.post("/api/decisions", {"decisions": [decision(rows[0])], "queue": "random"})
        assert late.status_code == 409
        assert set(late.json()["rows"][0]) == ALLOWED

    def test_features_are_in_the_order_of_the_data(self, client):
        page = client("features")
        row = drawn(page)[0]
        values = page.http.get(f"/api/values/{row['split']}/{row['position']}", params={"queue": "random"}).json()
        assert [set(one) for one in values] == [{"name", "value", "given_mean"}] * 6
        assert [one["name"] for one in values] == [f"x{number}" for number in range(6)]
        assert row["preview"] == values[:4]

    def test_counts_and_reasons_are_not_told(self, client):
        page = client()
        row = drawn(page)[0]
        found = page.http.get("/api/progress", params={"queue": "random", "numbers": "0,1,2"}).json()
        assert (found["p_wrong"], found["menus"], found["wrong_left"], found["lengths"]) == ({}, None, None, [])
        assert found["inside"] == 20
        for address in ("/api/overview", f"/api/why/{row['split']}/{row['position']}"):
            refused = page.http.get(address, params={"queue": "random"})
            assert refused.status_code == 400
            assert "random sample" in refused.json()["error"]

    def test_kinds_and_copies_are_not_told(self, copied, corpus_of):
        from surelabel.reviewing.review import PageFilter, SampleRequest
        from surelabel.reviewing.server import make_review

        run = copied("images")
        plant_kinds(run)
        review = make_review(run, corpus_of(run))
        review.draw(SampleRequest(count=60))
        rows = review.rows(PageFilter(queue="random"))["rows"]
        assert len(rows) == 60
        assert {frozenset(row) for row in rows} == {frozenset(ALLOWED)}

    def test_a_row_that_was_accepted_in_bulk_is_asked_without_saying_so(self, client):
        page = client()
        rows = drawn(page, 60)
        suspects = page.rows(low=0)[:5]
        page.decide(*(decision(row, "relabel", label=row["suggested"]) for row in suspects))
        shown = {row["id"]: row for row in page.rows(queue="random")}
        assert set(shown) == {row["id"] for row in rows}, "all of them still have to be looked at"
        assert {row["decision"] for row in shown.values()} == {None}
        answer(page, decision(shown[suspects[0]["id"]]))
        assert len(page.rows(queue="random")) == 59

    def test_labels_of_the_sample_are_decided_one_by_one(self, client):
        page = client()
        rows = drawn(page)
        body = {"decisions": [decision(row) for row in rows[:2]], "queue": "random"}
        refused = page.post("/api/decisions", body)
        assert refused.status_code == 400
        assert "one by one" in refused.json()["error"]
        assert not page.review.journal.decisions()

    def test_an_answer_is_undone_only_where_the_check_is_blind(self, client):
        page = client()
        now = answer(page, decision(drawn(page)[0]))
        refused = page.decide(decision(now, "undo"))
        assert refused.status_code == 400
        assert "random sample" in refused.json()["error"]
        assert page.review.journal.decisions()[now["id"]].action == "keep"

    def test_what_others_decided_is_told_afterwards(self, client):
        page = client()
        rows = drawn(page, 60)
        ann = Journal(page.review.journal.path, "ann", is_independent=True)
        ann.append([Wish(rows[0]["id"], rows[0]["given"], "unsure")])
        (row,) = [row for row in page.rows(queue="random") if row["id"] == rows[0]["id"]]
        assert row["opinions"] == []
        assert [one["by"] for one in answer(page, decision(row))["opinions"]] == ["ann"]


HIDDEN = ("#suggested", ".wrong", "#kinds", "#evidence-box", '[data-action="accept"]', "#open-overview", "#lengths")


@pytest.mark.training
@pytest.mark.parametrize("name", ["images", "features"])
def test_the_page_shows_and_gets_nothing_of_the_model_for_random_labels(server, opened, name):
    service = server(name)
    page = opened(service.address)
    expect(page.locator("#p-wrong")).not_to_be_empty()
    answers = []
    page.on("response", lambda one: answers.append(one) if "/api/" in one.url else None)
    page.click("#random")
    expect(page.locator("#filter-text")).to_contain_text("drawn at random")
    expect(page.locator("#where")).to_have_text("1 of 75" if name == "features" else "1 of 60")
    for one in HIDDEN:
        expect(page.locator(one)).to_be_hidden()
    expect(page.locator("#given")).to_be_visible()
    assert page.locator("#suggested").text_content() == page.locator("#p-wrong").text_content() == ""
    assert page.locator("#classes .given, #classes .suggested, mark, .values .suggested").count() == 0
    shown = page.locator("#id").text_content()
    for key in ("a", "o", "Control+a"):
        page.keyboard.press(key)
    expect(page.locator("#id")).to_have_text(shown)
    expect(page.locator("#overview")).to_be_hidden()
    assert [line["action"] for line in service.lines()] == ["draw"]
    first = press(page, "k")
    page.keyboard.press("u")
    expect(page.locator("#id")).to_have_text(first)
    expect(page.locator(".wrong")).to_be_hidden()
    press(page, "r")
    page.keyboard.press("g")
    expect(page.locator("#cards .card").first).to_be_visible()
    page.keyboard.press("Control+a")
    page.keyboard.press("x")
    expect(page.locator('.card[aria-selected="true"]')).to_have_count(0)
    assert not any("suggested" in card.get_attribute("aria-label") for card in page.locator(".card").all())
    page.wait_for_load_state("networkidle")
    told = json.dumps([one.json() for one in answers if "/api/run" not in one.url])
    assert answers
    for word in ("suggested", "candidates", "evidence", "kinds", "partner", "odds", "pull", "neighbours"):
        assert f'"{word}' not in told, word
    assert all(one.json()["p_wrong"] == {} for one in answers if "/api/progress" in one.url)
    page.keyboard.press("g")
    page.click("#random")
    expect(page.locator("#filter-text")).to_contain_text("from ")
    page.keyboard.press("u")
    expect(page.locator(".toast").last).to_contain_text("random labels")
    assert [line["action"] for line in service.lines()] == ["draw", "keep", "undo", "remove"]
