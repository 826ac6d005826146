"""Access to the review page."""

import pytest

from surelabel.reviewing.access import KEY_HEADER

ADDRESSES = [
    "/",
    "/page/app.js",
    "/page/style.css",
    "/api/run",
    "/api/rows",
    "/api/progress",
    "/image/train/0",
    "/nothing",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_without_the_token(client, address):
    page = client()
    page.http.cookies.clear()
    for wrong in ("", "?token=", "?token=wrong", "?token=ü"):
        answer = page.http.get(address + wrong)
        assert answer.status_code == 403
        assert "token" in answer.text


def test_the_token_in_the_address_counts_for_the_page_only(client):
    page = client()
    page.http.cookies.clear()
    assert page.http.get(f"/api/run?token={page.access.token}").status_code == 403
    answer = page.http.get(f"/?token={page.access.token}")
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert f"surelabel_review_{page.access.port}={page.access.token}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert page.http.get("/api/run").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:1", "127.0.0.1", "localhost", "127.0.0.1.evil.example:8123", ""]
)
def test_other_hosts_are_refused(client, host):
    page = client()
    for address in ADDRESSES:
        assert page.http.get(address, headers={"host": host}).status_code == 403


def test_localhost_with_our_port_is_this_machine(client):
    page = client()
    assert page.http.get(f"/?token={page.access.token}", headers={"host": "localhost:8123"}).status_code == 200


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
        assert page.http.get("/image/train/0", headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("address", ["/api/decisions", "/api/export"])
def test_changes_need_origin_and_key(client, address):
    page = client()
    for headers in ({"origin": None}, {KEY_HEADER: None}, {KEY_HEADER: "wrong"}, {KEY_HEADER: page.access.token}):
        assert page.post(address, {"decisions": []}, **headers).status_code == 403
    assert page.http.get(address).status_code == 405
    assert not page.review.journal.path.exists()


def test_protecting_headers_on_every_answer(client):
    page = client()
    for address in (*ADDRESSES, "/image/train/999999", "/?token=wrong"):
        headers = page.http.get(address).headers
        policy = headers["content-security-policy"]
        assert policy.startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
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
