"""The commands on the pages run, and print what the pages show."""

import difflib
import re
import runpy
from pathlib import Path

import pytest

RUNNER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "tutorials" / "run_tutorials.py"))
PAGES = RUNNER["list_pages"]()
NEEDED = 0.85
"""How alike outputs must be: processors round differently, so a few suspects may move."""


def words_of(page):
    """Return the lines of output with numbers masked."""
    return [re.sub(r"\S*\d\S*", "#", line) for line in RUNNER["outputs_of"](page)]


FAST = (pytest.mark.timeout(900),)  # seconds of work, but many processes that start anew
SLOW = (pytest.mark.slow, pytest.mark.timeout(3600))


@pytest.mark.training
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=FAST if page.is_fast else SLOW) for page in PAGES]
)
def test_a_page_shows_what_its_commands_print(page, tmp_path):
    if missing := RUNNER["missing_data"](page):
        pytest.skip(f"$SURELABEL_SHARED_DATA lacks {', '.join(missing)}")
    shown, printed = words_of(page.path.read_text(encoding="utf-8")), words_of(RUNNER["rerun"](page, tmp_path))
    assert difflib.SequenceMatcher(None, shown, printed).ratio() >= NEEDED, "\n".join(
        difflib.unified_diff(shown, printed)
    )


def test_no_page_waits_for_its_output():
    for page in PAGES:
        assert "```text\n```" not in page.path.read_text(encoding="utf-8"), f"{page.name}: run make tutorials"


@pytest.fixture
def page(tmp_path):
    """Write a page, and return what it becomes when it is run."""

    def rerun(text):
        (tmp_path / "page.md").write_text(text)
        (tmp_path / "work").mkdir()
        return RUNNER["rerun"](RUNNER["Page"](tmp_path / "page.md", True, ()), tmp_path / "work")

    return rerun


def test_output_replaces_the_text_after_a_command(page):
    assert (
        page("a\n```sh\necho one\n```\n\n```text\nold\n```\nb\n") == "a\n```sh\necho one\n```\n\n```text\none\n```\nb\n"
    )


def test_files_are_written_and_lines_left_out(page):
    text = page(
        "<!-- file: a.txt -->\n```text\nx\n```\n\n<!-- omit: ^skip -->\n"
        "```python\nprint(open('a.txt').read())\nprint('skip')\n```\n\n```text\n```\n"
    )
    assert text.endswith("```text\nx\n\n...\n```\n")


def test_a_command_that_fails_is_an_error_unless_the_page_says_so(page, tmp_path):
    with pytest.raises(SystemExit, match="exit code 3"):
        page("```sh\nexit 3\n```\n")
    (tmp_path / "work" / "examples").unlink()
    (tmp_path / "work").rmdir()
    assert "<!-- fails -->" in page("<!-- fails -->\n```sh\nexit 3\n```\n")
