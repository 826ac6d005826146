"""A review as it goes on: long, damaged and replaced journals, random samples, live estimates."""

import time
import warnings

import numpy as np
import pytest
from tests.reviewing.conftest import decision

from surelabel.errors import RunError
from surelabel.runs.decisions import Journal, Wish
from surelabel.runs.entries import decode


class TestLongJournal:
    def test_requests_look_only_at_what_is_new(self, client, monkeypatch):
        page = client()
        journal = page.review.journal
        journal.append([Wish(f"elsewhere {number}", "0", "keep") for number in range(2000)])
        addresses = ("/api/rows?low=0", "/api/progress", "/api/run")
        [page.http.get(address) for address in addresses]
        page.review.live.refresh()
        decoded, changed = [], []

        def decode_and_count(line):
            decoded.extend([line] if line else [])
            return decode(line)

        def change_and_count(self, since=None):
            found = changes(self, since)
            if self is journal:  # audits of earlier tests may still run
                changed.append(len(found.book))
            return found

        changes = Journal.changes
        monkeypatch.setattr("surelabel.runs.decisions.decode", decode_and_count)
        monkeypatch.setattr(Journal, "changes", change_and_count)
        row = page.rows()[0]
        (now,) = page.decide(decision(row)).json()["rows"]
        assert page.decide(decision(now, "undo")).status_code == 200
        assert [page.http.get(address).status_code for address in addresses] == [200] * 3
        page.review.live.refresh()
        assert len(decoded) == 2, "each line is read once"
        assert changed
        assert max(changed) <= 1, "the same row was decided and undone"

    def test_undo_of_the_last_decisions_after_a_reload(self, client):
        page = client()
        rows = page.rows()[:3]
        for row in rows:
            page.decide(decision(row))
        page.decide(decision({**rows[1], "seen": 2}, "relabel", label=rows[1]["suggested"]))
        page.decide(decision({**rows[1], "seen": 4}, "undo"))
        recent = page.http.get("/api/run").json()["recent"]
        wanted = [{"id": row["id"], "seen": seen, "queue": None} for row, seen in zip(rows, (1, 5, 3), strict=True)]
        assert recent == [[one] for one in wanted]

    def test_decisions_made_at_once_are_undone_at_once_after_a_reload(self, client, monkeypatch):
        monkeypatch.setattr("surelabel.reviewing.review.NUM_RECENT", 10)
        page = client()
        rows = page.rows()
        page.decide(decision(rows[0]))
        page.decide(*(decision(row) for row in rows[1:31]))
        page.decide(*(decision(row) for row in rows[31:33]))
        first, second = page.http.get("/api/run").json()["recent"]
        assert [one["id"] for one in first] == [row["id"] for row in rows[1:31]]
        assert [one["id"] for one in second] == [row["id"] for row in rows[31:33]]

    def test_decisions_of_a_journal_that_was_replaced_do_not_count(self, client):
        page = client()
        page.decide(*(decision(row) for row in page.rows()[:5]))
        assert page.http.get("/api/progress").json()["keep"] == 5
        page.review.journal.path.unlink()
        assert page.http.get("/api/progress").json()["keep"] == 0
        page.decide(decision(page.rows()[0]))
        page.review.live.refresh()
        assert "After 1 decision:" in page.http.get("/api/progress").json()["estimate"]


class TestDamage:
    def test_the_page_warns_and_leaves_the_csv_alone(self, client, open_review):
        page = client()
        page.decide(*(decision(row) for row in page.rows()[:3]))
        assert page.post("/api/export", {}).status_code == 200
        path = page.review.journal.path
        csv_file, content = path.with_name("decisions.csv"), path.read_bytes()
        before = csv_file.read_bytes()
        path.write_bytes(content.replace(b"keep", b"kelp", 1))
        page.review = open_review(page.review.run_dir)
        assert any("line 1 cannot be read" in text for text in page.review.live.warnings)
        with pytest.raises(RunError, match=r"line 1 cannot be read.*surelabel export .* --force"):
            page.review.export()
        assert csv_file.read_bytes() == before


