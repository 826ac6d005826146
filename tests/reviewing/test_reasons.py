"""Why a label was flagged, the table of classes, and contact sheets."""

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from surelabel.runs.run_dir import TRAJECTORY_FILE


def why(page, row):
    answer = page.http.get(f"/api/why/{row['split']}/{row['position']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestWhy:
    def test_the_course_of_training(self, client):
        page = client()
        row = page.rows()[0]
        course = why(page, row)["course"]
        tables = page.review.run_dir.tensors(TRAJECTORY_FILE)
        assert course["epochs"] == [1, 2, 3, 4, 5, 6]
        assert course["given"] == pytest.approx(tables["given"][row["position"]].tolist(), abs=1e-4)
        assert len(course["classes"]) == 3
        assert {line["name"] for line in course["classes"]} == set(page.review.suspects.class_names)
        assert sum(line["p"][-1] for line in course["classes"]) == pytest.approx(1, abs=5e-3)
        by_name = {line["name"]: line["p"] for line in course["classes"]}
        assert by_name[row["given"]] == pytest.approx(course["given"], abs=2e-3)

    def test_neighbours_are_the_nearest_rows_with_their_labels(self, client):
        page = client()
        row = page.rows()[0]
        rows = page.review.suspects.splits["train"]
        x = rows.x.double().flatten(1).numpy()
        x = (x - x.mean(0)) / x.std(0)
        distance = np.linalg.norm(x - x[row["position"]], axis=1)
        distance[row["position"]] = np.inf
        found = why(page, row)["neighbours"]
        assert [one["position"] for one in found] == np.argsort(distance)[:6].tolist()
        names = page.review.suspects.class_names
        assert [one["given"] for one in found] == [names[int(rows.label[one["position"]])] for one in found]

    def test_the_evidence_adds_up_to_the_verdict(self, client):
        page = client()
        for row in page.rows()[:10]:
            found = {one["name"]: one for one in why(page, row)["evidence"]}
            odds = sum(one["odds"] for one in found.values())
            assert 1 / (1 + np.exp(-odds)) == pytest.approx(row["p_wrong"], abs=1e-4)
            assert (found["second opinion"]["weight"], found["training"]["weight"]) == (1.0, 0.5)

    def test_held_out_rows_have_no_course_and_features_have_neighbours(self, client):
        page = client("features")
        row = next(row for row in page.rows(state="all") if row["split"] == "validation")
        found = why(page, row)
        assert found["course"] is None
        assert len(found["neighbours"]) == 6
        assert page.http.get("/api/why/validation/99").status_code == 400

    def test_runs_of_older_versions_have_less(self, copied, open_review):
        run = copied("images")
        (run.path / "checksums.json").unlink()
        for name in ("trajectory.safetensors", "neighbours.safetensors"):
            (run.path / name).unlink()
        samples = run.samples()
        old = {name: samples[name].combine_chunks() for name in samples.column_names if not name.endswith("_odds")}
        run.write_table("samples.parquet", old)
        assert open_review(run).why("train", 0) == {"course": None, "neighbours": [], "evidence": []}

    @pytest.mark.parametrize(
        "tables",
        [
            {"given": torch.zeros(60, 2)},
            {"epochs": torch.ones(2), "given": torch.zeros(59, 2)},
            {"epochs": torch.ones(2, 2), "given": torch.zeros(60, 2)},
            {
                "epochs": torch.ones(2),
                "given": torch.zeros(60, 2),
                "classes": torch.zeros(60, 2),
                "probability": torch.zeros(60, 2, 3),
            },
        ],
    )
    def test_tables_of_a_strange_run_are_not_shown(self, copied, open_review, tables):
        run = copied("images")
        run.write_tensors("trajectory.safetensors", tables)
        run.write_tensors("neighbours.safetensors", {"index": torch.full((60, 10), 60, dtype=torch.int32)})
        found = open_review(run).why("train", 0)
        assert (found["course"], found["neighbours"]) == (None, [])

    def test_numbers_of_a_strange_run_are_left_out(self, copied, open_review):
        run = copied("images")
        odd = torch.tensor([[torch.nan, torch.inf, -5.0, 0.5]] * 60)
        run.write_tensors("trajectory.safetensors", {"epochs": torch.arange(1, 5), "given": odd})
        assert open_review(run).why("train", 0)["course"]["given"] == [None, None, None, 0.5]


class TestClasses:
    def test_overview_counts_pairs_and_labels(self, client):
        page = client()
        found = page.http.get("/api/overview", params={"low": 0}).json()
        rows = page.rows(count=1000)
        for given, counts, size in zip(found["classes"], found["counts"], found["sizes"], strict=True):
            assert size == sum(row["given"] == given for row in rows)
            for suggested, count in zip(found["classes"], counts, strict=True):
                pair = [row for row in rows if (row["given"], row["suggested"]) == (given, suggested)]
                assert count == (0 if given == suggested else len(pair))
        assert found["num_left"] == 0

    def test_of_many_classes_those_with_most_suspects_are_shown(self, client, monkeypatch):
        monkeypatch.setattr("surelabel.reviewing.suspects.MOST_IN_OVERVIEW", 2)
        found = client().http.get("/api/overview", params={"low": 0}).json()
        assert len(found["classes"]) == 2
        assert found["num_left"] == 1

    @pytest.mark.parametrize("by", ["given", "suggested"])
    def test_sorted_by_class_the_most_suspicious_first(self, client, by):
        page = client()
        rows = page.rows(sort=by, count=1000)
        names = list(page.review.suspects.class_names)
        keys = [(names.index(row[by]), -row["p_wrong"]) for row in rows]
        assert keys == sorted(keys)
        assert [row["id"] for row in page.rows(sort=by, after=5, count=5)] == [row["id"] for row in rows[5:10]]


@pytest.mark.training
class TestPage:
    def test_the_reasons_are_shown(self, read_only_server, opened):
        page = opened(read_only_server.address)
        expect(page.locator("#why .source")).to_have_count(2)
        expect(page.locator("#why svg path.given")).to_have_count(1)
        expect(page.locator("#why .neighbours li")).to_have_count(6)
        expect(page.locator("#why .neighbours img").first).to_have_js_property("naturalWidth", 8)
        first = page.locator("#why").inner_text()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#why .neighbours li")).to_have_count(6)
        expect(page.locator("#why")).not_to_have_text(first)

    def test_pairs_and_contact_sheets_are_opened_from_the_table_of_classes(self, read_only_server, opened):
        page = opened(read_only_server.address)
        page.keyboard.press("o")
        count = page.locator("#overview-table td button").first
        size = int(count.text_content())
        count.click()
        expect(page.locator("#overview")).to_be_hidden()
        expect(page.locator("#filter-text")).to_contain_text("suggested")
        expect(page.locator("#where")).to_contain_text(f"1 of {size} ")
        page.click("#open-overview")
        heads = page.locator("#overview-table tbody th button")
        head = next(one for one in heads.all() if "zebra" in one.text_content())
        size = int(head.locator("small").text_content())
        head.click()
        expect(page.locator("#cards.sheet .card")).to_have_count(size)
        expect(page.locator("#filter-text")).to_contain_text("given zebra · from 0 % · all")
        page.click("#filter-reset")
        page.select_option("#filter-given", index=1)
        page.click("#filter-sheet")
        expect(page.locator("#filter-text")).to_contain_text("· all")
        page.select_option("#filter-sort", "suggested")
        expect(page.locator("#filter-text")).to_contain_text("by suggested class")

    def test_on_a_phone_nothing_is_too_wide(self, read_only_server, opened):
        page = opened(read_only_server.address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
        page.tap("#evidence-box summary")
        expect(page.locator("#why .neighbours li")).to_have_count(6)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.tap("#open-overview")
        expect(page.locator("#overview")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
