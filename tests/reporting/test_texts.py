"""Texts in the report: shown as they are, with the words that speak for a label."""

import shutil

import numpy as np
import pytest
from tests.conftest import TOPICS, make_texts
from tests.reporting.conftest import Page

from surelabel import api
from surelabel.training.word_marks import MOST_CHARACTERS, mark_words


@pytest.fixture(scope="module")
def model(text_run):
    return api.load(text_run / "run")


def sides(model, text, given, suggested):
    numbers = [[model.class_names.index(name)] for name in (given, suggested)]
    (pieces,) = mark_words(model, [text], *numbers)
    assert "".join(piece.text for piece in pieces) == text
    return {piece.text: piece.side for piece in pieces if piece.side}


def test_words_speak_for_the_class_that_they_belong_to(model):
    marked = sides(model, "bank, Coach; LOAN: referee", "money", "sport")
    assert marked == {"bank": "given", "LOAN": "given", "Coach": "suggested", "referee": "suggested"}
    swapped = sides(model, "bank, Coach; LOAN: referee", "sport", "money")
    assert swapped == {"bank": "suggested", "LOAN": "suggested", "Coach": "given", "referee": "given"}


def test_the_effect_of_a_word_is_what_a_linear_network_loses_without_it(model):
    """The log-odds of the text without the word are those of the shorter text."""
    probability = model.predict_proba(["bank goal team", " goal team"])
    log = np.log(probability[:, model.class_names.index("money")] / probability[:, model.class_names.index("sport")])
    assert log[0] > log[1]
    assert sides(model, "bank goal team", "money", "sport")["bank"] == "given"


def test_a_text_without_words_has_no_marks(model):
    assert sides(model, "... !", "money", "sport") == {}


def test_long_texts_are_cut(model):
    (pieces,) = mark_words(model, ["goal " * 1000], [0], [1])
    assert "".join(piece.text for piece in pieces) == ("goal " * 1000)[:MOST_CHARACTERS] + " ..."


def test_the_report_shows_texts_with_marks(text_run, done, tmp_path):
    done("report", text_run / "run", "--out", tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    texts = make_texts(120)[0]
    assert sum(text in page.text for text in texts) >= 5
    assert {"for-given", "for-suggested"} <= {mark["class"] for mark in page.all("mark")}
    assert "Marked words speak for" in page.text
    assert any(word in page.text for words in TOPICS.values() for word in words)


def test_text_with_html_stays_text(done, tmp_path):
    texts, given, _ = make_texts(60)
    hostile = [f"<script>alert(1)</script> {text}" for text in texts]
    import csv

    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *zip(hostile, given, strict=True)])
    done("fit", tmp_path / "t.csv", "--out", tmp_path / "run", "--epochs", "10", "--threads", "1")
    done("report", tmp_path / "run", "--out", tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    assert len(page.all("script")) == 1
    assert "<script>alert(1)</script>" in page.text


def test_without_the_data_ids_are_shown(text_run, done, tmp_path):
    shutil.copytree(text_run / "run", tmp_path / "run")
    (text_run / "reviews.csv").rename(text_run / "moved.csv")
    try:
        done("report", tmp_path / "run", "--out", tmp_path / "r.html")
    finally:
        (text_run / "moved.csv").rename(text_run / "reviews.csv")
    assert "could not be read again" in Page(tmp_path / "r.html").text
