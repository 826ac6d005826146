"""The order of rows: attributes of an audit follow the user's data, its table is ranked."""

import csv

import numpy as np
import pytest
from PIL import Image

import surelabel
from surelabel.runs.decisions import FILE_NAME, Journal, Wish
from surelabel.verdicts import Audit

WRONG = [3, 10, 41, 77, 80]
"""Rows whose label is wrong, some of them held out."""
SETTINGS = {"data.validation_fraction": 0.3, "train.device": "cpu", "train.threads": 1, "model": "mlp"}
SIZE = 90


@pytest.fixture(scope="module")
def arrays():
    """Inputs and labels of three classes that come apart; the labels of WRONG are another class."""
    clean = np.arange(SIZE) % 3
    x = 6 * np.eye(3)[clean] + np.random.default_rng(0).normal(size=(SIZE, 3))
    given = clean.copy()
    given[WRONG] = (clean[WRONG] + 1) % 3
    return x.astype(np.float32), given, clean


@pytest.fixture(scope="module")
def run(arrays, tmp_path_factory):
    """A run on the arrays in which a third of the rows is held out, with two decisions."""
    found = surelabel.fit(arrays[:2], tmp_path_factory.mktemp("order") / "run", epochs=20, settings=SETTINGS)
    for wish in (Wish("10", "2", "relabel", "1"), Wish("5", str(arrays[1][5]), "keep")):
        Journal(found.path / FILE_NAME).append([wish])
    return found


@pytest.fixture(scope="module")
def audit(run):
    """The audit of that run; samples.parquet has the held-out rows last."""
    found = surelabel.audit(run)
    assert run.samples()["row"].to_pylist() != list(range(SIZE))
    return found


def per_row(audit: Audit) -> dict[str, np.ndarray]:
    """Return the public attributes with a value for each row, also those of the kinds."""
    names = [name for name in {*dir(audit), *vars(audit)} if not name.startswith("_")]
    found = {name: getattr(audit, name) for name in names}
    found |= {f"is_{kind}": rows for kind, rows in audit.kinds.flags.items()} | {"partner": audit.kinds.partner}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray) and len(value) == len(audit)}


def test_every_attribute_with_a_value_per_row_is_in_the_order_of_the_data(run, audit):
    stored = run.samples().sort_by("row")["p_wrong"].to_numpy()
    frame = audit.to_frame().sort_values("row")
    looks_wrong = (frame.p_wrong >= 0.5) & (frame.decided == "")
    expected = {
        "row": frame.row,
        "p_wrong": frame.p_wrong,
        "is_suspicious": looks_wrong,
        "is_decided": frame.decided != "",
        "is_vouched": stored >= stored[[5, 10]].min(),
        "p_suggested": audit.p_suggested,  # below
        "is_wrong": looks_wrong,
        "is_outlier": frame.is_outlier,
        "is_duplicate": frame.is_duplicate,
        "is_ambiguous": frame.is_ambiguous,
        "partner": np.full(SIZE, -1),
    }
    found = per_row(audit)
    assert set(found) == set(expected)
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert set(np.flatnonzero(audit.p_suggested > 0.5)) >= set(WRONG) - {10}
    assert audit.row.tolist() == list(range(SIZE))
    assert set(np.flatnonzero(audit.is_suspicious)) >= set(WRONG) - {10}
    assert np.flatnonzero(audit.is_decided).tolist() == [5, 10]


def test_labels_chosen_by_a_mask_are_the_suspicious_ones(audit, arrays):
    _, given, clean = arrays
    flagged = audit.flagged()
    assert sorted(flagged.columns["given"].astype(int)) == sorted(given[audit.is_suspicious])
    assert sorted(flagged.columns["row"]) == np.flatnonzero(audit.is_suspicious).tolist()
    assert (audit.corrected().astype(int) == clean).all()


