"""Texts and columns of rows, as the page gets them."""

import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect
from tests.conftest import FAST_TEXT, make_texts, write_csv
from tests.reviewing.browsing import ThreadServer
from tests.reviewing.conftest import Client

from surelabel import api
from surelabel.config import DataConfig
from surelabel.data.sources.tables.row_cells import read_row_cells
from surelabel.reviewing.server import make_review
from surelabel.runs.run_dir import RunDir


def open_run(run):
    return make_review(run, api.reopen_data(run), by="tester")


def open_page(path):
    return Client(RunDir(path), open_run)


@pytest.fixture(scope="module")
def page(text_run):
    return open_page(text_run / "run")


def content_of(page, row):
    answer = page.http.get(f"/api/content/{row['split']}/{row['position']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_text_comes_whole_and_in_pieces_with_the_words_of_both_classes(page):
    texts = make_texts(120)[0]
    row = page.rows()[0]
    content = content_of(page, row)
    assert content["text"] == texts[int(row["id"].removeprefix("r"))]
    assert "".join(piece for piece, _ in content["pieces"]) == content["text"]
    assert {side for _, side in content["pieces"]} >= {"", "suggested"}


def test_columns_begin_with_the_text_and_do_not_tell_labels(page, text_run):
    row = page.rows()[0]
    content = content_of(page, row)
    with (text_run / "reviews.csv").open() as file:
        expected = {line["id"]: line for line in csv.DictReader(file)}[row["id"]]
    assert content["columns"] == [[name, expected[name]] for name in ("review", "stars")]


def test_a_row_that_does_not_exist_is_refused(page):
    assert page.http.get("/api/content/train/9999").status_code == 400
    assert page.http.get("/api/content/test/0").status_code == 400


def test_a_table_has_columns_and_no_text(tmp_path):
    columns = {"age": range(40), "city": ["Bonn", "Rome"] * 20, "label": ["a", "b"] * 20, "clean_label": ["a"] * 40}
    source = write_csv(tmp_path / "t.csv", columns)
    api.fit(str(source), tmp_path / "run", settings={**FAST_TEXT, "train.epochs": 2})
    page = open_page(tmp_path / "run")
    row = next(row for row in page.rows() if row["id"] == "3")
    assert content_of(page, row) == {"text": None, "pieces": None, "columns": [["age", "3"], ["city", "Rome"]]}


def test_parquet_files_and_folders(tmp_path):
    table = pa.table({"n": [1, 2], "id": ["x", "y"], "text": ["some words", None], "b": [b"1", b"2"], "label": [0, 1]})
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "t.parquet", tmp_path / "folder" / "train-00000-of-00001.parquet"):
        pq.write_table(table.drop(["b"]), path)
        source = path if path.name == "t.parquet" else path.parent
        cells = read_row_cells(DataConfig(source=str(source), text_column="text"))
        assert cells.find("x") == [("text", "some words"), ("n", "1")]
        assert cells.find("y") == [("text", ""), ("n", "2")]
        assert cells.find("z") == []


@pytest.mark.parametrize("name", ["digits", "a.npz"])
def test_other_sources_have_no_columns(name):
    assert read_row_cells(DataConfig(source=name)) is None


@pytest.fixture(scope="module")
def text_server(text_run):
    """Serve the run on texts to tests that decide nothing."""
    service = ThreadServer(RunDir(text_run / "run"), open_run)
    yield service
    service.stop()


def test_the_page_shows_texts_with_marked_words(text_server, opened):
    page = opened(text_server.address)
    shown = page.locator("#picture .text")
    text = shown.text_content()
    assert text in make_texts(120)[0]
    marked = page.locator("#picture mark.suggested")
    expect(marked.first).to_be_visible()
    assert marked.first.text_content() in text
    expect(page.locator("#picture .columns")).to_contain_text("stars")
    page.keyboard.press("ArrowRight")
    expect(shown).not_to_have_text(text)
    page.keyboard.press("g")
    assert page.locator(".card .snippet").first.text_content()[:40] in text


def test_neighbours_are_shown_by_their_texts(text_server, opened):
    page = opened(text_server.address)
    expect(page.locator("#why .neighbours .snippet").first).to_be_visible()


def test_the_page_shows_all_columns_of_a_table(tmp_path, opened):
    columns = {"age": range(40), "city": ["<b>Bonn</b>", "Rome"] * 20, "label": ["a", "b"] * 20}
    api.fit(str(write_csv(tmp_path / "t.csv", columns)), tmp_path / "run", settings={**FAST_TEXT, "train.epochs": 2})
    service = ThreadServer(RunDir(tmp_path / "run"), open_run)
    try:
        page = opened(service.address)
        cells = page.locator("#picture .columns td")
        expect(cells).to_have_count(2)
        assert cells.nth(1).text_content() in ("<b>Bonn</b>", "Rome")
        expect(page.locator("#picture .values thead")).to_contain_text("given mean")
    finally:
        service.stop()
