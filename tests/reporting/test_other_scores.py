"""Scores of other tools: read, refused with the guilty row, and compared with ours."""

import re

import pytest

from surelabel.errors import DataError
from surelabel.reporting import read_scores
from surelabel.reporting.other_scores import compare
from surelabel.reporting.reported_run import ReportedRun
from surelabel.reporting.tables import scores_table
from surelabel.verdicts import audit


@pytest.fixture
def written(tmp_path):
    def write(text: str):
        file = tmp_path / "scores.csv"
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,score\na,0.25\nb,1\n", {"a": 0.25, "b": 1.0}),
        ("sample_id,aum\n7,-2.5\n8,3\n", {"7": -2.5, "8": 3.0}),
        (",is_label_issue,label_quality\n0,True,0.1\n1,False,0.9\n", {"0": 0.1, "1": 0.9}),
        (",is_label_issue,label_score,given_label\n0,True,0.2,3\n1,False,0.8,4\n", {"0": 0.2, "1": 0.8}),
        ("index,is_label_issue\n0,True\n1,False\n", {"0": -1.0, "1": 0.0}),
    ],
)
def test_low_is_suspicious_whatever_the_tool(written, text, expected):
    assert read_scores(written(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,score\na,1\n", "no column 'id', 'sample_id', .*; available: name, score"),
        ("id,margin\na,1\n", "no column 'label_quality', .*'score', .*; available: id, margin"),
        ("id,score\na,1\nb,many\n", "row 3: score is 'many'; expected a number"),
        ("id,score\na,nan\n", "row 2: score is 'nan'; expected a number"),
        ("id,score\na\n", "row 2: 1 cells for 2 columns"),
        ("id,score\na,1\na,2\n", "row 3: the id 'a' .* row 2;"),
        ("id,score\n", "no rows"),
        ("", "an empty table"),
    ],
)
def test_bad_rows_are_named(written, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_scores(written(text))
    assert "\n" not in str(caught.value)
    assert "scores.csv" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        read_scores(tmp_path / "none.csv")


def test_our_own_ranking_agrees_with_itself_and_its_reverse_does_not(trained, report):
    table = audit(trained["images"])
    same = {str(id): float(rank) for id, rank in zip(table.columns["id"], table.columns["rank"], strict=True)}
    row_of = {id: str(row) for row, id in enumerate(trained["images"].labels()["id"].to_pylist())}
    scores = {
        "same": same,
        "reversed": {id: -rank for id, rank in same.items()},
        "by row number": {row_of[id]: rank for id, rank in same.items()},
    }
    cells = report("images", scores=scores).text.partition("Other scores beside ours")[2]
    assert "same 60 1.000 100.0 %" in cells
    assert "reversed 60 -1.000" in cells
    assert "by row number 60 1.000 100.0 %" in cells
    assert "AUROC of surelabel" in cells


def table_text(run, scores):
    """Return the table of scores as the page shows it, without drawing the rest of the page."""
    reported = ReportedRun(run, None, audit(run), 1, "run")
    table = scores_table({name: compare(reported, values, name) for name, values in scores.items()})
    cells = [*table.header, *(cell.text for row in table.rows for cell in row), ""]
    return " ".join(cells).replace("\u00a0", " ")


@pytest.mark.parametrize("names", [("some", "all"), ("all", "some")])
def test_scores_of_right_labels_only_have_no_auroc(trained, names):
    columns = audit(trained["images"]).columns
    scores = {str(id): float(rank) for id, rank in zip(columns["id"], columns["rank"], strict=True)}
    right = {str(id) for id in columns["id"][columns["given"] == columns["clean"]]}
    files = {"all": scores, "some": {id: score for id, score in scores.items() if id in right}}
    text = table_text(trained["images"], {name: files[name] for name in names})
    cells = text.partition("AUROC of the scores")[2]
    assert re.search(rf"some {len(right)} 1\.000 [^a-z]* - - ", cells)
    assert re.search(r"all 60 1\.000 [^a-z]* (0\.\d+|1\.000) \1 ", cells)


@pytest.mark.parametrize("num_worst", [0, 1])
def test_equal_scores_count_as_often_as_chance_would_put_them_first(trained, num_worst):
    table = audit(trained["images"])
    ids, size = table.columns["id"].tolist(), table.num_suspicious
    scores = {str(id): float(at >= num_worst) for at, id in enumerate(ids)}
    assert 1 < size < len(ids)
    expected = (num_worst + (size - num_worst) ** 2 / (len(ids) - num_worst)) / size
    cells = table_text(trained["images"], {"tied": scores})
    assert f"Both among the first {size} Both among the first 60" in cells
    assert re.search(rf"tied 60 [0-9.]+ {100 * expected:.1f} % 100\.0 %", cells)


def test_scores_of_other_data_are_refused(report):
    with pytest.raises(DataError, match="other: its ids are neither ids nor row numbers"):
        report("images", scores={"other": {"x": 1.0, "y": 2.0}})