def test_a_row_of_the_table_says_where_it_is(audit, arrays, tmp_path):
    first = audit[0]
    assert first == next(audit.head(1))
    assert first["rank"] == 1
    assert first["row"] in WRONG
    assert first["id"] == str(first["row"])
    assert first["given"] == str(arrays[1][first["row"]])
    assert audit[-1]["rank"] == SIZE
    assert type(first["row"]) is int
    assert [row["rank"] for row in audit] == list(range(1, SIZE + 1))
    with pytest.raises(IndexError):
        audit[SIZE]
    with pytest.raises(TypeError):
        audit[audit.is_suspicious]
    audit.to_csv(tmp_path / "audit.csv")
    with (tmp_path / "audit.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == [row["id"] for row in rows] == audit.columns["id"].tolist()
    assert audit.to_frame()["row"].tolist() == audit.columns["row"].tolist() == audit.table["row"].to_pylist()
    assert (np.diff([float(row["p_wrong"]) for row in rows[:-2]]) <= 0).all()  # the last two are decided


def test_a_new_audit_of_other_rows_has_their_order(run, arrays):
    x, given, _ = arrays
    back = np.arange(SIZE)[::-1]
    found = surelabel.audit(run, data=(x[back], given[back]))
    frame = found.to_frame().sort_values("row")
    assert (given[back].astype(str) == frame.given).all()
    assert (found.p_wrong == frame.p_wrong).all()
    assert set(back[np.argsort(-found.p_wrong)[: len(WRONG)]]) == set(WRONG)
    assert back[found[0]["row"]] in WRONG


def test_a_table_whose_rows_are_split_counts_its_lines(arrays, tmp_path):
    x, given, _ = arrays
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["name", "a", "b", "c", "label", "split"])
        for row in range(SIZE):
            # The ids sort in another order than the lines, and each fifth line is a test row.
            write.writerow([f"r{SIZE - row}", *x[row], f"c{given[row]}", "test" if row % 5 == 4 else "train"])
    settings = {**SETTINGS, "data.id_column": "name"}
    run = surelabel.fit(tmp_path / "rows.csv", tmp_path / "run", epochs=20, settings=settings)
    audit = surelabel.audit(run)
    assert audit.row.tolist() == [row for row in range(SIZE) if row % 5 != 4]
    assert set(audit.row[audit.is_suspicious]) >= set(WRONG) - {row for row in WRONG if row % 5 == 4}
    assert audit[0]["id"] == f"r{SIZE - audit[0]['row']}"
    assert (np.char.add("c", given[audit.row].astype(str)) == audit.to_frame().sort_values("row").given).all()


def test_rows_that_are_left_out_leave_gaps(arrays, tmp_path):
    x, given, _ = arrays
    x = x.copy()
    x[[2, 50]] = np.nan
    settings = {**SETTINGS, "data.unreadable": "skip", "train.second_opinion": False}
    audit = surelabel.audit(surelabel.fit((x, given), tmp_path / "arrays", epochs=2, settings=settings))
    assert audit.row.tolist() == [row for row in range(SIZE) if row not in (2, 50)]
    assert (given[audit.row].astype(str) == audit.to_frame().sort_values("row").given).all()


def test_images_are_counted_as_they_are_listed(tmp_path):
    for row in range(40):
        path = tmp_path / "images" / "ab"[row // 20] / f"{row:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(row).integers(0, 100, (8, 8)) + 100 * (row // 20)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    (tmp_path / "images" / "a" / "05.png").write_bytes(b"broken")
    settings = {**SETTINGS, "data.unreadable": "skip", "train.second_opinion": False}
    audit = surelabel.audit(surelabel.fit(tmp_path / "images", tmp_path / "run", epochs=1, settings=settings))
    assert audit.row.tolist() == [row for row in range(40) if row != 5]
    assert all(row["id"].endswith(f"/{row['row']:02d}.png") for row in audit)


def test_the_estimator_has_the_order_of_x(arrays):
    x, given, clean = arrays
    few = {"data.validation_fraction": 0.3}
    found = surelabel.NoisyLabelClassifier(epochs=20, model="mlp", settings=few, threads=1, device="cpu").fit(x, given)
    assert set(np.flatnonzero(found.p_wrong_ >= 0.5)) >= set(WRONG)
    assert np.flatnonzero(found.audit_.is_suspicious).tolist() == np.flatnonzero(found.p_wrong_ >= 0.5).tolist()
    assert (found.suggested_labels_[WRONG] == clean[WRONG]).all()
    assert set(np.argsort(found.label_quality_)[: len(WRONG)]) == set(WRONG)


def test_a_row_is_judged_or_the_mask_does_not_fit(arrays, tmp_path):
    settings = {**SETTINGS, "data.test_fraction": 0.2, "train.second_opinion": False}
    run = surelabel.fit(arrays[:2], tmp_path / "run", epochs=2, settings=settings)
    audit = surelabel.audit(run)
    assert len(audit) == 72
    assert (arrays[1][audit.row].astype(str) == audit.to_frame().sort_values("row").given).all()
    with pytest.raises(IndexError):
        arrays[1][audit.is_suspicious]
