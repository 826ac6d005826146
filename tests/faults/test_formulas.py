"""Cells that a spreadsheet would run as formulas: neutral in csv files, and restored when read."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.config import NoiseConfig
from surelabel.data.label_file import read_label_file
from surelabel.files import is_formula, neutralise_cell, replace_csv, restore_cell
from surelabel.noise import inject, save

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "-inf", "+1 2"]
HARMLESS = ["-1", "+1", "-1.5e-3", "+.5", "a=b", "", "1", "cat", " =1"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_formulas_are_neutralised(cell):
    assert neutralise_cell(cell) == f"'{cell}"
    assert restore_cell(neutralise_cell(cell)) == cell


@pytest.mark.parametrize("cell", [*HARMLESS, 3, -2.5, None])
def test_other_cells_stay(cell):
    assert neutralise_cell(cell) == cell


@given(st.text(alphabet="'=+-@\t\r\n1a.e ", max_size=6))
def test_every_text_returns_and_none_is_a_formula(text):
    written = neutralise_cell(text)
    assert restore_cell(written) == text
    assert not is_formula(written)


IDS = ["=1+1", "'=1+1", "''=1", "'quoted'", "-1", "-x.png", "@a", "+", "plain"]


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_ids_return_from_a_file_that_was_written_here(tmp_path):
    replace_csv(tmp_path / "a.csv", ("id", "label"), [(name, "=cat") for name in IDS], as_they_are=("label",))
    cells = [row[0] for row in rows_of(tmp_path / "a.csv")[1:]]
    assert not any(map(is_formula, cells))
    file = read_label_file(tmp_path / "a.csv")
    assert file.ids.tolist() == IDS
    assert set(file.values.tolist()) == {"=cat"}  # a label is as it is


def test_a_file_of_others_is_read_as_it_is(tmp_path):
    (tmp_path / "a.csv").write_text("id,label\n=1,a\n'=1,b\n")
    assert read_label_file(tmp_path / "a.csv").ids.tolist() == ["=1", "'=1"]


def test_noisy_labels_return_by_id(tmp_path):
    clean, ids = np.arange(len(IDS)) % 2, np.array(IDS)
    config = NoiseConfig(kind="pair", rate=0.5)
    noisy, manifest = inject(clean, ["-1", "=b"], config, 0, ids=ids)
    path, _ = save(tmp_path / "a.csv", noisy, manifest, ids)
    assert not any(is_formula(row[0]) for row in rows_of(path))
    again, _ = inject(clean, ["-1", "=b"], NoiseConfig(kind="file", path=str(path)), 0, ids=ids)
    assert (again == noisy).all()


@pytest.fixture(scope="module")
def run(tmp_path_factory, done):
    """A run whose ids and classes are formulas."""
    folder = tmp_path_factory.mktemp("formulas")
    rng, y = np.random.default_rng(0), np.arange(40) % 2
    ids = np.array([*IDS, *(f"=HYPERLINK({number})" for number in range(40 - len(IDS)))])
    x = (rng.normal(size=(40, 4)) + 3 * y[:, None]).astype(np.float32)
    np.savez(folder / "a.npz", x=x, y=np.array(["-1", "=b"])[y], ids=ids)
    quick = ("--epochs", 2, "--threads", 1, "--model", "mlp", "--set", "model.widths=[8]")
    done("fit", folder / "a.npz", *quick, "--set", "train.second_opinion=false", "--out", folder / "run")
    return folder / "run", folder / "a.npz", ids


def test_the_audit_has_no_formulas(run, done):
    path, _, ids = run
    done("audit", path)
    header, *rows = rows_of(path / "audit.csv")
    assert not any(is_formula(cell) for row in (header, *rows) for cell in row)
    column = header.index("id")
    assert sorted(restore_cell(row[column]) for row in rows) == sorted(ids)
    assert {row[header.index("given")] for row in rows} == {"-1", "'=b"}


def test_predictions_have_no_formulas(run, done, tmp_path):
    path, data, _ = run
    done("predict", path, data, "--out", tmp_path / "p.csv")
    assert not any(is_formula(cell) for row in rows_of(tmp_path / "p.csv") for cell in row)


def test_cleaned_labels_stay_and_their_ids_match_again(run, done, call, tmp_path):
    path, data, ids = run
    done("export", path, "--out", tmp_path / "export")
    header, *rows = rows_of(tmp_path / "export" / "cleaned.csv")
    assert not any(is_formula(row[header.index("id")]) for row in rows)
    assert {row[header.index("given")] for row in rows} == {"-1", "=b"}
    result = call("noise", data, "--labels", tmp_path / "export" / "cleaned.csv", "--trusted",
                  tmp_path / "export" / "cleaned.csv", "--noise", "pair:0.5", "--out", tmp_path / "n.csv")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert f"names {len(ids)} of {len(ids)} rows" in result.stderr


def test_files_that_people_look_at_have_no_formulas(run, done, tmp_path):
    path, _, _ = run
    done("export", path, "--out", tmp_path / "export")
    header, *rows = rows_of(tmp_path / "export" / "label_issues.csv")
    assert {row[header.index("given_label")] for row in rows} == {"-1", "'=b"}
    for file in (tmp_path / "export").glob("*.csv"):
        exact = {"label", "given", "suggested"} if file.name in ("cleaned.csv", "decisions.csv") else set()
        header, *rows = rows_of(file)
        assert not [
            cell
            for row in rows
            for name, cell in zip(header, row, strict=True)
            if name not in exact and is_formula(cell)
        ]
