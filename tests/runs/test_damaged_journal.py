"""Damage to the journal is noticed and named; what can be read is still read."""

import errno
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zlib

import pytest

import surelabel
from surelabel.errors import RunError
from surelabel.exporting import export
from surelabel.runs.decisions import Damage, Journal, Wish
from surelabel.runs.entry_count import count_file, read_count, write_count
from surelabel.runs.run_dir import RunDir


@pytest.fixture
def path(tmp_path):
    """A journal of five entries."""
    journal = Journal(tmp_path / "decisions.jsonl", by="ann")
    journal.append([Wish("a", "cat", "keep"), Wish("b", "cat", "relabel", "dog"), Wish("c", "cat", "skip")])
    journal.draw(3)
    journal.append([Wish("d", "cat", "relabel", "dog", queue="random")])
    return journal.path


def state(path):
    journal = Journal(path)
    return journal.decisions(), journal.sample()


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def test_a_whole_journal_is_not_damaged(path):
    assert not Journal(path).damage()
    assert not Journal(path.with_name("missing")).damage()


def test_every_flipped_bit_is_noticed_or_harmless(path):
    content, whole = path.read_bytes(), state(path)
    with path.open("r+b", buffering=0) as file:
        for place, bit in itertools.product(range(len(content)), range(8)):
            os.pwrite(file.fileno(), bytes([content[place] ^ 1 << bit]), place)
            assert Journal(path).damage() or state(path) == whole, (place, bit)
            os.pwrite(file.fileno(), content[place : place + 1], place)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_line_cut_short_in_the_middle_is_named(path, number):
    lines = lines_of(path)
    for length in range(1, len(lines[number - 1]) - 1):
        cut = [*lines[: number - 1], lines[number - 1][:length] + b"\n", *lines[number:]]
        path.write_bytes(b"".join(cut))
        assert Journal(path).damage() == Damage(unreadable=(number,))


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_missing_line_is_noticed(path, number):
    lines = lines_of(path)
    path.write_bytes(b"".join(lines[: number - 1] + lines[number:]))
    damage = Journal(path).damage()
    assert damage == Damage(num_missing=1, missing_before=(number,))
    assert str(damage) == f"1 entry is missing before line {number}"


def test_lines_in_the_wrong_order_are_noticed_and_read(path):
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines, lines[1]]))
    assert Journal(path).damage() == Damage(misplaced=(6,))
    assert set(Journal(path).decisions()) == set("abcd")


def test_a_damaged_last_line_stays_damage_after_more_decisions(path):
    content = path.read_bytes()
    path.write_bytes(content[:-30] + b"?" + content[-29:])
    journal = Journal(path)
    assert journal.damage() == Damage(unreadable=(5,))
    journal.append([Wish("e", "cat", "keep")])
    assert journal.damage() == Journal(path).damage() == Damage(unreadable=(5,))
    assert set(journal.decisions()) == set("abce")


def test_a_line_cut_short_twice_in_a_row_is_no_damage(path):
    """A crash, and another one while the next entry was written."""
    for length in (40, 90):
        torn = lines_of(path)[0][:length]
        path.write_bytes(path.read_bytes() + torn)
        journal = Journal(path)
        assert not journal.damage()
        journal.append([Wish(f"new {length}", "cat", "keep")])
        assert not journal.damage()
        assert not Journal(path).damage()


def test_blank_lines_do_no_harm(path):
    whole = state(path)
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(path)).replace(b"}\n", b"}\r\n"))
    assert not Journal(path).damage()
    assert state(path) == whole


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": "b"}',
        b"[]",
        b"null",
        b"[" * 100_000,
        b"\x00" * 100,
        b'{"sequence": 6, "time": "now", "id": "b", "given": "cat", "action": "burn", "label": null, "by": "ann"}',
        b'{"sequence": 6, "time": "now", "id": "b", "given": "cat", "action": "keep", "label": null, "by": "ann"}',
        b'{"sequence": 6, "time": "now", "id": "b", "given": "cat", "action": "skip", "label": 1, "by": "ann"}',
        b'{"sequence": 6, "time": "n", "id": "b", "given": "cat", "action": "skip", "label": null, "by": "x", "m": 1}',
    ],
)
def test_lines_that_are_no_entries_are_named(path, line):
    path.write_bytes(path.read_bytes() + line + b"\n")
    assert Journal(path).damage() == Damage(unreadable=(6,))


