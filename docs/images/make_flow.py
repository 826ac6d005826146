"""Make docs/images/flow.png: the report's summary beside the review page, of a real run.

    python examples/dirty_folder.py dirty
    surelabel fit dirty --epochs 60 --out runs/dirty
    surelabel report runs/dirty
    python docs/images/make_flow.py runs/dirty

It needs playwright (the extra `dev`) and chromium.
"""

import argparse
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FILE = Path(__file__).with_name("flow.png")
WIDTHS, HEIGHT, SHRUNK_TO = (880, 1240), 860, 690
GAP = 20


@contextmanager
def serve_review(run: Path) -> Iterator[str]:
    """Serve the review page of a run, and yield its address."""
    command = [sys.executable, "-u", "-m", "surelabel", "review", str(run), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def take_pictures(run: Path, address: str) -> list[Image.Image]:
    """Take a picture of the report and one of the review page."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        pictures = []
        for place, width in zip(((run / "report.html").absolute().as_uri(), address), WIDTHS, strict=True):
            page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme="light")
            page.goto(place)
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(500)
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            size = (width * SHRUNK_TO // HEIGHT, SHRUNK_TO)
            pictures.append(picture.resize(size, Image.Resampling.LANCZOS))
        browser.close()
    return pictures


def main() -> None:
    """Put both pictures side by side, and write them with few colours to keep the file small."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    with serve_review(run) as address:
        left, right = take_pictures(run, address)
    whole = Image.new("RGB", (left.width + GAP + right.width, left.height), "white")
    whole.paste(left, (0, 0))
    whole.paste(right, (left.width + GAP, 0))
    whole.quantize(256, dither=Image.Dither.NONE).save(FILE, optimize=True)
    print(f"{FILE}: {FILE.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
