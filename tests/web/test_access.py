"""Who may read the page: token, host and origin."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from slurmgen.web import Settings, create_app

HOST = "127.0.0.1:8123"
LOCAL = Settings(hosts=(HOST,))


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


def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    reply = stranger.get("/sites", params={"token": LOCAL.token, "a": "b"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/sites?a=b")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert stranger.get("/sites").status_code == 200


def test_another_host_name_is_refused(user: TestClient) -> None:
    """DNS rebinding: a name of an attacker that resolves to 127.0.0.1."""
    assert user.get("/", headers={"host": "evil.example:8123"}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"},
    ],
)
def test_a_changing_request_of_another_origin_is_refused(user: TestClient, headers: dict[str, str]) -> None:
    assert user.post("/", headers=headers).status_code == 403


def test_no_reply_may_run_inline_scripts_or_be_framed(user: TestClient) -> None:
    policy = user.get("/").headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


def test_a_public_server_has_no_jobs() -> None:
    with TestClient(create_app(Settings(public=True))) as client:
        assert client.get("/").status_code == 200
        assert client.get("/jobs").status_code == 404
        assert "/jobs" not in client.get("/").text


def test_a_large_body_is_refused() -> None:
    with TestClient(create_app(Settings(public=True))) as client:
        reply = client.post("/", content=b"x" * 1_000_001, headers={"origin": "http://testserver"})
    assert reply.status_code == 413
