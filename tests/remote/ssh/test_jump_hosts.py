"""ProxyJump through real sshds: prompts, host keys and messages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, HostKeyError
from slurmgen.remote.ssh.config import destination
from tests.remote.ssh.test_authenticate import CONNECT, FakePrompt
from tests.support.sshd import Server, closed_port, keygen, privilege_separation_folder, sshd


@pytest.fixture(scope="module")
def gates(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two jump hosts with their own keys; the first leads to the second, and that to `server`."""
    privilege_separation_folder()
    with (
        sshd(tmp_path_factory.mktemp("inner"), more=f"PermitOpen 127.0.0.1:{server.port}") as inner,
        sshd(tmp_path_factory.mktemp("outer"), more=f"PermitOpen 127.0.0.1:{inner.port}") as outer,
    ):
        yield outer, inner


class Chain:
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

    def echo(self, client: str = "paramiko", ask: FakePrompt | None = None) -> str:
        with CONNECT[client](destination("far", self.config()), ask) as transport:
            return transport.run(["echo", "in"], timeout=60).out.strip()


@pytest.fixture
def chain(tmp_path: Path, server: Server, gates: tuple[Server, Server]) -> Chain:
    return Chain(tmp_path, server, *gates)


@pytest.mark.parametrize("client", CONNECT)
def test_a_host_is_reached_through_two_jump_hosts_also_in_a_list(chain: Chain, client: str) -> None:
    assert chain.echo(client) == "in"
    chain.jumps = {"far": "outer,inner"}
    assert chain.echo(client) == "in"


def test_the_login_names_the_key_of_each_host(chain: Chain) -> None:
    with CONNECT["paramiko"](destination("far", chain.config())) as transport:
        assert transport.login.split(", then ") == [
            str(chain.keys[name]) for name in ("outer", "inner", "far")
        ]


@pytest.mark.parametrize("client", CONNECT)
@pytest.mark.parametrize("name", ["outer", "inner", "far"])
def test_an_unknown_host_is_refused_with_its_fingerprint_and_the_line_to_add(
    chain: Chain, name: str, client: str
) -> None:
    chain.known[name] = ""
    unknown = rf"the host key of {name} \(127.0.0.1 port .* is not known: ssh-ed25519 SHA256:"
    with pytest.raises(HostKeyError, match=unknown) as caught:
        chain.echo(client)
    assert str(caught.value).splitlines()[-1] == chain.hosts[name].known_line.strip()


@pytest.mark.parametrize("client", CONNECT)
def test_a_changed_key_of_a_jump_host_is_reported_with_its_name(chain: Chain, client: str) -> None:
    chain.known["inner"] = f"{chain.hosts['inner'].name} {chain.hosts['far'].host_key}\n"
    with pytest.raises(HostKeyError, match=r"THE HOST KEY OF inner \(.* HAS CHANGED"):
        chain.echo(client)


@pytest.mark.parametrize("name", ["outer", "inner", "far"])
def test_each_host_is_logged_in_to_with_its_own_key(chain: Chain, name: str) -> None:
    chain.keys[name] = keygen(chain.folder / "wrong")
    with pytest.raises(AuthenticationFailed, match=f"{name} refused the login"):
        chain.echo()


def test_a_prompt_names_its_host(chain: Chain, tmp_path: Path) -> None:
    for name in ("outer", "far"):
        locked = keygen(tmp_path / f"{name}-locked", passphrase=name)
        with (chain.hosts[name].folder / "authorized_keys").open("a") as file:
            file.write(locked.with_suffix(".pub").read_text())
        chain.keys[name] = locked
    prompt = FakePrompt("outer", "far")
    assert chain.echo(ask=prompt) == "in"
    assert prompt.prompts == [f"Passphrase of {chain.keys[name]}: " for name in ("outer", "far")]


def test_a_jump_host_that_refuses_the_login_is_named(chain: Chain) -> None:
    chain.jumps = {"far": "outer"}  # which forwards to the inner one only
    with pytest.raises(ConnectionFailed, match=r"outer cannot connect to far at 127.*prohibited"):
        chain.echo()


def test_a_closed_port_is_reported_with_the_jump_hosts_name(chain: Chain) -> None:
    chain.jumps = {"far": "server"}
    chain.hosts = {"server": chain.hosts["far"], "far": Server(chain.hosts["far"].folder, closed_port())}
    chain.keys["server"] = chain.keys["far"]
    with pytest.raises(ConnectionFailed, match=r"server cannot connect to far at 127.*Connect failed"):
        chain.echo()


def test_a_jump_host_that_is_down_is_reported(chain: Chain) -> None:
    chain.hosts["outer"] = Server(chain.hosts["outer"].folder, closed_port())
    with pytest.raises(ConnectionFailed, match=r"cannot connect to outer at 127"):
        chain.echo()
