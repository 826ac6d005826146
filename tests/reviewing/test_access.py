"""Access to the review page."""

import pytest

from surelabel.reviewing.access import KEY_HEADER

OPEN = ["/", "/page/app.js", "/page/style.css"]
"""What is the same for everyone."""
GUARDED = [
    "/api/run",
    "/api/rows",
    "/api/progress",
    "/image/train/0",
    "/original/train/0",
    "/nothing",
]
ADDRESSES = [*OPEN, *GUARDED]


@pytest.mark.parametrize("address", GUARDED)
def test_nothing_without_the_key_in_its_header(client, address):
    page = client()
    key = page.http.headers.pop(KEY_HEADER)
    elsewhere = [{"cookie": f"{name}={key}"} for name in (KEY_HEADER, "key")] + [{"authorization": f"Bearer {key}"}]
    for headers in ({}, {KEY_HEADER: ""}, {KEY_HEADER: "wrong"}, {KEY_HEADER: b"\xfc"}, *elsewhere):
        answer = page.http.get(address, headers=headers)
        assert answer.status_code == 403
        assert "needs its key" in answer.text
    assert page.http.get(f"{address}?key={key}&token={key}").status_code == 403


def test_the_key_is_in_the_fragment_and_in_no_answer(client):
    page = client()
    key = page.http.headers[KEY_HEADER]
    assert page.access.address == f"http://127.0.0.1:8123/#key={key}"
    for address in ADDRESSES:
        answer = page.http.get(address)
        assert "set-cookie" not in answer.headers
        assert key not in f"{answer.text}{answer.headers}"


HOSTS = [
    "evil.example",
    "127.0.0.1:1",
    "127.0.0.1",
    "localhost",
    "localhost:8123",
    "[::1]:8123",
    "127.0.0.1.evil.example:8123",
    "",
]


@pytest.mark.parametrize("host", HOSTS)
def test_other_hosts_are_refused(client, host):
    page = client()
    for address in ADDRESSES:
        assert page.http.get(address, headers={"host": host}).status_code == 403


def test_another_spelling_of_this_machine_is_told_the_right_one(client):
    assert "http://127.0.0.1:8123/" in client().http.get("/", headers={"host": "localhost:8123"}).text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8123", "http://127.0.0.1:9", "http://localhost:8123"]
)
def test_other_origins_are_refused(client, origin):
    page = client()
    for address in ADDRESSES:
        assert page.http.get(address, headers={"origin": origin}).status_code == 403
    assert page.post("/api/export", {}, origin=origin).status_code == 403


def test_other_sites_cannot_embed(client):
    page = client()
    for site in ("cross-site", "same-site"):
        for address in ADDRESSES[1:]:
            assert page.http.get(address, headers={"sec-fetch-site": site}).status_code == 403
        assert page.http.get("/", headers={"sec-fetch-site": site}).status_code == 200  # a link


@pytest.mark.parametrize("address", ["/api/decisions", "/api/export"])
def test_changes_need_the_key(client, address):
    page = client()
    assert page.http.get(address).status_code == 405
    assert page.post(address, {"decisions": []}, **{KEY_HEADER: "wrong"}).status_code == 403
    page.http.headers.pop(KEY_HEADER)
    assert page.post(address, {"decisions": []}).status_code == 403
    assert page.http.options(address).status_code == 403  # what a browser asks before it sends a header elsewhere
    assert not page.review.journal.path.exists()


def test_protecting_headers_on_every_answer(client):
    page = client()
    for address in (*ADDRESSES, "/image/train/999999"):
        headers = page.http.get(address).headers
        policy = headers["content-security-policy"]
        assert policy.startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "address",
    [
        "/page/../server.py",
        "/page/..%2fserver.py",
        "/page/%2e%2e/server.py",
        "/page/server.py",
        "/page//etc/passwd",
        "/image/..%2f..%2fetc/0",
        "/image/train/../../config.json",
        "/image/train/-1",
        "/image/train/999999",
        "/image/validation/0",
        "/image/tests/0",
        "/image/train/0.5",
        "/api/values/train/0",
        "/decisions.jsonl",
        "/openapi.json",
        "/docs",
    ],
)
def test_only_what_belongs_to_the_run(client, address):
    answer = client().http.get(address)
    assert answer.status_code in (400, 404, 422)
    assert "root:" not in answer.text
