import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from slurmgen.config.user import Personal
from slurmgen.errors import AuthenticationFailed, ConfigError, ConnectionFailed, LoginDropped
from slurmgen.remote import route as routes
from slurmgen.remote.route import Route, find_route, open_route
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.openssh import failure
from slurmgen.sites.model import Login, Site
from tests.support.sshd import privilege_separation_folder, sshd

AT_HOST = Site(name="s", login=Login(host="login.s.org"))
NOWHERE = Site(name="s")


@pytest.mark.parametrize(
    ("site", "personal", "options", "expected"),
    [
        (AT_HOST, Personal(), {}, ("ssh", "login.s.org")),
        (NOWHERE, Personal(), {}, ("local", None)),
        (AT_HOST, Personal(), {"via": "local"}, ("local", None)),
        (AT_HOST, Personal(), {"via": "twin"}, ("twin", None)),
        (AT_HOST, Personal(host="mine"), {}, ("ssh", "mine")),
        (NOWHERE, Personal(host="mine"), {}, ("ssh", "mine")),
        (AT_HOST, Personal(host="mine"), {"host": "now"}, ("ssh", "now")),
        (AT_HOST, Personal(user="me"), {}, ("ssh", "me@login.s.org")),
        (AT_HOST, Personal(user="me"), {"host": "you@now"}, ("ssh", "you@now")),
    ],
)
def test_options_override_the_personal_file_and_that_the_profile(
    site: Site, personal: Personal, options: dict[str, str], expected: tuple[str, str | None]
) -> None:
    route = find_route(site, personal, **options)  # type: ignore[arg-type]
    assert (route.via, route.host) == expected


def test_an_option_overrides_the_ssh_config_of_the_personal_file() -> None:
    own = Personal(ssh_config="/own")
    assert find_route(AT_HOST, own) == Route(site="s", via="ssh", host="login.s.org", ssh_config="/own")
    assert find_route(AT_HOST, own, ssh_config="/now").ssh_config == "/now"


def test_ssh_without_a_host_is_refused() -> None:
    with pytest.raises(ConfigError, match="--host"):
        find_route(NOWHERE, Personal(), via="ssh")


def _accepted(port: int) -> socket.socket:
    """A connection that sshd counts, once it has forgotten all others."""
    while True:
        one = socket.create_connection(("127.0.0.1", port), 60)
        if one.recv(4) == b"SSH-":
            return one
        one.close()


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_a_login_that_sshd_drops_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Any
) -> None:
    privilege_separation_folder()
    (tmp_path / "sshd").mkdir()
    pauses: list[float] = []
    with sshd(tmp_path / "sshd", more="MaxStartups 1") as server, _accepted(server.port) as other:
        config = server.config(tmp_path)
        route = Route(site="generic", via="ssh", host="far", ssh_config=config, ssh_client=client)

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            other.close()

        monkeypatch.setattr(routes, "time", SimpleNamespace(sleep=pause))
        monkeypatch.setattr(routes, "PAUSES", ())
        with pytest.raises(LoginDropped, match="the connection to far broke"):
            open_route(route)
        assert not pauses
        monkeypatch.setattr(routes, "PAUSES", (0.5,) * 1000)
        with open_route(route) as transport:
            assert transport.run(["echo", "in"], timeout=60).out == "in\n"
    assert pauses
    assert 0 < pauses[0] < 1


@pytest.mark.parametrize(
    ("messages", "is_dropped"),
    [
        (
            "kex_exchange_identification: read: Connection reset by peer\nConnection reset by ::1 port 2",
            True,
        ),
        ("Connection closed by 1.2.3.4 port 22", False),
        (
            "me@x: Permission denied (key).\nkex_exchange_identification: Connection closed by x",
            False,
        ),
    ],
)
def test_only_a_connection_that_ends_before_the_handshake_is_dropped(
    tmp_path: Path, messages: str, is_dropped: bool
) -> None:
    (tmp_path / "config").write_text("")
    to = destination("far", str(tmp_path / "config"))
    error = failure(to, messages, is_unattended=True)
    refused_by_jump_host = messages.startswith("me@x: Permission denied")
    assert isinstance(error, AuthenticationFailed if refused_by_jump_host else ConnectionFailed)
    assert isinstance(error, LoginDropped) is is_dropped
    behind = structs.replace(to, proxy_command="false")
    assert not isinstance(failure(behind, messages, is_unattended=True), LoginDropped)
