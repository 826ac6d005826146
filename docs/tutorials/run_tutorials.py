"""Run the commands on the pages of the documentation and write their real output into the pages.

    python docs/tutorials/run_tutorials.py                # all pages; or the names of some
    python docs/tutorials/run_tutorials.py --fast table   # pages marked fast, and table

A page takes part if its first lines hold `<!-- tutorial: fast -->` or `<!-- tutorial: slow, needs
cifar10/train.parquet, with photos -->`. Files that it needs are looked for in
$SURELABEL_SHARED_DATA. Pretrained features are switched off, so that pages look the same with and
without their packages; `with photos` or `with words` names an extra and leaves its features on. The
blocks of a page run in order, in one empty folder that has the repository's `examples`:

- `sh` blocks run in bash, `python` blocks as scripts. A `text` block right after one is its output.
- `<!-- file: new.csv -->` before a `text` block writes that file.
- `<!-- fails -->` before a block: the command must end with an error.
- `<!-- omit: REGEX -->` before a block: "..." stands for output lines that match.
- All other blocks, such as `bash` and `py`, are only shown.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from surelabel.encoding.registry import BACKBONES

DOCS = Path(__file__).parents[1]
MARK = re.compile(r"<!-- tutorial: (fast|slow)(?:, needs ([^,]+?))?(?:, with (photos|words))? -->")
BLOCK = re.compile(
    r"(?P<notes>(?:<!-- (?:file|fails|omit).*? -->\n+)*)^```(?P<kind>sh|python|text)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Page:
    """A page whose blocks can be run."""

    path: Path
    is_fast: bool
    needs: tuple[str, ...]
    extra: str | None = None
    """The extra whose pretrained network the page shows."""

    @property
    def name(self) -> str:
        """Return the name that the command line takes."""
        return self.path.stem


def list_pages() -> list[Page]:
    """List the pages that have the mark."""
    pages = []
    for path in sorted(DOCS.rglob("*.md")):
        if found := MARK.search(path.read_text(encoding="utf-8")[:500]):
            pages.append(Page(path, found[1] == "fast", tuple((found[2] or "").split()), found[3]))
    return pages


def missing_data(page: Page) -> list[str]:
    """Return the files, and the extra, that a page needs and that are not there."""
    missing = [name for name in page.needs if not (_shared_data() / name).exists()]
    has_extra = page.extra is None or any(known.extra == page.extra and known.is_installed() for known in BACKBONES)
    return missing if has_extra else [*missing, f"surelabel[{page.extra}]"]


def rerun(page: Page, folder: Path) -> str:
    """Run the blocks of a page in an empty folder, and return the page with their output."""
    (folder / "examples").symlink_to(DOCS.parent / "examples")
    for name in page.needs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(_shared_data() / name)
    text = page.path.read_text(encoding="utf-8")
    parts, end, output = [], 0, None
    for block in BLOCK.finditer(text):
        between = text[end : block.start()]
        body = block["body"]
        if block["kind"] == "text" and "file: " in block["notes"]:
            (folder / re.search(r"file: (\S+)", block["notes"])[1]).write_text(body, encoding="utf-8")
            output = None
        elif block["kind"] == "text":
            if output is not None and not between.strip():
                body = output
            output = None
        else:
            output = _run(block["kind"], body, block["notes"], folder, page.extra)
        parts += [between, block["notes"], f"```{block['kind']}\n{body}```"]
        end = block.end()
    return "".join([*parts, text[end:]])


def outputs_of(text: str) -> Iterator[str]:
    """Yield the lines of output on a page."""
    for block in BLOCK.finditer(text):
        if block["kind"] == "text":
            yield from block["body"].splitlines()


def _shared_data() -> Path:
    return Path(os.environ.get("SURELABEL_SHARED_DATA", "data")).absolute()


def _run(kind: str, code: str, notes: str, folder: Path, extra: str | None) -> str:
    command = ["bash", "-eo", "pipefail", "-c", code] if kind == "sh" else [sys.executable, "-c", code]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "110",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "SURELABEL_CACHE": str(folder / ".cache"),
        "SURELABEL_FEATURES": "none" if extra is None else "auto",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if (done.returncode != 0) != ("fails" in notes):
        raise SystemExit(f"exit code {done.returncode}:\n{code}\n{done.stdout}")
    omitted = re.search(r"omit: (.+) -->", notes)
    return _shorten(done.stdout, omitted[1] if omitted else None)


def _shorten(output: str, omitted: str | None) -> str:
    """Put "..." in place of lines that are left out, and end in one newline."""
    lines: list[str] = []
    for line in output.strip("\n").splitlines():
        if omitted is None or not re.search(omitted, line):
            lines.append(line.rstrip())
        elif lines[-2:] == ["...", ""]:
            lines.pop()
        elif lines[-1:] != ["..."]:
            lines.append("...")
    return "\n".join(lines) + "\n" if lines else ""


def main() -> None:
    """Run pages and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="pages to run; all without any")
    parser.add_argument("--fast", action="store_true", help="run all pages marked fast")
    options = parser.parse_args()
    pages = list_pages()
    if unknown := set(options.names) - {page.name for page in pages}:
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(page.name for page in pages)}")
    chosen = [page for page in pages if page.name in options.names or (options.fast and page.is_fast)]
    for page in chosen if options.names or options.fast else pages:
        if missing := missing_data(page):
            print(f"{page.name}: not run; missing in $SURELABEL_SHARED_DATA or from pip: {', '.join(missing)}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            page.path.write_text(rerun(page, Path(folder)), encoding="utf-8")
        print(f"{page.name}: written")


if __name__ == "__main__":
    main()
