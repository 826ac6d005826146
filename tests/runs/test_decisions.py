"""The journal: no decision is lost or overwritten, and what is reported as saved is on disk."""

import csv
import json
import os
import subprocess
import sys
import threading

import pytest

from surelabel.data.label_file import read_label_file
from surelabel.errors import RunError
from surelabel.runs.decisions import Conflict, Journal, Wish, random_order
from surelabel.runs.entry_count import count_file, write_count


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.jsonl"


def state(journal):
    return {id: (decision.action, decision.label) for id, decision in journal.decisions().items()}


def test_decisions_and_their_lines(path):
    journal = Journal(path, by="ann")
    journal.append([Wish("a", "cat", "keep"), Wish("b", "cat", "relabel", "dog"), Wish("c", "cat", "skip")])
    assert state(journal) == {"a": ("keep", "cat"), "b": ("relabel", "dog"), "c": ("skip", None)}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2, 3]
    assert lines[1] == {
        "sequence": 2,
        "time": lines[1]["time"],
        "id": "b",
        "given": "cat",
        "action": "relabel",
        "label": "dog",
        "by": "ann",
        "bulk": 1,
        "crc32": lines[1]["crc32"],
    }
    (alone,) = journal.append([Wish("d", "cat", "keep")])
    assert alone.bulk is None
    assert "bulk" not in json.loads(path.read_text().splitlines()[-1])
    assert lines[1]["time"].endswith("+00:00")


def test_reading_a_run_that_nobody_has_reviewed_makes_no_file(path):
    assert Journal(path).decisions() == {}
    assert not path.exists()


def test_undo_restores_the_state_before(path):
    journal = Journal(path)
    journal.append([Wish("a", "cat", "keep")])
    journal.append([Wish("a", "cat", "relabel", "dog", seen=1)])
    (undone,) = journal.append([Wish("a", "cat", "undo", seen=2)])
    assert (undone.action, undone.label) == ("undo", "cat")
    assert state(journal) == {"a": ("keep", "cat")}
    journal.append([Wish("a", "cat", "undo", seen=3)])
    assert state(journal) == state(Journal(path)) == {}
    assert len(path.read_text().splitlines()) == 4
    with pytest.raises(RunError, match="no decision on 'a' to undo"):
        journal.append([Wish("a", "cat", "undo", seen=4)])


def test_a_row_that_somebody_else_decided_on_is_a_conflict(path):
    one, other = Journal(path, by="one"), Journal(path, by="other")
    one.append([Wish("a", "cat", "keep")])
    with pytest.raises(Conflict) as conflict:
        other.append([Wish("b", "cat", "keep"), Wish("a", "cat", "relabel", "dog", seen=0)])
    assert conflict.value.ids == ("a",)
    assert state(other) == {"a": ("keep", "cat")}  # all or nothing: b was not written either
    other.append([Wish("a", "cat", "relabel", "dog", seen=1)])
    assert state(one) == {"a": ("relabel", "dog")}


@pytest.mark.parametrize("cut", [1, 20, 90])
def test_a_line_cut_short_is_ignored_and_healed(path, cut):
    journal = Journal(path)
    journal.append([Wish("a", "cat", "keep")])
    journal.append([Wish("b", "cat", "keep")])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    path.write_bytes(whole[: first + cut])
    write_count(path, 1)  # the second is counted when it is on disk
    again = Journal(path)
    assert state(again) == {"a": ("keep", "cat")}
    again.append([Wish("c", "cat", "skip")])
    assert state(again) == state(Journal(path)) == {"a": ("keep", "cat"), "c": ("skip", None)}
    assert path.read_bytes().startswith(whole[: first + cut] + b"\n")  # only appended to
    assert not again.damage()
    assert not Journal(path).damage()  # it was never reported as saved


def test_a_line_that_only_lacks_its_newline_counts_before_and_after_healing(path):
    Journal(path).append([Wish("a", "cat", "keep")])
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    journal = Journal(path)
    assert state(journal) == {"a": ("keep", "cat")}
    assert journal.append([Wish("b", "cat", "keep")])[0].sequence == 2
    assert state(journal) == state(Journal(path)) == {"a": ("keep", "cat"), "b": ("keep", "cat")}


def test_synced_before_the_answer(path):
    synced = []

    def sync(file):
        synced.append((os.fstat(file).st_size, path.stat().st_size))
        os.fsync(file)

    Journal(path, sync=sync).append([Wish("a", "cat", "keep")])
    size = path.stat().st_size
    assert (size, size) in synced  # the whole line was in the file when it was synced
    assert len(synced) == 2  # and the folder, because the file is new


def test_a_write_that_fails_leaves_nothing(path):
    Journal(path).append([Wish("a", "cat", "keep")])
    before = path.read_bytes()

    def sync(file):
        raise OSError(28, "No space left on device")

    journal = Journal(path, sync=sync)
    with pytest.raises(OSError, match="No space left"):
        journal.append([Wish("b", "cat", "keep")])
    assert path.read_bytes() == before
    assert state(journal) == {"a": ("keep", "cat")}


