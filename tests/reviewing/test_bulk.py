"""Choosing and deciding on many rows at once, in a real browser."""

import pytest
from playwright.sync_api import expect
from tests.reviewing.browsing import expect_counts, press

from surelabel.runs.decisions import Journal

pytestmark = pytest.mark.training  # slow: a browser takes seconds to start


@pytest.mark.parametrize("how", ["mouse", "arrow"])
def test_the_next_key_after_choosing_a_class_decides(server, opened, how):
    service = server()
    page = opened(service.address)
    page.keyboard.press("f")
    given = page.locator("#filter-given option").nth(1).text_content().rpartition(" (")[0]
    if how == "arrow":
        page.keyboard.press("ArrowDown")
    else:
        page.select_option("#filter-given", index=1)
    expect(page.locator("#filter-text")).to_contain_text(f"given {given}")
    page.wait_for_load_state("networkidle")
    shown = press(page, "a")
    assert Journal(service.journal).decisions()[shown].given == given
    assert page.locator("#filter-given").input_value() == "0"


def test_the_next_key_after_typing_a_probability_decides(server, opened):
    service = server()
    page = opened(service.address, None)
    page.keyboard.press("f")
    page.fill("#filter-low", "0.01")
    page.keyboard.press("Enter")
    expect(page.locator("#filter-text")).to_contain_text("from 1 %")
    press(page, "k")
    assert [line["action"] for line in service.lines()] == ["keep"]


def test_a_name_that_is_typed_into_a_list_decides_nothing(server, opened):
    service = server()
    page = opened(service.address)
    page.keyboard.press("f")
    page.keyboard.type("zek")
    expect(page.locator("#filter-text")).to_contain_text("given zebra")
    assert service.lines() == []
    expect(page.locator("#filter-given")).not_to_be_focused()
    press(page, "k")
    assert [line["given"] for line in service.lines()] == ["zebra"]


def test_all_of_many_rows_are_selected_decided_and_undone_after_a_reload(server, opened):
    service = server("features")
    page = opened(service.address)
    page.click("#to-grid")
    cards = page.locator("#cards .card")
    expect(cards).to_have_count(60)
    number = int(page.locator("#grid-help").text_content().split()[0])
    assert number > 60
    page.keyboard.press("k")
    expect_counts(page, 1, 0, 0)
    expect(page.locator("#select-all")).to_have_text(f"Select all {number - 1}")
    page.click("#select-all")
    expect(page.locator('.card[aria-selected="true"]')).to_have_count(number - 1)
    page.click("#select-none")
    expect(page.locator('.card[aria-selected="true"]')).to_have_count(0)
    page.keyboard.press("Control+a")
    expect(page.locator('.card[aria-selected="true"]')).to_have_count(number - 1)
    page.keyboard.press("s")
    expect_counts(page, 1, 0, number - 1)
    page.reload()
    expect_counts(page, 1, 0, number - 1)
    page.click('[data-action="undo"]')
    expect_counts(page, 1, 0, 0)
    page.keyboard.press("u")
    expect_counts(page, 0, 0, 0)
    assert len(service.lines()) == 2 * number


def test_pair_counts_follow_decisions(server, opened):
    page = opened(server().address)
    page.keyboard.press("f")
    pair = page.locator("#pairs button").first
    count = int(pair.locator("small").text_content())
    pair.click()
    expect(page.locator('#pairs button[aria-pressed="true"] small')).to_have_text(f" {count}")
    page.wait_for_load_state("networkidle")  # the rows of the pair are there
    press(page, "k")
    expect(page.locator('#pairs button[aria-pressed="true"] small')).to_have_text(f" {count - 1}")


def test_a_late_answer_does_not_bring_back_old_counts(server, opened):
    page = opened(server().address)
    expect_counts(page, 0, 0, 0)
    held = []

    def hold_the_first(route):
        """Keep back the answer to the first request."""
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/api/progress?*", hold_the_first)
    press(page, "k")
    expect(page.locator("#count-keep")).to_have_text("0")
    press(page, "k")
    expect_counts(page, 2, 0, 0)
    route, answer = held[0]
    route.fulfill(response=answer)
    page.wait_for_timeout(300)
    assert page.locator("#count-keep").text_content() == "2"


def test_no_colour_favours_a_decision(read_only_server, opened):
    page = opened(read_only_server.address)
    colours = "(one) => ['color', 'backgroundColor', 'borderColor'].map((name) => getComputedStyle(one)[name])"
    buttons = page.locator("#actions button:not([disabled])").all()
    assert len(buttons) >= 4
    assert len({tuple(button.evaluate(colours)) for button in buttons}) == 1
