"""Atomic writes, locks, and links that are never followed."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from surelabel import files
from surelabel.errors import ConfigError, RunError


@pytest.fixture
def victim(tmp_path):
    """Write a user's file that nothing may touch."""
    path = tmp_path / "home" / "precious.txt"
    path.parent.mkdir()
    path.write_text("precious")
    return path


class TestReplace:
    def test_a_link_is_replaced_and_what_it_leads_to_stays(self, tmp_path, victim):
        (tmp_path / "out.txt").symlink_to(victim)
        files.replace_text(tmp_path / "out.txt", "new", files.unlisted)
        assert (tmp_path / "out.txt").read_text() == "new"
        assert not (tmp_path / "out.txt").is_symlink()
        assert victim.read_text() == "precious"

    def test_temporary_names_differ_each_time(self, tmp_path):
        seen = []
        for _ in range(2):
            files.replace(tmp_path / "a.txt", lambda path: (seen.append(path.name), path.write_text("x")))
        assert len(set(seen)) == 2
        assert all(name.startswith(".a.txt.") and name.endswith(files.TEMPORARY_SUFFIX) for name in seen)

    def test_a_name_that_is_taken_is_not_opened(self, tmp_path, victim, monkeypatch):
        monkeypatch.setattr(files.secrets, "token_hex", lambda _: "known")
        (tmp_path / ".a.txt.known.tmp").symlink_to(victim)
        with pytest.raises(FileExistsError):
            files.replace_text(tmp_path / "a.txt", "new")
        assert victim.read_text() == "precious"

    def test_modes_follow_the_umask(self, tmp_path):
        before = os.umask(0o027)
        try:
            files.replace_text(tmp_path / "a.txt", "x")
        finally:
            os.umask(before)
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640

    def test_csv_cells_with_commas_and_line_ends(self, tmp_path):
        files.replace_csv(tmp_path / "a.csv", ("id", "label"), [("1", 'a,"b"'), ("2", "c\nd")])
        assert (tmp_path / "a.csv").read_bytes() == b'id,label\r\n1,"a,""b"""\r\n2,"c\nd"\r\n'


class TestLeftovers:
    """What a killed writer leaves beside its file is removed when that file is written again."""

    def test_that_of_a_killed_process_is_removed(self, tmp_path):
        code = (
            "import os, signal, sys; from pathlib import Path; from surelabel import files\n"
            "files.replace(Path(sys.argv[1]), lambda path: os.kill(os.getpid(), signal.SIGKILL))"
        )
        killed = subprocess.run([sys.executable, "-c", code, tmp_path / "table.md"])
        assert killed.returncode == -signal.SIGKILL
        assert len(list(tmp_path.glob(".table.md.*.tmp"))) == 1
        files.replace_text(tmp_path / "table.md", "new", files.unlisted)
        assert [path.name for path in tmp_path.iterdir()] == ["table.md"]

    def test_that_of_a_writer_at_work_stays(self, tmp_path):
        def write(temporary):
            files.replace_text(tmp_path / "table.md", "of another process", files.unlisted)
            temporary.write_text("new")

        files.replace(tmp_path / "table.md", write, files.unlisted)
        assert (tmp_path / "table.md").read_text() == "new"
        assert [path.name for path in tmp_path.iterdir()] == ["table.md"]

    def test_a_writer_whose_file_was_taken_for_one_makes_another(self, tmp_path, monkeypatch):
        flock, removed = fcntl.flock, []

        def remove_first(descriptor, kind):
            if not removed:
                removed.extend(tmp_path.glob(".table.md.*.tmp"))
                removed[0].unlink()
            flock(descriptor, kind)

        monkeypatch.setattr(fcntl, "flock", remove_first)
        with files.new_file(tmp_path / "table.md") as temporary:
            assert temporary.is_file()
            assert temporary != removed[0]

    def test_other_files_stay(self, tmp_path, victim):
        token = "0123456789abcdef"
        kept = [".table.md.notes.tmp", f".other.md.{token}.tmp", f"table.md.{token}.tmp", f".table.md.{token}.tmp2"]
        for name in kept:
            (tmp_path / name).write_text("x")
        (tmp_path / f".table.md.{token}.tmp").symlink_to(victim)
        (tmp_path / f".table.md.{token[::-1]}.tmp").mkdir()
        before = sorted(tmp_path.iterdir())
        files.replace_text(tmp_path / "table.md", "new", files.unlisted)
        assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "table.md"])
        assert victim.read_text() == "precious"

    def test_a_file_system_without_locks_keeps_them(self, tmp_path, monkeypatch):
        def fail(*_):
            raise OSError(errno.ENOTSUP, "not supported")

        monkeypatch.setattr(fcntl, "flock", fail)
        left = tmp_path / ".table.md.0123456789abcdef.tmp"
        left.write_text("perhaps at work")
        files.replace_text(tmp_path / "table.md", "new")
        assert left.exists()
        assert (tmp_path / "table.md").read_text() == "new"


