"""Other services on this machine learn nothing from a review in the same browser."""

from random import Random
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect
from tests.reviewing.browsing import press
from tests.reviewing.second_service import SPELLINGS, WAYS, attack, has_ipv6, leaks, second_service, visit

pytestmark = pytest.mark.training  # slow: a browser takes seconds to start

NUM_ATTACKS = 200


def secret_of(address: str) -> str:
    return address.partition("=")[2]


def test_a_second_service_can_neither_read_nor_write_decisions(server, opened_quietly):
    review = server()
    page = opened_quietly(review.address)
    decided = press(page, "k")
    before = review.journal.read_bytes()
    with second_service() as service:
        for way in WAYS:
            for spelling in SPELLINGS[:2]:
                visit(page, service, review.address, spelling, way)
        assert len(service.said()) == len(WAYS) * 2
        assert leaks(service, secret_of(review.address)) == []
        tried = [attack(review.address, service, Random(number), [decided]) for number in range(NUM_ATTACKS)]
    assert [one for one in tried if one[1]] == []
    assert review.journal.read_bytes() == before
    expect(page.locator("#count-keep")).to_have_text("1")
    press(page, "k")  # the review goes on
    assert page.context.cookies() == []


def test_the_key_stays_in_its_tab_and_a_new_address_replaces_it(server, opened_quietly):
    first, second = server("images"), server("photos")
    page = opened_quietly(first.address)
    page.reload()
    expect(page.locator("#run-name")).to_have_text("images")
    other = page.context.new_page()
    other.goto(first.address.partition("#")[0])  # a tab of its own, without the key
    expect(other.locator("body")).to_contain_text("open the address that `surelabel review` printed")
    other.evaluate("address => { location.href = address }", first.address)  # as typed over the old one
    expect(other.locator("#run-name")).to_have_text("images")
    expect(other).to_have_url(first.address.partition("#")[0])
    other.goto(second.address)
    expect(other.locator("#run-name")).to_have_text("photos")
    other.go_back()
    expect(other.locator("#run-name")).to_have_text("images")


def test_pictures_are_loaded_when_they_are_nearly_visible(server, opened_quietly):
    page = opened_quietly(server().address)
    page.set_viewport_size({"width": 400, "height": 400})
    page.keyboard.press("g")
    pictures = page.locator("#cards img")
    expect(pictures.first).to_have_js_property("naturalWidth", 8)
    assert pictures.last.get_attribute("src") is None
    pictures.last.scroll_into_view_if_needed()
    expect(pictures.last).to_have_js_property("naturalWidth", 8)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_a_service_on_our_port_of_another_address_learns_nothing(server, opened_quietly):
    review = server()
    page = opened_quietly(review.address)
    with second_service("::1", urlsplit(review.address).port) as service:
        for spelling in SPELLINGS[1:]:
            visit(page, service, review.address, spelling, "link")
            expect(page.locator("body[data-ready]")).to_be_attached()
        assert len(service.said()) == 2
        assert leaks(service, secret_of(review.address)) == []
