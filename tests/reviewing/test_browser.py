"""The review page in a real browser."""

import csv
import re
import signal

import pytest
from playwright.sync_api import expect
from tests.reviewing.browsing import ThreadServer, expect_counts, press, widen
from tests.reviewing.conftest import plant_kinds

from surelabel.reviewing.server import make_review
from surelabel.runs.decisions import Journal
from surelabel.verdicts import Audit, audit

pytestmark = pytest.mark.training  # slow: a browser takes seconds to start

NUM_REVIEWED = 20


def test_a_review_by_keyboard_with_a_reload_a_crash_and_an_export(process_server, opened):
    service = process_server
    page = opened(service.address)
    expect(page).to_have_url(re.compile(r"/$"))  # the key is removed from the address
    left = page.locator("#count-left").text_content()
    reviewed = [(press(page, key), key) for key in ("kaas12akas" * 2)]
    assert len({id for id, _ in reviewed}) == NUM_REVIEWED
    by_key = {key: [id for id, pressed in reviewed if pressed == key] for key in "kas12"}
    held = Journal(service.journal).decisions()
    assert list(held) == [id for id, _ in reviewed]
    assert {held[id].action for id in by_key["k"]} == {"keep"}
    assert {held[id].action for id in by_key["s"]} == {"skip"}
    names = sorted({entry.given for entry in held.values()})
    assert {held[id].label for id in by_key["1"]} == {names[0]}
    assert {held[id].label for id in by_key["2"]} == {names[1]}
    assert page.locator("#count-left").text_content() != left
    before = [sum(entry.action == action for entry in held.values()) for action in ("keep", "relabel", "skip")]
    expect_counts(page, *before)

    page.keyboard.press("u")
    expect(page.locator("#id")).to_have_text(reviewed[-1][0])
    expect_counts(page, before[0], before[1], before[2] - 1)
    assert service.lines()[-1]["action"] == "undo"

    page.reload()
    expect_counts(page, before[0], before[1], before[2] - 1)
    expect(page.locator("#id")).to_have_text(reviewed[-1][0])  # the first undecided row, with the same filter
    page.keyboard.press("u")  # a decision from before the reload
    expect(page.locator("#id")).to_have_text(reviewed[-2][0])
    press(page, "k")

    written = service.journal.read_bytes()
    page.wait_for_load_state("networkidle")  # an image cut short would be reported as trouble
    page.wait_for_timeout(500)
    service.kill()
    page.keyboard.press("k")
    expect(page.locator(".toast.bad")).to_contain_text("does not answer")
    service.start()
    assert service.journal.read_bytes() == written
    page = opened(service.address)
    expect(page.locator("#id")).to_have_text(reviewed[-1][0])

    page.keyboard.press("e")
    expect(page.locator(".toast.good")).to_contain_text("decisions.csv")
    with (service.run.path / "decisions.csv").open(newline="", encoding="utf-8") as file:
        exported = {row["id"]: row["label"] for row in csv.DictReader(file)}
    final = Journal(service.journal).decisions()
    assert exported == {id: entry.label for id, entry in final.items() if entry.action != "skip"}
    assert 10 < len(exported) < NUM_REVIEWED

    (service.run.path / "decisions.csv").unlink()
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(20) == 0
    assert (service.run.path / "decisions.csv").is_file()  # also written when the server stops


def test_two_tabs_do_not_overwrite_each_other(server, opened):
    service = server()
    one, other = opened(service.address), opened(service.address)
    shown = press(one, "a")
    expect(other.locator("#id")).to_have_text(shown)
    other.keyboard.press("k")
    expect(other.locator(".toast.conflict")).to_contain_text("somebody else was quicker")
    expect(other.locator("#id")).to_have_text(shown)
    expect(other.locator("#state")).to_contain_text("by tester")
    assert [line["action"] for line in service.lines()] == ["relabel"]
    press(other, "k")  # this time on purpose
    assert [line["action"] for line in service.lines()] == ["relabel", "keep"]
    one.keyboard.press("u")
    expect(one.locator(".toast.conflict")).to_be_visible()
    assert len(service.lines()) == 2


def test_the_grid_decides_on_many_at_once(server, opened):
    service = server()
    page = opened(service.address)
    page.keyboard.press("g")
    cards = page.locator("#cards .card")
    expect(cards).to_have_count(60)
    page.keyboard.press("x")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator('.card[aria-selected="true"]')).to_have_count(3)
    page.keyboard.press("a")
    expect(page.locator(".card.decided")).to_have_count(3)
    assert len(service.lines()) == 3
    page.keyboard.press("s")  # without a selection, this decides on the current card
    expect(page.locator(".card.decided")).to_have_count(4)
    page.keyboard.press("u")
    expect(page.locator(".card.decided")).to_have_count(3)
    page.keyboard.press("u")  # all three rows of one decision
    expect(page.locator(".card.decided")).to_have_count(0)
    page.reload()
    expect(cards).to_have_count(60)  # still the grid
    page.keyboard.press("Control+a")
    page.keyboard.press("k")
    expect(page.locator("#empty-title")).to_have_text("Nothing is left to decide here")
    assert len(Journal(service.journal).decisions()) == 60


