"""Opening the page in a browser."""

import os
import sys
import webbrowser


def open_page(address: str) -> bool:
    """Show the address where there is a desktop; elsewhere Python would start a text browser in the terminal."""
    has_desktop = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return has_desktop and webbrowser.open(address)
