"""Mistakes that follow the inputs: doubt, and what looks settle, by the public commands."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import surelabel
from surelabel.runs.decisions import FILE_NAME, Journal, Wish, random_order

SIZE, NUM_CLASSES = 700, 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Overlapping classes whose hard rows a tired annotator got wrong, and some easy ones."""
    rng = np.random.default_rng(3)
    clean = np.arange(SIZE) % NUM_CLASSES
    x = (1.4 * rng.normal(size=(NUM_CLASSES, 8)))[clean] + rng.normal(size=(SIZE, 8))
    centres = np.stack([x[clean == label].mean(0) for label in range(NUM_CLASSES)])
    nearness = -((x[:, None] - centres) ** 2).sum(2)
    own = nearness[np.arange(SIZE), clean]
    nearness[np.arange(SIZE), clean] = -np.inf
    hard = np.argsort(own - nearness.max(1))[:100]
    given = clean.copy()
    given[hard] = nearness.argmax(1)[hard]
    easy = rng.choice(np.setdiff1d(np.arange(SIZE), hard), 60, replace=False)
    given[easy] = (given[easy] + 1) % NUM_CLASSES
    folder = tmp_path_factory.mktemp("following")
    np.savez(folder / "data.npz", x=x.astype(np.float32), y=given)
    surelabel.fit(str(folder / "data.npz"), folder / "run", epochs=15)
    return folder, given, clean


@pytest.fixture
def reviewed(data):
    """Return the run and what decides on rows as someone who knows the right labels."""
    folder, given, clean = data
    for file in (folder / "run").glob("decisions*"):
        file.unlink()
    journal = Journal(folder / "run" / FILE_NAME)

    def decide(rows, queue=None):
        for row in rows:
            is_right = given[row] == clean[row]
            label = None if is_right else str(clean[row])
            journal.append([Wish(str(row), str(given[row]), "keep" if is_right else "relabel", label, 0, queue)])

    return folder / "run", journal, decide, given, clean


def right_after(run, done, given, clean):
    """Export, and return what the command says, and the share of right labels."""
    shutil.rmtree(run / "export", ignore_errors=True)
    found = json.loads(done("export", run, "--json"))
    table = pq.read_table(run / "export" / "cleaned.parquet").to_pydict()
    label = dict(zip(table["id"], table["label"], strict=True))
    return found, np.mean([label[str(row)] == str(clean[row]) for row in range(len(clean))])


def test_the_audit_counts_what_contradicts_and_does_not_claim_to_know_the_rest(reviewed, done):
    run, _, _, given, clean = reviewed
    audit = surelabel.audit(run)
    assert audit.may_follow_inputs
    assert not audit.can_tell
    low, high = audit.noise_rate.interval
    assert low <= (given != clean).mean() <= high
    text = done("audit", run)
    assert "contradict the other rows; how many are wrong is not known" in " ".join(text.split())
    assert any("may follow the inputs" in warning for warning in audit.warnings)


def test_the_gate_neither_passes_nor_fails(reviewed, call):
    run = reviewed[0]
    assert call("gate", run, "--max-wrong", "0.1").exit_code == 3
    assert call("gate", run, "--max-wrong", "0.5").exit_code == 3


def test_export_changes_nothing_before_suspects_were_looked_at(reviewed, done):
    run, _, decide, given, clean = reviewed
    before = (given == clean).mean()
    found, after = right_after(run, done, given, clean)
    assert found["changed_by_model"] == 0
    assert after == before
    assert "surelabel review RUN --random 40" in found["doubt"]
    assert f"surelabel review {run} --random 40" in " ".join(done("export", run).split())
    audit = surelabel.audit(run)
    decide(audit.columns["row"][: audit.num_suspicious : 5].tolist())  # spread over the suspects
    found, after = right_after(run, done, given, clean)
    assert found["changed_by_model"] > 20
    assert after > before + 0.04


def test_a_random_sample_tells_the_rate_and_which_labels_to_change(reviewed, done):
    run, journal, decide, given, clean = reviewed
    draw = journal.draw(150)
    rows = random_order(draw.seed, [str(row) for row in range(SIZE)])[: draw.count]
    decide(rows[:20], "random")
    assert right_after(run, done, given, clean)[0]["changed_by_model"] == 0  # too few
    decide(rows[20:], "random")
    audit = surelabel.audit(run)
    assert audit.can_tell
    assert not audit.is_doubtful
    low, high = audit.noise_rate.interval
    assert low <= (given != clean).mean() <= high
    assert "are wrong: " in audit.sentences()[0]
    assert "contradict" not in audit.sentences()[0]
    assert audit.num_suspicious > 40
    found, after = right_after(run, done, given, clean)
    assert found["changed_by_model"] > 0
    assert after > (given == clean).mean() + 0.03


def test_no_sign_is_said_where_mistakes_depend_on_the_class_alone(tmp_path):
    rng = np.random.default_rng(0)
    clean = np.arange(300) % NUM_CLASSES
    x = 4 * np.eye(NUM_CLASSES)[clean] + rng.normal(size=(300, NUM_CLASSES))
    given = np.where(rng.random(300) < 0.2, (clean + 1) % NUM_CLASSES, clean)
    audit = surelabel.audit(surelabel.fit((x.astype(np.float32), given), tmp_path / "run", epochs=5))
    assert audit.may_follow_inputs is False
    assert "Not counted: mistakes that follow the inputs, of which there is no sign." in audit.sentences()[0]