class TestLostEntries:
    @pytest.mark.parametrize("kept", range(5))
    def test_a_journal_without_its_last_lines_is_damaged(self, path, kept):
        path.write_bytes(b"".join(lines_of(path)[:kept]))
        journal = Journal(path)
        assert journal.damage() == Damage(num_lost=5 - kept)
        assert ("1 entry is missing at the end" in str(journal.damage())) == (kept == 4)
        journal.append([Wish("e", "cat", "keep")])
        assert journal.damage() == Journal(path).damage() == Damage(num_missing=5 - kept, missing_before=(kept + 1,))

    def test_a_journal_that_is_gone_is_damaged(self, path):
        path.unlink()
        assert Journal(path).damage() == Damage(num_lost=5)
        assert Journal(path).draw(3).sequence == 6

    def test_a_kill_between_an_entry_and_its_count_is_no_damage(self, path, tmp_path):
        code = (
            "import os, signal, sys; from surelabel.runs import decisions\n"
            "decisions.write_count = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
            "decisions.Journal(sys.argv[1]).append([decisions.Wish(sys.argv[2], 'cat', 'keep')])"
        )
        for file in (path, tmp_path / "new.jsonl"):
            for row in "xy":
                assert subprocess.run([sys.executable, "-c", code, file, row]).returncode == -signal.SIGKILL
                assert not Journal(file).damage()
            assert {"x", "y"} <= set(Journal(file).decisions())
            Journal(file).append([Wish("z", "cat", "keep")])
            assert not Journal(file).damage()

    def test_a_kill_before_the_first_entry_leaves_a_run_without_decisions(self, tmp_path):
        (tmp_path / "decisions.jsonl").touch()
        assert not Journal(tmp_path / "decisions.jsonl").damage()

    def test_entries_that_an_older_version_appended_are_no_damage(self, path):
        write_count(path, 3)
        assert not Journal(path).damage()
        Journal(path).append([Wish("e", "cat", "keep")])
        assert read_count(path) == 6

    def test_every_flipped_bit_in_the_count_is_harmless(self, path):
        file, whole = count_file(path), state(path)
        content = file.read_bytes()
        for place, bit in itertools.product(range(len(content)), range(8)):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            assert not Journal(path).damage()
            assert state(path) == whole
        Journal(path).append([Wish("e", "cat", "keep")])
        assert read_count(path) == 6

    def test_a_disk_that_cannot_take_the_count_loses_no_decision(self, path, monkeypatch):
        def fail(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "pwrite", fail)
        Journal(path).append([Wish("e", "cat", "keep")])
        assert "e" in Journal(path).decisions()
        assert not Journal(path).damage()

    def test_a_link_is_not_followed(self, path, tmp_path):
        before, file = path.read_bytes(), count_file(path)
        (tmp_path / "other").write_text("precious")
        file.unlink()
        file.symlink_to(tmp_path / "other")
        with pytest.raises(RunError, match=r"decisions\.count: is a link to"):
            Journal(path).append([Wish("e", "cat", "keep")])
        assert (path.read_bytes(), (tmp_path / "other").read_text()) == (before, "precious")


class TestAccepting:
    def damaged(self, path, change):
        path.write_bytes(change(path.read_bytes()))
        return Journal(path, by="ann")

    @pytest.mark.parametrize(
        "change",
        [
            lambda content: content.replace(b"dog", b"dig", 1),
            lambda content: content.replace(b'"id": "d"', b'"id": "?"', 1),  # the last line
            lambda content: content[:-30],
            lambda content: content[content.index(b"\n") + 1 :],
            lambda content: content + content,
            lambda _: b"",
        ],
    )
    def test_it_ends_warnings_and_changes_no_line(self, path, change):
        journal = self.damaged(path, change)
        found, before, kept = journal.damage(), path.read_bytes(), state(path)
        assert found
        assert journal.accept_damage() == found
        assert path.read_bytes().startswith(before)
        assert not journal.damage()
        assert not Journal(path).damage()
        assert state(path) == kept
        last = json.loads(lines_of(path)[-1])
        assert (last["action"], last["damage"], last["by"]) == ("accept", str(found), "ann")
        journal.append([Wish("e", "cat", "keep")])
        assert not Journal(path).damage()

    def test_without_damage_nothing_is_written(self, path):
        before = path.read_bytes()
        assert not Journal(path).accept_damage()
        assert path.read_bytes() == before

    def test_later_damage_is_not_accepted(self, path):
        journal = self.damaged(path, lambda content: content.replace(b"dog", b"dig", 1))
        journal.accept_damage()
        journal.append([Wish("e", "cat", "keep")])
        content, lines = path.read_bytes(), lines_of(path)
        for number, word in ((1, b'"a"'), (6, b"before"), (7, b'"e"')):
            path.write_bytes(content.replace(word, b"?" * len(word), 1))
            assert number in Journal(path).damage().unreadable
        path.write_bytes(b"".join(lines[:2] + lines[3:]))
        assert Journal(path).damage()
        path.write_bytes(b"".join(lines[:-1]))
        assert Journal(path).damage() == Damage(num_lost=1)

    def test_more_damage_can_be_accepted_later(self, path):
        self.damaged(path, lambda content: content.replace(b"dog", b"dig", 1)).accept_damage()
        journal = self.damaged(path, lambda content: content.replace(b'"a"', b'"?"', 1))
        assert journal.accept_damage().unreadable == (1, 2)
        assert not Journal(path).damage()


