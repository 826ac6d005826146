"""The documentation builds offline without a warning, and its pages load nothing from elsewhere."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning, such as a link that leads nowhere, fails the build."""
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", folder / "doctrees", DOCS, folder / "html"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "html"


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


def test_nothing_is_loaded_from_elsewhere(site):
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


def test_every_method_has_a_page_with_equation_options_and_results(site):
    for name in names():
        page = (site / "methods" / f"{name}.html").read_text()
        for heading in ("When to use it", "Cost", "Options", "Results on digits"):
            assert f"{heading}<a" in page, (name, heading)
    car = (site / "methods" / "car.html").read_text()
    assert "L_CAR = L_cace + lambda L_p + beta L_r-cace" in car
    assert "penalty_weight" in car
    assert "0.981 ± 0.003" in car


def test_every_public_name_is_in_the_reference(site):
    import surelabel
    from surelabel import core, losses

    for module in (surelabel, core, losses):
        page = (site / "api" / f"{module.__name__.removeprefix('surelabel.')}.html").read_text()
        for name in set(module.__all__) - {"__version__"}:
            assert f'<span class="pre">{name}</span>' in page, name
