"""The report in a real browser: it works under its own policy, loads nothing, and fits a phone."""

import pytest

pytestmark = pytest.mark.training  # slow: a browser takes seconds to start

BROKEN = "[...document.images].filter(image => image.complete && !image.naturalWidth).length"


@pytest.fixture(scope="module")
def file(images):
    return images.file


def ranks(page) -> list[int]:
    cells = page.locator("table.sortable").last.locator("tbody th")
    return [int(text) for text in cells.all_text_contents()]


def test_it_sorts_and_requests_nothing(browser, file):
    page, messages, requests = browser.new_page(), [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    heading = page.locator("table.sortable").last.locator("thead button").first
    assert ranks(page) == sorted(ranks(page))
    heading.click()
    heading.click()
    assert ranks(page) == sorted(ranks(page), reverse=True)
    assert not messages
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert page.evaluate(BROKEN) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_without_scripts(browser, file, scheme):
    context = browser.new_context(
        viewport={"width": 390, "height": 800}, color_scheme=scheme, java_script_enabled=False
    )
    page = context.new_page()
    page.goto(file.as_uri())
    box = page.locator("main").bounding_box()
    assert box["width"] <= 390
    assert page.locator("html").evaluate("page => page.scrollWidth") <= 390
    assert page.locator("table.sortable tbody tr").count() > 3
    context.close()