class TestLinks:
    @pytest.mark.parametrize("use", [lambda path: files.locked(path).__enter__(), lambda p: files.append_line(p, "x")])
    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_link_is_refused(self, tmp_path, victim, use, is_there):
        target = victim if is_there else victim.with_name("new.txt")
        (tmp_path / "lock").symlink_to(target)
        with pytest.raises(RunError, match="is a link to"):
            use(tmp_path / "lock")
        assert victim.read_text() == "precious"
        assert [path.name for path in victim.parent.iterdir()] == ["precious.txt"]

    def test_a_link_laid_between_looking_and_opening_is_not_followed(self, tmp_path, victim, monkeypatch):
        (tmp_path / "lock").symlink_to(victim)
        monkeypatch.setattr(files, "refuse_link", lambda _: None)
        with pytest.raises(OSError, match="Too many levels"):
            files.append_line(tmp_path / "lock", "x")
        assert victim.read_text() == "precious"

    def test_a_pipe_is_refused_at_once(self, tmp_path):
        os.mkfifo(tmp_path / "lock")
        with pytest.raises(RunError, match="expected a regular file"), files.locked(tmp_path / "lock"):
            pytest.fail("opened")

    def test_leftovers_are_removed_and_what_links_lead_to_is_not(self, tmp_path, victim):
        (tmp_path / ".a.1.tmp").symlink_to(victim)
        (tmp_path / ".b.2.tmp").symlink_to(victim.parent)
        (tmp_path / ".c.3.tmp").mkdir()
        (tmp_path / ".c.3.tmp" / "half").write_text("x")
        (tmp_path / ".d.4.tmp").write_text("x")
        files.remove_unfinished(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["home"]
        assert victim.read_text() == "precious"


class TestOverwriting:
    @pytest.fixture
    def data(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "data.csv").write_text("x,label\n")
        (tmp_path / "link.csv").symlink_to("data.csv")
        (tmp_path / "hard.csv").hardlink_to("data.csv")
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "in.csv").write_text("x")
        (tmp_path / "around").symlink_to("folder")
        return tmp_path

    @pytest.mark.parametrize("spelling", ["data.csv", "./folder/../data.csv", "link.csv", "hard.csv", "{}/data.csv"])
    def test_every_way_to_an_input_is_refused(self, data, spelling):
        out = data.__class__(spelling.format(data))
        with pytest.raises(ConfigError, match=r"--out .*: is the input data.csv"):
            files.refuse_overwriting([out], [data.__class__("data.csv")], "--out")
        with pytest.raises(ConfigError, match="is the input"):
            files.refuse_overwriting([data / "data.csv"], [out])

    @pytest.mark.parametrize("spelling", ["folder/in.csv", "around/in.csv"])
    def test_a_file_of_an_input_folder_is_refused(self, data, spelling):
        with pytest.raises(ConfigError, match="lies in the input folder"):
            files.refuse_overwriting([data.__class__(spelling)], [data.__class__("folder")])

    def test_new_files_are_allowed(self, data):
        new = [data / "new.csv", data / "folder" / "new.csv"]
        files.refuse_overwriting(new, [data / "folder", data / "missing.csv"])

    @pytest.mark.parametrize("name", ["data.csv", "link.csv", "hard.csv"])
    def test_a_file_of_the_user_is_not_replaced(self, data, name):
        with pytest.raises(ConfigError, match=f"{name}: surelabel did not write this file"):
            files.replace_text(data / name, "new")
        assert (data / "data.csv").read_text() == "x,label\n"

    def test_an_output_is_replaced_until_somebody_changes_it(self, data):
        for text in ("first", "second", "first"):
            files.replace_text(data / "out.txt", text)
        (data / "out.txt").write_text("first, and notes")
        with pytest.raises(ConfigError, match=r"out\.txt: .*changed since"):
            files.replace_text(data / "out.txt", "third")

    def test_a_renamed_output_belongs_to_the_user(self, data):
        files.replace_text(data / "out.txt", "first")
        (data / "out.txt").rename(data / "kept.txt")
        with pytest.raises(ConfigError, match=r"kept\.txt"):
            files.replace_text(data / "kept.txt", "second")

    def test_a_list_whose_end_is_cut_off_goes_on(self, data):
        files.replace_text(data / "out.txt", "first")
        with (data / files.OUTPUTS_FILE).open("a") as file:
            file.write('["half')
        for text in ("second", "third"):
            files.replace_text(data / "out.txt", text)

    def test_a_killed_writer_leaves_an_output_that_can_be_replaced(self, data, monkeypatch):
        files.replace_text(data / "out.txt", "first")
        with monkeypatch.context() as patched:
            patched.setattr("pathlib.Path.replace", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                files.replace_text(data / "out.txt", "second")
        files.replace_text(data / "out.txt", "third")


class TestWaiting:
    def test_a_process_that_waits_for_a_lock_says_so(self, tmp_path, monkeypatch, caplog):
        """As `audit` does while another process writes decisions."""
        monkeypatch.setattr(files, "SAY_WAITING_AFTER", 0.01)
        (tmp_path / "decisions.jsonl").touch()
        self.wait_for(lambda: files.locked(tmp_path / "decisions.jsonl"), caplog)
        assert caplog.messages == [f"waiting for another process that uses {tmp_path / 'decisions.jsonl'}"]

    def test_so_does_one_that_waits_for_a_folder(self, tmp_path, monkeypatch, caplog):
        monkeypatch.setattr(files, "SAY_WAITING_AFTER", 0.01)
        self.wait_for(lambda: files.locked_folder(tmp_path), caplog)
        assert caplog.messages == [f"waiting for another process that uses {tmp_path}"]

    def test_one_that_does_not_wait_long_says_nothing(self, tmp_path, caplog):
        with files.locked(tmp_path / "lock"):
            pass
        assert caplog.messages == []

    def wait_for(self, lock, caplog):
        """Lock in another thread what is held here, and let go when that has been said."""
        with ThreadPoolExecutor(1) as thread:
            with lock():
                waiting = thread.submit(self.enter, lock)
                while not caplog.messages and not waiting.done():
                    time.sleep(0.01)
            assert waiting.result()

    def enter(self, lock):
        with lock():
            return True
