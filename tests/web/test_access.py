"""Who may read the page: token, host and origin."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from slurmgen.web import Settings, create_app

HOST = "127.0.0.1:8123"
LOCAL = Settings(hosts=(HOST, "localhost:8123"), token="t" * 43)
OWN = {"origin": f"http://{HOST}"}


@pytest.fixture
def stranger() -> Iterator[TestClient]:
    """A client without the token."""
    with TestClient(create_app(LOCAL), base_url=f"http://{HOST}", follow_redirects=False) as client:
        yield client


@pytest.fixture
def user(stranger: TestClient) -> TestClient:
    """A client with the cookie."""
    stranger.get("/", params={"token": LOCAL.token})
    return stranger


def test_a_request_without_the_token_is_refused(stranger: TestClient) -> None:
    reply = stranger.get("/")
    assert reply.status_code == 403
    assert "the address that `slurmgen web` printed" in reply.text


@pytest.mark.parametrize("token", ["", "x", "\N{SNOWMAN}", "%ED%A0%80", "%FF", LOCAL.token[:-1]])
def test_a_wrong_token_is_refused(stranger: TestClient, token: str) -> None:
    assert stranger.get(f"/?token={token}").status_code == 403
    assert stranger.get("/", headers={"cookie": f"{LOCAL.cookie}={token}".encode()}).status_code == 403


@pytest.mark.parametrize("path", ["/static/style.css", "/healthz", "/nothing"])
def test_nothing_is_served_without_the_token(stranger: TestClient, path: str) -> None:
    assert stranger.get(path).status_code == 403


def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    reply = stranger.get("/sites", params={"token": LOCAL.token, "a": "b"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/sites?a=b")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert stranger.get("/sites").status_code == 200


def test_the_token_also_leaves_the_address_of_a_second_visit(user: TestClient) -> None:
    assert user.get("/", params={"token": LOCAL.token}).headers["location"] == "/"


def test_the_token_leads_to_no_other_server(stranger: TestClient) -> None:
    """`//evil.example/` in Location is an address of another server."""
    reply = stranger.get(f"http://{HOST}//evil.example/", params={"token": LOCAL.token})
    assert reply.headers["location"] == "/evil.example/"


def test_a_token_changes_nothing_in_a_changing_request(stranger: TestClient) -> None:
    assert stranger.post("/", params={"token": LOCAL.token}, headers=OWN).status_code == 403


def test_a_link_from_elsewhere_gets_a_page_that_leads_to_the_address(stranger: TestClient) -> None:
    """The browser would send no strict cookie to where a redirect leads."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    reply = stranger.get("/sites", params={"token": LOCAL.token, "a": '"<'}, headers=headers)
    assert reply.status_code == 200
    assert 'content="0; url=/sites?a=%22%3C"' in reply.text
    assert "set-cookie" in reply.headers


@pytest.mark.parametrize(
    "host", ["evil.example:8123", "evil.example", "127.0.0.1.evil.example:8123", "", "[::1"]
)
def test_another_host_name_is_refused(user: TestClient, host: str) -> None:
    """DNS rebinding: a name of an attacker that resolves to 127.0.0.1."""
    assert user.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "localhost:8123", "127.0.0.1"])
def test_a_forwarded_port_may_differ(user: TestClient, host: str) -> None:
    cookie = {"cookie": f"{LOCAL.cookie}={LOCAL.token}"}
    assert user.get("/", headers={"host": host} | cookie).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": f"https://{HOST}"},
        OWN | {"sec-fetch-site": "cross-site"},
        OWN | {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "INVENTED"])
def test_a_changing_request_of_another_origin_is_refused(
    user: TestClient, method: str, headers: dict[str, str]
) -> None:
    assert user.request(method, "/", headers=headers).status_code == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize("path", ["/", "/jobs", "/static/theme.js"])
def test_another_site_reads_nothing_but_may_link(user: TestClient, site: str, path: str) -> None:
    """Another port of this machine is the same site, so the browser sends it the cookie."""
    from_elsewhere = {"sec-fetch-site": site}
    assert user.get(path, headers=from_elsewhere).status_code == 403
    for mode, dest in [
        ("no-cors", "script"),
        ("navigate", "iframe"),
        ("cors", "empty"),
        ("no-cors", "image"),
    ]:
        request = from_elsewhere | {"sec-fetch-mode": mode, "sec-fetch-dest": dest}
        assert user.get(path, headers=request).status_code == 403
    link = from_elsewhere | {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert user.get(path, headers=link).status_code == 200


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/style.css"])
def test_no_reply_may_run_inline_scripts_or_be_framed(user: TestClient, path: str) -> None:
    policy = user.get(path).headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


def test_pages_are_not_kept_and_files_are_asked_for_again(user: TestClient) -> None:
    assert user.get("/").headers["cache-control"] == "no-store"
    assert user.get("/static/style.css").headers["cache-control"] == "no-cache"


def test_a_bug_does_not_lift_the_restrictions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmgen.web.app._health", lambda _request: 1 / 0)
    client = TestClient(create_app(Settings(public=True)), raise_server_exceptions=False)
    reply = client.get("/healthz")
    assert (reply.status_code, "This is a bug" in reply.text) == (500, True)
    assert "script-src 'self'" in reply.headers["content-security-policy"]


def test_a_public_server_has_no_jobs() -> None:
    with TestClient(create_app(Settings(public=True))) as client:
        assert client.get("/").status_code == 200
        assert client.get("/jobs").status_code == 404
        assert "/jobs" not in client.get("/").text
