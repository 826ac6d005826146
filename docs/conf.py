"""Sphinx configuration: `make docs` builds the site offline into docs/_build/html."""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

from surelabel import __version__  # noqa: E402

project = "surelabel"
author = "The surelabel developers"
copyright = "The surelabel developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "method_pages",
    "public_names",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"surelabel {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
highlight_language = "none"
# Blocks marked `text` show output, which readers do not copy.
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"

autodoc_member_order = "bysource"
default_role = "code"
autodoc_typehints_format = "short"


def link_to_site(_app: Any, _page: str, source: list[str]) -> None:
    """Lead links to files of the repository's root to the pages that include them."""
    source[0] = re.sub(
        r"\]\((?:\.\./)+(CHANGELOG|CONTRIBUTING|SECURITY)\.md", lambda found: f"](/{found[1].lower()}.md", source[0]
    )


def setup(app: Any) -> None:
    """Register the rewriting of links."""
    app.connect("source-read", link_to_site)