def test_two_writers_at_once(path):
    def write(name):
        journal = Journal(path, by=name)
        for number in range(50):
            journal.append([Wish(f"{name}/{number}", "cat", "keep")])

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["sequence"] for line in lines] == list(range(1, 151))
    assert len(Journal(path).decisions()) == 150


def test_two_processes_at_once(path):
    code = (
        "import sys; from surelabel.runs.decisions import *\n"
        "for n in range(40): Journal(sys.argv[1]).append([Wish(f'{sys.argv[2]}{n}', 'cat', 'keep')])"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert sorted(decision.sequence for decision in Journal(path).decisions().values()) == list(range(1, 81))


def test_csv_has_what_training_may_trust(path, tmp_path):
    journal = Journal(path)
    odd = '=1+1,"quoted"\nsecond line'
    journal.append([Wish("a", "cat", "keep"), Wish(odd, "cat", "relabel", "dog, big"), Wish("c", "cat", "skip")])
    journal.append([Wish("d", "cat", "keep")])
    journal.append([Wish("d", "cat", "undo", seen=4)])
    assert journal.to_csv(tmp_path / "decisions.csv") == 2
    with (tmp_path / "decisions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    held = journal.decisions()
    more = {"by": "person", "disagreement": ""}
    assert rows == [
        {"id": "a", "label": "cat", "decided_at": held["a"].time, "action": "keep", **more},
        # A spreadsheet would run the id as a formula; `fit --trusted` reads it without the '.
        {"id": f"'{odd}", "label": "dog, big", "decided_at": held[odd].time, "action": "relabel", **more},
    ]
    assert read_label_file(tmp_path / "decisions.csv").ids.tolist() == ["a", odd]


def test_a_link_is_not_followed(path, tmp_path):
    (tmp_path / "other").write_text("precious\n")
    path.symlink_to(tmp_path / "other")
    with pytest.raises(RunError, match="is a link to"):
        Journal(path).append([Wish("a", "cat", "keep")])
    assert (tmp_path / "other").read_text() == "precious\n"


def test_a_journal_that_was_removed_with_its_count_is_begun_anew(path):
    journal = Journal(path)
    journal.append([Wish("a", "cat", "keep")])
    path.unlink()
    assert journal.decisions() == {}
    count_file(path).unlink()
    assert not journal.damage()
    assert journal.append([Wish("a", "cat", "keep")])[0].sequence == 1
    assert not journal.damage()


class TestSample:
    def test_a_draw_is_kept_and_a_larger_one_contains_it(self, path):
        journal = Journal(path, by="ann")
        assert journal.sample() is None
        first = journal.draw(10)
        assert journal.draw(5) == Journal(path).sample() == first
        more = journal.draw(20)
        assert (more.seed, more.count, more.sequence) == (first.seed, 20, 2)
        ids = [f"row {number}" for number in range(50)]
        assert sorted(random_order(first.seed, ids)) == list(range(50))
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [line["count"] for line in lines] == [10, 20]
        assert lines[0]["by"] == "ann"

    def test_the_order_depends_on_the_seed_and_is_the_same_everywhere(self):
        assert random_order(7, list("abcdef")) == [2, 4, 0, 5, 3, 1]
        first = [random_order(seed, list("abcdef"))[0] for seed in range(600)]
        assert all(60 < first.count(place) < 140 for place in range(6))

    def test_decisions_of_the_sample_are_marked(self, path):
        journal = Journal(path)
        journal.append([Wish("a", "cat", "keep", queue="random")])
        journal.append([Wish("b", "cat", "keep")])
        assert [decision.queue for decision in Journal(path).decisions().values()] == ["random", None]
        assert "queue" not in json.loads(path.read_text().splitlines()[1])
        journal.append([Wish("a", "cat", "relabel", "dog", seen=1)])
        assert journal.book()["a"].is_random  # changed elsewhere: still an answer of the sample
        journal.append([Wish("a", "cat", "undo", seen=3), Wish("b", "cat", "undo", seen=2)])
        journal.append([Wish("a", "cat", "undo", seen=4)])
        assert not journal.book()["a"].is_random
        journal.append([Wish(id, "cat", "keep", queue="random") for id in "cd"])
        assert not journal.book()["c"].is_random  # made at once: nobody looked at each

    def test_a_draw_cut_short_never_happened(self, path):
        Journal(path).append([Wish("a", "cat", "keep")])
        Journal(path).draw(10)
        path.write_bytes(path.read_bytes()[:-9])
        write_count(path, 1)
        journal = Journal(path)
        assert not journal.damage()
        assert journal.sample() is None
        again = journal.draw(10)
        assert Journal(path).sample() == again
        assert state(journal) == {"a": ("keep", "cat")}

    @pytest.mark.parametrize("count", [0, -1])
    def test_an_empty_sample_is_refused(self, path, count):
        with pytest.raises(RunError, match=f"{count} random labels"):
            Journal(path).draw(count)

    def test_a_draw_without_its_seed_is_damage(self, path):
        path.write_text('{"sequence": 1, "time": "now", "action": "draw", "count": 3, "by": "ann"}\n')
        assert Journal(path).damage().unreadable == (1,)
        assert Journal(path).sample() is None
