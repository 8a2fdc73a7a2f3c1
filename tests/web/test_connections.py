"""The connections that the requests to one server share."""

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier, Event

import pytest

from slurmgen.errors import AuthenticationFailed, ConnectionFailed
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.route import Route
from slurmgen.remote.ssh.prompt import ATTEMPTS
from slurmgen.remote.transport import Transport
from slurmgen.web.jobs.poller import REFUSED, Connections
from tests.remote.ssh.test_prompt import Screen
from tests.support.questions import PASSWORD
from tests.support.sshd import keygen, privilege_separation_folder, sshd

SITE = Route(site="olivia", via="local")


class Login(LocalTransport):
    """A connection that says when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = Event()

    def close(self) -> None:
        self.closed.set()


class Logins:
    """Counts the logins, after some that are refused."""

    def __init__(self, *refusals: AuthenticationFailed) -> None:
        self.made: list[Login] = []
        self.refusals = list(refusals)

    def __call__(self, _route: Route) -> Transport:
        if self.refusals:
            raise self.refusals.pop()
        self.made.append(Login())
        return self.made[-1]


@pytest.fixture
def logins() -> Logins:
    return Logins()


@pytest.fixture
def connections(logins: Logins) -> Iterator[Connections]:
    with closing(Connections(logins)) as shared:
        yield shared


def test_several_users_at_a_time_share_one_login(logins: Logins, connections: Connections) -> None:
    together = Barrier(4)

    def use(_number: int) -> None:
        with connections.use(SITE):
            together.wait()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert len(logins.made) == 1


def test_a_connection_is_closed_some_time_after_its_last_use(logins: Logins) -> None:
    connections = Connections(logins, idle=0.01)
    with connections.use(SITE):
        pass
    assert logins.made[0].closed.wait(60)
    with connections.use(SITE):
        assert len(logins.made) == 2


def test_a_broken_connection_is_replaced_at_the_next_use(logins: Logins, connections: Connections) -> None:
    with pytest.raises(ConnectionFailed), connections.use(SITE):
        raise ConnectionFailed("it broke")
    with connections.use(SITE):
        assert [login.closed.is_set() for login in logins.made] == [True, False]


@pytest.mark.parametrize("asks", [False, True])
def test_a_refused_login_is_not_repeated_until_later_or_the_user_asks(asks: bool) -> None:
    """Many hosts lock out a user after some refused logins, and a page asks every few seconds."""
    now = 0.0
    refused = AuthenticationFailed("the host refuses the key", "Load the key.")
    with closing(Connections(Logins(refused), clock=lambda: now)) as connections:
        for _ in range(2):
            with pytest.raises(AuthenticationFailed, match="refuses the key"), connections.use(SITE):
                pass
        if asks:
            connections.forgive()
        else:
            now = REFUSED
        with connections.use(SITE) as transport:
            assert transport.run(["true"], timeout=60).returncode == 0


def test_only_the_end_of_the_server_closes_what_is_open(logins: Logins, connections: Connections) -> None:
    with connections.use(SITE) as transport:
        transport.close()  # others use it too
    assert not logins.made[0].closed.is_set()
    connections.close()
    assert logins.made[0].closed.is_set()


PAGE = """
import sys
from slurmgen.errors import AuthenticationFailed
from slurmgen.remote.route import Route
from slurmgen.remote.ssh.prompt import terminal_prompt
from slurmgen.web.jobs.poller import Asking, Connections
connections = Connections(Asking(terminal_prompt()))
route = Route(site="generic", via="ssh", host="far", ssh_config=sys.argv[1])
def use():
    try:
        with connections.use(route) as transport:
            print(transport.run(["echo", "reached"], timeout=60).out)
    except AuthenticationFailed:
        print("refused")
use(), use()
connections.forgive()
use(), use()
connections.close()
use()
"""


def _screen(folder: Path, where: str, use: Callable[[Screen], str]) -> str:
    """What a terminal shows while that program runs, with a key that has a passphrase."""
    privilege_separation_folder()
    (folder / "host").mkdir()
    key = keygen(folder / "locked", passphrase=PASSWORD)
    with sshd(folder / "host") as server:
        (server.folder / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
        command = [sys.executable, "-c", PAGE, server.config(folder, key=key)]
        with closing(Screen(where, *command, cwd=folder)) as screen:
            return use(screen)


def test_a_site_asks_for_its_passphrase_once_until_the_user_tries_again(tmp_path: Path) -> None:
    def types(screen: Screen) -> str:
        for number in range(ATTEMPTS):
            screen.until_count("Passphrase of ", number + 1)
            screen.type("wrong\n")
        screen.until_count("Passphrase of ", ATTEMPTS + 1)
        screen.type(f"{PASSWORD}\n")
        return screen.until("echo True")

    text = _screen(tmp_path, "foreground", types)
    assert text.count("Passphrase of ") == ATTEMPTS + 1
    found = re.findall("refused|reached|ended 0", text)
    assert found == ["refused"] * 2 + ["reached"] * 2 + ["refused", "ended 0"]


def test_a_server_in_the_background_prompts_for_nothing(tmp_path: Path) -> None:
    text = _screen(tmp_path, "background", lambda screen: screen.until("echo True"))
    assert (text.count("refused"), text.count("Passphrase of "), "ended 0" in text) == (5, 0, True)
