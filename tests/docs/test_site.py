"""The documentation builds offline without a warning, and its pages load nothing from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from surelabel.methods import names

DOCS = Path(__file__).parents[2] / "docs"
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
LINKS_THAT_LOAD = {"stylesheet", "preload", "icon", "preconnect", "dns-prefetch", "modulepreload"}


def build(folder):
    """Build the site; a warning, such as a link that leads nowhere, fails the build."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", folder / "doctrees", DOCS, folder / "html"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "html"


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path):
    # One test, because the build takes 20 seconds and workers share nothing.
    site = build(tmp_path)
    check_loads(site)
    check_methods(site)
    check_reference(site)


class Loads(HTMLParser):
    """Collects the addresses that a browser loads by itself when it opens a page."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in LOADED:
            self.found += [attrs.get(LOADED[tag]) or "", *(attrs.get("srcset") or "").split()]
        if tag == "link" and LINKS_THAT_LOAD & set((attrs.get("rel") or "").split()):
            self.found.append(attrs.get("href") or "")


def from_elsewhere(addresses):
    return [address for address in addresses if address.startswith(("http:", "https:", "//"))]


def check_loads(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 80
    assert {page.name: found for page in pages if (found := from_elsewhere(Loads(page.read_text()).found))} == {}
    for style in site.rglob("*.css"):
        assert not any(
            f"{start}//" in style.read_text() for start in ("url(", "url('", 'url("', "url(http:", "url(https:")
        )
        assert "@import" not in style.read_text()


def test_a_page_that_loads_something_is_noticed():
    page = '<link rel="stylesheet" href="https://a/b.css"><script src="//c/d.js"></script><a href="https://e">f</a>'
    assert from_elsewhere(Loads(page).found) == ["https://a/b.css", "//c/d.js"]


def check_methods(site):
    for name in names():
        page = (site / "methods" / f"{name}.html").read_text()
        for heading in ("When to use it", "Cost", "Options", "Results on digits"):
            assert f"{heading}<a" in page, (name, heading)
    elr = (site / "methods" / "elr.html").read_text()
    assert re.search(r"<pre><span></span>p~ = softmax\(z\)", elr)  # the docstring begins with its equations
    car = (site / "methods" / "car.html").read_text()
    assert "L_CAR = L_cace + lambda L_p + beta L_r-cace" in car
    assert "penalty_weight" in car
    leaderboard = (DOCS / "results" / "leaderboard-symmetric-40.md").read_text()
    assert re.search(r"^\| car \| \d \| (0\.\d+ ± 0\.\d+)", leaderboard, re.MULTILINE)[1] in car


def check_reference(site):
    import surelabel
    from surelabel import callbacks, core, losses

    for module in (surelabel, core, losses, callbacks):
        page = (site / "api" / f"{module.__name__.removeprefix('surelabel.')}.html").read_text()
        for name in set(module.__all__) - {"__version__"}:
            assert f'<span class="pre">{name}</span>' in page, name


README = DOCS.parent / "README.md"


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_readme_shows_what_the_start_page_shows():
    readme, start = README.read_text(), (DOCS / "start.md").read_text()
    assert set(blocks(readme, "python")) <= set(blocks(start, "python"))
    output = "".join(blocks(start, "text")).splitlines()
    for line in "".join(blocks(readme, "text")).splitlines():
        assert line == "..." or line in output
    commands = "".join(blocks(start, "sh") + blocks(start, "bash"))
    assert all(command in commands for command in blocks(readme, "sh") if not command.startswith("make"))


def test_readme_is_short_and_its_links_lead_somewhere():
    text = README.read_text()
    assert len(text.splitlines()) < 150
    targets = [target for target in re.findall(r"\]\(([^)#]+)", text) if not target.startswith("http")]
    assert len(targets) > 20
    assert [target for target in targets if not (README.parent / target).is_file()] == []


def test_home_page_leads_to_the_answer_of_every_question_within_two_clicks():
    assert "](questions.md)" in (DOCS / "index.md").read_text()
    rows = [line for line in (DOCS / "questions.md").read_text().splitlines() if "?" in line and line.startswith("| ")]
    assert len(rows) >= 10
    for row in rows:
        targets = re.findall(r"\]\(([^)#]+)", row)
        assert targets, row
        assert all((DOCS / target).is_file() for target in targets)