def without_checksum(line):
    """Return a line of the journal as somebody would write it by hand."""
    content = json.loads(line)
    del content["crc32"]
    return json.dumps(content).encode()


def test_a_line_without_a_checksum_is_damaged(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + without_checksum(lines[1]) + b"\n" + b"".join(lines[2:]))
    assert Journal(path).damage() == Damage(unreadable=(2,))
    assert "b" not in Journal(path).decisions()


def test_fields_to_come_are_ignored(path):
    lines = path.read_bytes().splitlines(keepends=True)
    line = without_checksum(lines[0]).replace(b'"by": "ann"', b'"by": "ann", "reason": "blurred"')
    path.write_bytes(line[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(line) + b"".join(lines[1:]))
    assert not Journal(path).damage()
    assert "a" in Journal(path).decisions()


def test_a_message_names_few_lines(path):
    assert str(Damage((3,))) == "line 3 cannot be read"
    assert str(Damage((3, 17), 1200, (20,), (4, 5))) == (
        "lines 3 and 17 cannot be read; 1,200 entries are missing before line 20; lines 4 and 5 are out of order"
    )
    assert str(Damage(tuple(range(1, 2001)))) == "2,000 lines (1, 2, 3, 4, 5, ...) cannot be read"


def test_a_csv_is_not_written_without_lost_decisions_unless_forced(path, tmp_path):
    path.write_bytes(path.read_bytes().replace(b"dog", b"dig", 1))
    with pytest.raises(RunError, match=r"decisions\.jsonl: line 2 cannot be read; restore .* backup, .* force=True"):
        Journal(path).to_csv(tmp_path / "decisions.csv")
    assert not (tmp_path / "decisions.csv").exists()
    assert Journal(path).to_csv(tmp_path / "decisions.csv", force=True) == 2


class TestRun:
    @pytest.fixture
    def damaged(self, stored):
        """A stored run with three decisions, of which the second cannot be read."""
        run = stored("digits")
        ids, names = RunDir(run).labels()["id"].to_pylist()[:3], RunDir(run).data()["class_names"]
        given = [names[number] for number in RunDir(run).labels()["given"].to_pylist()[:3]]
        other = ["1" if name != "1" else "2" for name in given]
        journal = Journal(run / "decisions.jsonl")
        journal.append([Wish(*row) for row in zip(ids, given, ["relabel"] * 3, other, strict=True)])
        content = journal.path.read_bytes()
        journal.path.write_bytes(content.replace(b'"sequence": 2', b'"sequence": 6'))
        return run

    def test_export_refuses_without_force(self, damaged, call, done):
        refused = call("export", damaged)
        assert refused.exit_code == 2
        assert re.search(
            r"decisions\.jsonl: line 2 cannot be read; restore .* from a backup, .*--force", refused.stderr
        )
        assert refused.stderr.count("\n") == 1
        assert not (damaged / "export").exists()
        found = json.loads(done("export", damaged, "--force", "--json"))
        assert found["changed_by_person"] == 2
        manifest = json.loads((damaged / "export" / "export.json").read_text())
        assert any("line 2 cannot be read" in text for text in manifest["warnings"])

    def test_export_in_python_refuses_without_force(self, damaged, tmp_path):
        run, audit = RunDir(damaged), surelabel.audit(damaged)
        decisions = Journal(damaged / "decisions.jsonl").decisions()
        with pytest.raises(RunError, match=r"line 2 cannot be read.*force=True"):
            export(run, audit, decisions, tmp_path / "out")
        written = export(run, audit, decisions, tmp_path / "out", force=True)
        assert written.counts["changed_by_person"] == 2
        assert any("line 2 cannot be read" in text for text in written.warnings)

    def test_accepted_damage_needs_no_force(self, damaged, call, done):
        advised = re.search(r"surelabel (review .* --accept-damage)", call("export", damaged).stderr)[1]
        said = done(*shlex.split(advised), "--by", "ann")
        assert re.search(r"decisions\.jsonl: line 2 cannot be read: accepted\n2 decisions can be read", said)
        assert json.loads(done("export", damaged, "--json"))["changed_by_person"] == 2
        assert "damaged" not in done("audit", damaged)
        assert "is not damaged" in done("review", damaged, "--accept-damage")

    def test_report_warns(self, damaged, call, tmp_path):
        """The report itself has the warning of the audit."""
        told = call("report", damaged, "--out", tmp_path / "report.html")
        assert re.search(r"warning: .*decisions\.jsonl is damaged: line 2 cannot be read; restore", told.stderr)
        assert "line 2 cannot be read" in (tmp_path / "report.html").read_text()

    def test_audit_warns(self, damaged, done):
        """The report and the review page show the same warnings."""
        assert "decisions.jsonl, is damaged: line 2 cannot be read" in done("audit", damaged)
