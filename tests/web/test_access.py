"""Who may read the page: token, host and origin."""

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from slurmgen.web import Settings, create_app
from slurmgen.web.access import COOKIE
from slurmgen.web.server import local_settings
from tests.support.web import PUBLIC

HOST = "127.0.0.1:8123"
LOCAL = Settings(hosts=("127.0.0.1", "localhost"), token="t" * 43)
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


def test_a_browser_without_the_token_gets_a_page_without_scripts_and_files(stranger: TestClient) -> None:
    reply = stranger.get("/", headers={"accept": "text/html,*/*;q=0.8"})
    assert reply.status_code == 403
    assert "the address that <code>slurmgen web</code> printed" in reply.text
    assert not re.search("<script|src=|href=|url\\(", reply.text)
    nonce = re.search('<style nonce="([^"]+)">', reply.text)
    assert nonce
    assert f"'nonce-{nonce[1]}'" in reply.headers["content-security-policy"]
    assert LOCAL.token not in reply.text


@pytest.mark.parametrize("token", ["", "x", "\N{SNOWMAN}", "%ED%A0%80", "%FF", LOCAL.token[:-1]])
def test_a_wrong_token_is_refused(stranger: TestClient, token: str) -> None:
    assert stranger.get(f"/?token={token}").status_code == 403
    assert stranger.get("/", headers={"cookie": f"{COOKIE}={token}".encode()}).status_code == 403


@pytest.mark.parametrize("path", ["/static/style.css", "/healthz", "/nothing"])
def test_nothing_is_served_without_the_token(stranger: TestClient, path: str) -> None:
    assert stranger.get(path).status_code == 403


def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    reply = stranger.get("/sites", params={"token": LOCAL.token, "a": "b"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/sites?a=b")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/;" in cookie
    assert stranger.get("/sites").status_code == 200


def test_the_cookie_is_only_for_the_secret_path_of_the_server() -> None:
    settings = local_settings("/tools")
    with TestClient(create_app(settings), base_url=f"http://{HOST}", follow_redirects=False) as client:
        reply = client.get(settings.url("/"), params={"token": settings.token})
    assert re.fullmatch(r"/tools/[\w-]{22}", settings.base_path, re.ASCII)
    assert f"Path={settings.base_path};" in reply.headers["set-cookie"]
    assert local_settings().base_path != local_settings().base_path


@pytest.mark.parametrize("cookies", ["{own}; {other}", "{other}; {own}", "{other};{own};{other}"])
def test_a_server_on_another_port_does_not_replace_the_cookie(stranger: TestClient, cookies: str) -> None:
    header = cookies.format(own=f"{COOKIE}={LOCAL.token}", other=f"{COOKIE}=evil")
    assert stranger.get("/", headers={"cookie": header}).status_code == 200


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
    cookie = {"cookie": f"{COOKIE}={LOCAL.token}"}
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


USES = [("no-cors", "script"), ("navigate", "iframe"), ("cors", "empty"), ("no-cors", "image"), ("", "")]
LINK = ("navigate", "document")


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize(("mode", "dest"), [*USES, LINK])
@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/k/state", "/static/theme.js"])
def test_another_site_reads_and_starts_nothing(
    user: TestClient, site: str, mode: str, dest: str, path: str
) -> None:
    """Not even by a link: the page of a job queries its site."""
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert user.get(path, headers=headers).status_code == 403


@pytest.mark.parametrize(("mode", "dest"), USES)
def test_another_site_has_no_use_of_a_token(user: TestClient, mode: str, dest: str) -> None:
    headers = {"sec-fetch-site": "same-site", "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert user.get("/", params={"token": LOCAL.token}, headers=headers).status_code == 403


@pytest.mark.parametrize(("mode", "dest"), [*USES, LINK])
def test_another_site_may_only_link_to_a_public_page(mode: str, dest: str) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    client = TestClient(create_app(Settings(limits=PUBLIC)))
    assert client.get("/", headers=headers).status_code == (200 if (mode, dest) == LINK else 403)


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
    client = TestClient(create_app(Settings(limits=PUBLIC)), raise_server_exceptions=False)
    reply = client.get("/healthz")
    assert (reply.status_code, "This is a bug" in reply.text) == (500, True)
    assert "script-src 'self'" in reply.headers["content-security-policy"]


def test_a_public_server_has_no_jobs() -> None:
    with TestClient(create_app(Settings(limits=PUBLIC))) as client:
        assert client.get("/").status_code == 200
        assert client.get("/jobs").status_code == 404
        assert "/jobs" not in client.get("/").text