class TestRandomSample:
    def test_rows_come_in_the_order_of_the_draw_and_decisions_are_marked(self, client):
        page = client()
        assert page.rows(queue="random") == []
        assert page.post("/api/sample", {"count": 20}).json() == {"rows": 20}
        rows = page.rows(queue="random")
        assert [row["rank"] for row in rows] == list(range(1, 21))
        page.decide_each(decision(rows[0]), decision(rows[1], "skip"), queue="random")
        assert [row["id"] for row in page.rows(queue="random")] == [row["id"] for row in rows[2:]]
        held = page.review.journal.decisions()
        assert {one.queue for one in held.values()} == {"random"}
        other = next(row for row in page.rows() if row["id"] not in {one["id"] for one in rows})
        refused = page.post("/api/decisions", {"decisions": [decision(other)], "queue": "random"})
        assert refused.status_code == 400
        assert "not in the random sample" in refused.json()["error"]

    def test_a_row_skipped_elsewhere_is_still_asked_for(self, client):
        page = client()
        page.post("/api/sample", {"count": 5})
        first = page.rows(queue="random")[0]
        page.decide(decision(first, "skip"))
        assert first["id"] in {row["id"] for row in page.rows(queue="random")}

    @pytest.mark.parametrize("count", [0, -1, "many"])
    def test_odd_sizes_are_refused(self, client, count):
        assert client().post("/api/sample", {"count": count}).status_code == 422


class TestLiveEstimate:
    def test_numbers_change_and_orders_in_use_stay(self, client):
        page = client()
        rows = page.rows()
        page.decide_each(*(decision(row) for row in rows[:8]))
        page.review.live.refresh()
        wanted = {"low": 0, "order": 0, "numbers": ",".join(str(row["number"]) for row in rows[8:20])}
        found = page.http.get("/api/progress", params=wanted).json()
        assert "After 8 decisions" in found["estimate"]
        assert found["moved"] > 0
        assert found["order"] > 0
        now = [found["p_wrong"][str(row["number"])] for row in rows[8:20]]
        assert now != [row["p_wrong"] for row in rows[8:20]]
        assert [row["id"] for row in page.rows(order=0)] == [row["id"] for row in rows[8:]]
        newest = page.rows(order=found["order"])
        assert [row["p_wrong"] for row in newest] == sorted((row["p_wrong"] for row in newest), reverse=True)
        assert page.http.get("/api/progress", params={**wanted, "order": found["order"]}).json()["moved"] == 0

    def test_an_update_in_the_background_leaves_the_filters_of_warnings_alone(self, client, monkeypatch):
        page = client()
        page.decide_each(*(decision(row) for row in page.rows()[:8]))
        # They belong to the whole process: another thread may be using them.
        monkeypatch.setattr(warnings, "catch_warnings", None)
        page.review.live.refresh()
        assert "After 8 decisions" in page.review.live.estimate

    def test_a_new_server_begins_with_the_newest_order(self, client, open_review):
        page = client()
        page.decide_each(*(decision(row) for row in page.rows()[:8]))
        again = open_review(page.review.run_dir)
        page.review.live.refresh()
        there, here = (one.suspects.p_wrong[one.suspects.row_at] for one in (again, page.review))
        assert np.allclose(there, here)
        assert again.live.estimate == page.review.live.estimate

    def test_opening_the_page_audits_again_only_if_somebody_else_decided(self, client):
        page = client()
        page.http.get("/api/run")
        assert not page.review.live.is_pending, "with a million labels that would slow down the first rows"
        Journal(page.review.journal.path, "other").append([Wish(page.rows()[0]["id"], "0", "skip")])
        page.http.get("/api/run")
        assert page.review.live.is_pending

    def test_many_decisions_are_audited_in_the_background(self, client):
        page = client()
        for row in page.rows()[:5]:
            page.decide(decision(row))
        for _ in range(200):
            found = page.http.get("/api/progress").json()
            if not found["is_pending"]:
                break
            time.sleep(0.05)
        assert "After 5 decisions" in found["estimate"]

    @pytest.mark.parametrize("numbers", ["a", "1,", "-1", "1;2"])
    def test_odd_numbers_are_refused(self, client, numbers):
        assert client().http.get("/api/progress", params={"numbers": numbers}).status_code == 422