def test_rows_are_removed_or_left_to_another_by_key_and_by_mouse(server, opened):
    service = server()
    page = opened(service.address)
    removed, unsure = press(page, "r"), press(page, "q")
    expect_counts(page, 0, 0, 0, remove=1, unsure=1)
    shown = page.locator("#id").text_content()
    page.click('[data-action="unsure"]')
    expect(page.locator("#id")).not_to_have_text(shown)
    page.click('[data-action="remove"]')
    expect_counts(page, 0, 0, 0, remove=2, unsure=2)
    page.keyboard.press("u")
    expect_counts(page, 0, 0, 0, remove=1, unsure=2)
    page.keyboard.press("f")
    page.select_option("#filter-state", "unsure")
    expect(page.locator("#id")).to_have_text(unsure)
    expect(page.locator("#state")).to_contain_text("Unsure by tester")
    page.select_option("#filter-state", "removed")
    expect(page.locator("#id")).to_have_text(removed)
    expect(page.locator("#state")).to_contain_text("none of these classes, by tester")


def test_names_are_shown_as_they_are_and_classes_are_found_by_typing(server, opened):
    service = server()
    page = opened(service.address)
    expect(page.locator("#id")).to_contain_text("<b>")
    expect(page.locator("#classes")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator('img[src="x"], #id b').count() == 0
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    shown = page.locator("#id").text_content()
    page.keyboard.press("c")
    page.keyboard.type("zEb")
    expect(page.locator("#chooser-list li")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#id")).not_to_have_text(shown)
    assert Journal(service.journal).decisions()[shown].label == "zebra"
    page.keyboard.press("c")
    page.keyboard.type("k")  # a letter typed in the dialog is not a decision
    page.keyboard.press("Escape")
    expect(page.locator("#chooser")).to_be_hidden()
    assert len(service.lines()) == 1


def test_a_key_right_after_a_dialog_has_closed_is_not_lost(server, opened):
    page = opened(server().address)
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    # On a busy machine the focus may still be on the button of the dialog.
    press = (
        "(name) => document.querySelector(name).dispatchEvent(new KeyboardEvent('keydown', {key: 'c', bubbles: true}))"
    )
    page.evaluate(press, "#help button")
    expect(page.locator("#chooser")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#chooser")).to_be_hidden()
    page.evaluate(press, "#chooser-text")
    expect(page.locator("#chooser")).to_be_visible()


def test_a_dialog_opened_right_after_it_was_closed_stays_open(server, opened):
    service = server()
    page = opened(service.address)
    # The browser reports that a dialog was closed a moment later, when it may be open again.
    page.evaluate(
        """() => {
            const press = () => document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "c", bubbles: true}));
            press();
            document.querySelector("#chooser").close();
            press();
            return new Promise((done) => setTimeout(done, 200));
        }"""
    )
    expect(page.locator("#chooser")).to_be_visible()
    shown = page.locator("#id").text_content()
    page.keyboard.type("zeb")
    page.keyboard.press("Enter")
    expect(page.locator("#id")).not_to_have_text(shown)
    assert Journal(service.journal).decisions()[shown].label == "zebra"
    assert len(service.lines()) == 1


@pytest.mark.parametrize(("can_tell", "shown"), [(True, "≈ 18 of 60 (30 %)"), (False, "not known")])
def test_the_number_of_wrong_labels_is_shown_only_if_it_is_known(read_only_server, opened, can_tell, shown):
    page = opened(read_only_server.address)

    def answer(route):
        response = route.fetch()
        found = response.json()
        assert found["can_tell"] is True
        route.fulfill(response=response, json={**found, "can_tell": can_tell})

    page.route("**/api/progress**", answer)
    page.reload()
    expect(page.locator("#count-left")).to_have_text(shown)


def test_filters_by_pair(read_only_server, opened):
    page = opened(read_only_server.address)
    pair = page.locator("#pairs button").first
    given, suggested = (pair.locator(f".{name}").text_content() for name in ("given", "suggested"))
    pair.click()
    expect(page.locator("#filter-text")).to_contain_text(f"given {given} · suggested {suggested}")
    page.keyboard.press("g")
    shown = {tuple(text.split(" → ")) for text in page.locator(".card .change").all_text_contents()}
    assert shown == {(given, suggested)}


def test_filters_by_kind(copied, corpus_of, opened):
    run = copied("images")
    copies = plant_kinds(run)
    service = ThreadServer(run, lambda run: make_review(run, corpus_of(run)))
    try:
        page = opened(service.address, None)
        page.keyboard.press("f")
        choices = page.locator("#filter-kind option").all_text_contents()
        assert [text for text in choices if "wrong" not in text] == [
            "any",
            "duplicate (2)",
            "outlier (3)",
            "ambiguous (1)",
        ]
        page.select_option("#filter-kind", "duplicate")
        expect(page.locator("#filter-text")).to_contain_text("duplicate · from 0 %")
        expect(page.locator("#where")).to_contain_text("2")
        shown = page.locator("#id").text_content()
        (partner,) = set(copies) - {shown}
        expect(page.locator("#kinds")).to_contain_text(f"Copy or near-copy of {partner}, which is given as")
        page.select_option("#filter-kind", "outlier")
        expect(page.locator("#kinds")).to_contain_text("Outlier: far from its neighbours")
        expect(page.locator("#kinds")).not_to_contain_text("Copy")
        page.click("#filter-reset")
        expect(page.locator("#filter-text")).not_to_contain_text("outlier")
        assert page.locator("#filter-kind").input_value() == ""
    finally:
        service.stop()


def test_features_on_a_phone(server, opened):
    service = server("features")
    page = opened(service.address, None, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    if page.locator("#empty").is_visible():
        page.tap("#empty-action")
    expect(page.locator(".values tbody tr")).to_have_count(6)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    shown = page.locator("#id").text_content()
    page.tap('[data-action="keep"]')
    expect(page.locator("#id")).not_to_have_text(shown)
    assert [line["id"] for line in service.lines()] == [shown]


def test_a_page_without_its_key_says_what_to_do(read_only_server, browser):
    page = browser.new_context().new_page()
    page.goto(read_only_server.address.partition("#")[0])
    expect(page.locator("body")).to_contain_text("open the address that `surelabel review` printed")


def test_random_labels_are_drawn_marked_and_estimated(server, opened):
    service = server()
    page = opened(service.address)
    page.click("#random")
    expect(page.locator("#filter-text")).to_contain_text("drawn at random")
    expect(page.locator("#random")).to_have_text("Back to the suspects")
    reviewed = [press(page, key) for key in "kkks"]
    assert service.lines()[0]["action"] == "draw"
    decisions = service.lines()[1:]
    assert [line["id"] for line in decisions] == reviewed
    assert {line["queue"] for line in decisions} == {"random"}
    expect(page.locator("#estimate")).to_contain_text("3 of them drawn at random")
    page.click("#random")
    expect(page.locator("#filter-text")).to_contain_text("from ")
    widen(page, 0)
    page.wait_for_load_state("networkidle")
    page.keyboard.press("k")
    expect_counts(page, 4, 0, 1)
    assert "queue" not in service.lines()[-1]


def test_the_reviewer_chooses_how_far_to_look(read_only_server, opened):
    page = opened(read_only_server.address, None)
    table = audit(read_only_server.run)
    plans = table.budgets()
    expect(page.locator("#where")).to_contain_text(f"1 of {table.worth_a_look.budget} ")
    page.click("#lengths summary")
    lines = page.locator("#lengths-table tbody tr")
    expect(lines).to_have_count(len(plans))
    expect(page.locator("#lengths-table tr:has(small)")).to_contain_text(f"{table.worth_a_look.budget} worth a look")
    last = plans[-1]
    expect(lines.last).to_contain_text(f"{last.num_wrong:.0f} ({last.low:.0f} to {last.high:.0f})")
    for number, plan in enumerate(plans):
        lines.nth(number).locator("button").click()
        expect(page.locator("#where")).to_contain_text(f"1 of {plan.budget} ")


def test_decisions_update_the_numbers_and_reorder_only_when_asked(server, opened):
    service = server()
    page = opened(service.address)
    before = page.locator("#estimate").text_content()
    for _ in range(8):
        press(page, "k")
    shown = page.locator("#id").text_content()
    expect(page.locator("#estimate")).to_contain_text("After 8 decisions")
    assert page.locator("#estimate").text_content() != before
    expect(page.locator("#reorder")).to_contain_text("moved")
    expect(page.locator("#id")).to_have_text(shown)  # nothing moved under the cursor
    page.click("#reorder")
    expect(page.locator("#reorder")).to_be_hidden()
    expect(page.locator("#id")).to_have_text(shown)


def test_the_warnings_of_the_audit_are_shown(server, opened, monkeypatch):
    monkeypatch.setattr(Audit, "warnings", property(lambda _: ["<b>Cannot tell</b>", "Look first"]))
    page = opened(server().address)
    expect(page.locator("#warnings summary")).to_have_text("2 warnings")
    page.click("#warnings summary")
    expect(page.locator("#warnings li")).to_have_text(["<b>Cannot tell</b>", "Look first"])
