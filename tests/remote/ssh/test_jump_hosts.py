"""ProxyJump through real sshds: who is asked, whose key is checked, and what is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, HostKeyError
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from tests.remote.ssh.test_authenticate import Person
from tests.support.sshd import Server, free_port, keygen, privilege_separation_folder, sshd


@pytest.fixture(scope="module")
def gates(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two hosts with keys of their own; through the first one comes to the second, from there to `server`."""
    privilege_separation_folder()
    with (
        sshd(tmp_path_factory.mktemp("inner"), more=f"PermitOpen 127.0.0.1:{server.port}") as inner,
        sshd(tmp_path_factory.mktemp("outer"), more=f"PermitOpen 127.0.0.1:{inner.port}") as outer,
    ):
        yield outer, inner


class Way:
    """An ssh_config with `outer`, `inner` and `far`, of which a test may change a part."""

    def __init__(self, folder: Path, server: Server, outer: Server, inner: Server) -> None:
        self.folder = folder
        self.hosts = {"outer": outer, "inner": inner, "far": server}
        self.jumps = {"inner": "outer", "far": "inner"}
        self.known = {name: host.known_line for name, host in self.hosts.items()}
        self.keys = {name: host.key for name, host in self.hosts.items()}

    def config(self) -> str:
        (self.folder / "known_hosts").write_text("".join(self.known.values()))
        blocks = [
            host.block(
                name,
                self.folder / "known_hosts",
                key=self.keys[name],
                more=f"ProxyJump {self.jumps.get(name, 'none')}",
            )
            for name, host in self.hosts.items()
        ]
        (self.folder / "ssh_config").write_text("".join(blocks))
        return str(self.folder / "ssh_config")

    def echo(self, ask: Person | None = None) -> str:
        with connect(destination("far", self.config()), ask) as far:
            return far.run(["echo", "in"], timeout=60).out.strip()


@pytest.fixture
def way(tmp_path: Path, server: Server, gates: tuple[Server, Server]) -> Way:
    return Way(tmp_path, server, *gates)


def test_a_chain_of_two_leads_to_the_host(way: Way) -> None:
    assert way.echo() == "in"


def test_a_chain_may_be_written_as_a_list(way: Way) -> None:
    way.jumps = {"far": "outer,inner"}
    assert way.echo() == "in"


def test_a_login_names_each_step(way: Way) -> None:
    with connect(destination("far", way.config())) as far:
        assert far.login.split(", then ") == [str(way.keys[name]) for name in ("outer", "inner", "far")]


@pytest.mark.parametrize("name", ["outer", "inner", "far"])
def test_each_hosts_key_is_checked(way: Way, name: str) -> None:
    way.known[name] = ""
    with pytest.raises(HostKeyError, match=rf"the host key of {name} .* is not known: ssh-ed25519 SHA256:"):
        way.echo()


@pytest.mark.parametrize("name", ["outer", "inner", "far"])
def test_each_host_is_logged_in_to_with_its_own_key(way: Way, name: str) -> None:
    way.keys[name] = keygen(way.folder / "wrong")
    with pytest.raises(AuthenticationFailed, match=f"{name} refused the login"):
        way.echo()


def test_a_question_names_the_host_that_it_is_for(way: Way, tmp_path: Path) -> None:
    for name in ("outer", "far"):
        locked = keygen(tmp_path / f"{name}-locked", passphrase=name)
        with (way.hosts[name].folder / "authorized_keys").open("a") as file:
            file.write(locked.with_suffix(".pub").read_text())
        way.keys[name] = locked
    person = Person("outer", "far")
    assert way.echo(person) == "in"
    assert person.prompts == [f"Passphrase of {way.keys[name]}: " for name in ("outer", "far")]


def test_a_gate_that_lets_nobody_pass_is_named(way: Way) -> None:
    way.jumps = {"far": "outer"}  # which opens the way to the inner one only
    with pytest.raises(ConnectionFailed, match=r"outer cannot connect to far at 127.*prohibited"):
        way.echo()


def test_a_closed_port_behind_a_gate_is_told_with_the_gates_name(way: Way) -> None:
    way.jumps = {"far": "server"}
    way.hosts = {"server": way.hosts["far"], "far": Server(way.hosts["far"].folder, free_port())}
    way.keys["server"] = way.keys["far"]
    with pytest.raises(ConnectionFailed, match=r"server cannot connect to far at 127.*Connect failed"):
        way.echo()


def test_a_gate_that_is_down_is_told(way: Way) -> None:
    way.hosts["outer"] = Server(way.hosts["outer"].folder, free_port())
    with pytest.raises(ConnectionFailed, match=r"cannot connect to outer at 127"):
        way.echo()
