"""A second service on this machine beside a review: what it is sent, and what it does with it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import scenes
from processes import SOURCE, environment_of
from tally import Options, Tally

sys.path.insert(0, str(SOURCE.parent / "tests" / "reviewing"))

from second_service import SPELLINGS, WAYS, SecondService, attack, has_ipv6, leaks, second_service, visit

NUM_VISITS = 12


def run_services(options: Options) -> Tally:
    """Visit a second service in the browser of a review, and attack with all that it saw."""
    tally = Tally("services", planned=options.count or 500)
    chromium = os.environ.get("SURELABEL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if not chromium:
        tally.leave_out("all", "needs playwright and Debian's chromium")
        return tally
    address, process, journal = _serve(options)
    try:
        with sync_playwright() as started, second_service() as service:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            rows = _browse(tally, browser, service, address, options.random("visits"))
            browser.close()
            before = journal.read_bytes()
            while tally.tried < tally.planned:
                case, fault = attack(address, service, options.random("attack", tally.tried), rows)
                if journal.read_bytes() != before:
                    fault = "wrote a decision"
                tally.judge(f"request {tally.tried} of seed {options.seed}: {case}", fault)
    finally:
        process.terminate()
        process.wait()
    return tally


def _serve(options: Options) -> tuple[str, subprocess.Popen, Path]:
    """Train on tiny photos and serve the review; return its address, process and journal."""
    photos, environment = scenes.write_photos(options.folder / "photos"), environment_of(options.folder)
    command = [sys.executable, "-m", "surelabel"]
    words = [*scenes.fit_words("cross_entropy", data=str(photos)), "--set", "data.image_size=16"]
    subprocess.run([*command, *words], cwd=options.folder, env=environment, check=True, capture_output=True)
    words = [*command, "review", "run", "--no-open"]
    process = subprocess.Popen(words, cwd=options.folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process.stdout.readline().strip(), process, options.folder / "run" / "decisions.jsonl"


def _browse(tally: Tally, browser, service: SecondService, address: str, random: Random) -> list[str]:
    """Review and visit the service in turn, each visit a case; return the ids of the rows."""
    from playwright.sync_api import expect

    page = browser.new_context().new_page()
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    page.keyboard.press("f")
    page.fill("#filter-low", "0")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator("#id")).not_to_be_empty()
    rows = [page.locator("#id").text_content()]
    page.keyboard.press("k")
    expect(page.locator("#count-keep")).to_have_text("1")
    for number in range(NUM_VISITS):
        spelling, way = random.choice(SPELLINGS[:2]), random.choice(WAYS)
        visit(page, service, address, spelling, way)
        found = leaks(service, address.partition("=")[2])
        tally.judge(f"visit {number}: {way} at {spelling}", "; ".join(found) or None)
    if not has_ipv6():
        tally.leave_out("the review's port on ::1", "this machine has no ::1")
        return rows
    with second_service("::1", urlsplit(address).port) as other:
        for spelling in SPELLINGS[1:]:
            visit(page, other, address, spelling, "link")
            tally.judge(f"our port at {spelling}", "; ".join(leaks(other, address.partition("=")[2])) or None)
        service.seen.extend(other.seen)
    return rows
