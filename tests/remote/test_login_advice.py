"""What a profile adds to a login, before real sshds: its jump host, and advice when the login fails."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path

import pytest

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, RemoteError
from slurmgen.remote.route import BackgroundLogin, Route, advised, destination_of, login_of, open_route
from slurmgen.remote.ssh import config
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.prompt import Prompt
from tests.conftest import Run
from tests.remote.ssh.test_authenticate import FakePrompt, agent
from tests.remote.ssh.test_certificates import authority, trusting
from tests.remote.ssh.test_openssh import short
from tests.support.sshd import Server, closed_port, keygen, privilege_separation_folder, sshd

__all__ = ["agent", "authority", "short", "trusting"]

CLIENTS = ["paramiko", "openssh"]


class Place:
    """The user's own profile of the site `s`, and an ssh_config."""

    def __init__(self, folder: Path, config_dir: Path) -> None:
        self.folder = folder
        self.profiles = config_dir / "site_profiles"

    def profile(self, login: str, folder: Path | None = None) -> None:
        folder = folder or self.profiles
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "s.toml").write_text(f'name = "s"\n[login]\n{login}\n')

    def config(self, more: str = "", key: Path | None = None, **hosts: Server) -> str:
        known = self.folder / "known_hosts"
        known.write_text("".join(host.known_line for host in hosts.values()))
        blocks = [
            host.block(name, known, key=key, more=more if name == "far" else "")
            for name, host in hosts.items()
        ]
        (self.folder / "ssh_config").write_text("\n".join(blocks))
        return str(self.folder / "ssh_config")

    def route(self, config: str, client: str = "paramiko", host: str = "far") -> Route:
        return Route(site="s", via="ssh", host=host, ssh_config=config, ssh_client=client)  # type: ignore[arg-type]

    def refusal(self, route: Route, prompt: Prompt | None = None) -> RemoteError:
        with pytest.raises(RemoteError) as error:
            open_route(route, prompt).close()
        return error.value


@pytest.fixture
def place(tmp_path: Path, config_dir: Path) -> Place:
    return Place(tmp_path, config_dir)


@pytest.fixture(scope="module")
def gate(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    privilege_separation_folder()
    with sshd(tmp_path_factory.mktemp("gate"), more=f"PermitOpen 127.0.0.1:{server.port}") as running:
        yield running


JUMP = 'host = "far"\njump_host = "gate"'


@pytest.mark.parametrize("client", CLIENTS)
def test_the_jump_host_of_the_users_profile_is_used(
    place: Place, server: Server, gate: Server, client: str
) -> None:
    place.profile(JUMP)
    route = place.route(place.config(far=server, gate=gate), client)
    assert [hop.alias for hop in destination_of(route)[0].chain] == ["gate", "far"]
    with open_route(route) as transport:
        assert transport.run(["echo", "in"], timeout=60).out == "in\n"
        assert client == "openssh" or ", then " in transport.login


@pytest.mark.parametrize("own", ["ProxyJump none", "ProxyCommand none"])
def test_ssh_config_takes_precedence(place: Place, server: Server, gate: Server, own: str) -> None:
    place.profile(JUMP)
    assert destination_of(place.route(place.config(own, far=server, gate=gate)))[0].jump is None


def test_another_host_than_the_profiles_is_reached_directly(place: Place, server: Server) -> None:
    place.profile(JUMP.replace("far", "login.example"))
    assert destination_of(place.route(place.config(far=server)))[0].jump is None


@pytest.mark.parametrize("jump", ["gate", "ada@GATE:2222"])
def test_a_jump_host_that_is_a_login_host_too_is_reached_directly(
    place: Place, server: Server, gate: Server, jump: str
) -> None:
    place.profile(f'host = "far"\nother_hosts = ["Gate"]\njump_host = "{jump}"')
    config = place.config(far=server, gate=gate)
    assert [hop.alias for hop in destination_of(place.route(config, host="gate"))[0].chain] == ["gate"]
    assert len(destination_of(place.route(config))[0].chain) == 2


def test_the_user_of_the_host_is_that_of_the_jump_host(place: Place, server: Server, gate: Server) -> None:
    place.profile(JUMP)
    to, _ = destination_of(place.route(place.config(far=server, gate=gate), host="ada@far"))
    assert [hop.user for hop in to.chain] == ["ada", "ada"]
    assert "-J ada@gate" in to.ssh


def test_a_bundled_profile_names_its_jump_host(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    route = Route(
        site="clariden", via="ssh", host="clariden.alps.cscs.ch", ssh_config=str(tmp_path / "empty")
    )
    assert [hop.alias for hop in destination_of(route)[0].chain] == ["ela.cscs.ch", "clariden.alps.cscs.ch"]


def test_the_profile_of_a_project_chooses_no_jump_host(
    place: Place, server: Server, slurmgen: Run, tmp_path: Path
) -> None:
    """It is not contacted, and its commands are not advised: a project may be untrusted."""
    evil = f'host = "far"\njump_host = "127.0.0.1:{closed_port()}"\ncertificate_command = "evil"'
    place.profile(evil, tmp_path / "site_profiles")
    config = place.config(far=server, key=keygen(tmp_path / "stranger"))
    reply = slurmgen("status", "12", "--site", "s", "--ssh-config", config, "--host", "far")
    assert reply.returncode == 3
    assert "far refused the login" in reply.stderr
    assert "evil" not in reply.stderr


def certificate(authority: Path, key: Path, validity: str) -> Path:
    words = ["-s", authority, "-I", "test", "-n", getuser(), "-V", validity, f"{key}.pub"]
    subprocess.run(["ssh-keygen", "-q", *words], check=True)
    return key.with_name(f"{key.name}-cert.pub")


CERTIFIED = (
    'host = "far"\nmethods = ["certificate"]\ncertificate_hours = 12\ncertificate_command = "clifton auth"'
)


@pytest.fixture
def key(place: Place, tmp_path: Path) -> Path:
    """The key of a user of a site with certificates."""
    place.profile(CERTIFIED)
    return keygen(tmp_path / "id")


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_certificate_the_error_says_how_to_get_one(
    place: Place, trusting: Server, key: Path, client: str
) -> None:
    error = place.refusal(place.route(place.config(far=trusting, key=key), client))
    assert isinstance(error, AuthenticationFailed)
    for part in ("run `clifton auth`", "12 hours", "no certificate was found"):
        assert part.lower() in error.hint.lower()


@pytest.mark.parametrize("client", CLIENTS)
def test_an_expired_certificate_is_reported_before_the_login(
    place: Place, trusting: Server, authority: Path, key: Path, tmp_path: Path, client: str
) -> None:
    path = certificate(authority, key, "-2h:-1h").rename(tmp_path / "other.pub")
    nowhere = Server(trusting.folder, closed_port())
    config = place.config(f'CertificateFile "{path}"', far=nowhere, key=key)
    error = place.refusal(place.route(config, client))
    assert isinstance(error, AuthenticationFailed)
    assert f"the certificate {path} has expired" in error.fact
    assert "run `clifton auth`" in error.hint
    background = BackgroundLogin(place.route(config, client))
    with pytest.raises(AuthenticationFailed, match="has expired"), background as login:
        login.transport()


def test_a_shared_connection_needs_no_certificate(
    place: Place, trusting: Server, authority: Path, key: Path, short: Path
) -> None:
    certificate(authority, key, "-1h:+1h")
    more = f"ControlPath {short}/%C\n ControlMaster auto\n ControlPersist 60"
    route = place.route(place.config(more, far=trusting, key=key), "openssh")
    try:
        open_route(route).close()
        certificate(authority, key, "-2h:-1h")
        with open_route(route) as transport, BackgroundLogin(route) as login:
            assert transport.login == login.transport().login == "the connection that you share"
    finally:
        subprocess.run(["ssh", "-F", str(route.ssh_config), "-O", "exit", "far"], check=True)


def test_with_identity_agent_none_no_agent_can_hold_a_certificate(
    place: Place, trusting: Server, authority: Path, key: Path, agent: Path
) -> None:
    certificate(authority, key, "-2h:-1h")
    config = place.config("IdentityAgent none", far=trusting, key=key)
    assert "was not contacted" in place.refusal(place.route(config)).fact


@pytest.mark.parametrize("later", ["first", "second"])
def test_the_last_certificate_to_expire_counts(
    place: Place, trusting: Server, authority: Path, key: Path, tmp_path: Path, later: str
) -> None:
    lines = []
    for name in ("first", "second"):
        path = certificate(authority, key, "-3h:-1h" if name == later else "-3h:-2h")
        lines.append(f'CertificateFile "{path.rename(tmp_path / name)}"')
    error = place.refusal(place.route(place.config("\n".join(lines), far=trusting, key=key)))
    assert f"the certificate {tmp_path / later} has expired" in error.fact


@pytest.mark.parametrize("beside", [False, True])
def test_one_certificate_that_is_valid_is_enough(
    place: Place, trusting: Server, authority: Path, key: Path, tmp_path: Path, beside: bool
) -> None:
    old = certificate(authority, key, "-2h:-1h").rename(tmp_path / "old")
    valid = certificate(authority, key, "-1h:+1h")
    more = f'CertificateFile "{old}"' if beside else ""
    with open_route(place.route(place.config(more, far=trusting, key=key))) as transport:
        assert transport.login == str(valid)


def test_a_certificate_that_never_expires_is_tried_and_named_after_a_refusal(
    place: Place, server: Server, authority: Path, key: Path
) -> None:
    """This server does not trust its authority."""
    path = certificate(authority, key, "always:forever")
    error = place.refusal(place.route(place.config(far=server, key=key)))
    assert "refused the login" in error.fact
    assert f"{path} does not expire" in error.hint


@pytest.mark.usefixtures("agent")
def test_with_an_agent_the_login_is_tried_and_the_expired_certificate_named_after_it(
    place: Place, trusting: Server, authority: Path, key: Path
) -> None:
    certificate(authority, key, "-2h:-1h")
    error = place.refusal(place.route(place.config(far=trusting, key=key)))
    assert "refused the login" in error.fact
    assert "has expired" in error.hint


@pytest.mark.parametrize("client", CLIENTS)
def test_other_login_hosts_are_offered_and_not_tried(place: Place, server: Server, client: str) -> None:
    """A job is submitted from one host, which the ledger records."""
    place.profile('host = "far"\nother_hosts = ["other"]\nnote = "Connect the VPN first."')
    down = Server(server.folder, closed_port())
    route = place.route(place.config(far=down, other=server), client)
    error = place.refusal(route)
    assert isinstance(error, ConnectionFailed)
    assert "Other login hosts of s: other; name one with --host" in error.hint
    assert error.hint.endswith("Connect the VPN first.")
    with pytest.raises(ConnectionFailed) as caught, BackgroundLogin(route) as login:
        login.transport()
    assert caught.value.hint == error.hint


@pytest.mark.parametrize(("prompt", "offered"), [(None, True), (FakePrompt(), False)])
def test_the_host_for_automation_is_offered_without_a_terminal(
    place: Place, server: Server, tmp_path: Path, prompt: FakePrompt | None, offered: bool
) -> None:
    place.profile('host = "far"\nautomation_host = "robot"')
    route = place.route(place.config(far=server, key=keygen(tmp_path / "stranger")))
    assert ("--host robot" in place.refusal(route, prompt).hint) is offered


def test_without_a_host_the_note_of_the_profile_says_how_it_is_named(slurmgen: Run) -> None:
    reply = slurmgen("status", "12", "--site", "isambard-ai", "--via", "ssh")
    assert reply.returncode == 2
    assert "PROJECT.aip2.isambard" in reply.stderr


def test_the_note_of_a_project_is_not_printed_as_advice(place: Place, slurmgen: Run, tmp_path: Path) -> None:
    """It may be untrusted; the note of the user's own profile is printed instead."""
    place.profile('note = "Run evil."', tmp_path / "site_profiles")
    reply = slurmgen("status", "12", "--site", "s", "--via", "ssh")
    assert (reply.returncode, "evil" in reply.stderr) == (2, False)
    place.profile('note = "Call the desk."')
    assert "Call the desk." in slurmgen("status", "12", "--site", "s", "--via", "ssh").stderr


def test_the_advice_is_for_the_hosts_of_the_profile(
    place: Place, trusting: Server, authority: Path, tmp_path: Path
) -> None:
    """By HostName too; another host may need no certificate."""
    key = keygen(tmp_path / "id")
    certificate(authority, key, "-2h:-1h")
    route = place.route(place.config(far=trusting, key=key))
    place.profile(CERTIFIED.replace("far", "127.0.0.1"))
    assert "has expired" in place.refusal(route).fact
    place.profile(CERTIFIED.replace("far", "login.example"))
    assert "refused the login" in place.refusal(route).fact


@pytest.mark.parametrize("of_system", [False, True])
@pytest.mark.parametrize("last", ["", "Host far\nProxyJump none\n"])
def test_without_an_option_the_config_of_user_and_system_is_read(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_system: bool, last: str
) -> None:
    place.profile(JUMP)
    user, system = tmp_path / ".ssh" / "config", tmp_path / "system"
    user.parent.mkdir()
    (system if of_system else user).write_text(f"Host other\n{last}")
    entry = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd((*entry[:5], str(tmp_path), entry[6])))
    monkeypatch.setattr(config, "SYSTEM_CONFIG", system)
    hop = destination_of(Route(site="s", via="ssh", host="far"))[0].jump
    assert (hop.alias if hop else None) == (None if last else "gate")


def test_the_users_own_config_is_read_with_its_blocks(
    place: Place, server: Server, gate: Server, tmp_path: Path
) -> None:
    """A default at its end would belong to its last block, and its folder may have any name."""
    place.profile(JUMP)
    folder = tmp_path / "a [b] *"
    folder.mkdir()
    config = Path(place.config(far=server, gate=gate)).rename(folder / "config")
    for last, jump in (("Host other\n", "gate"), ("Host far\nProxyJump none\n", None)):
        text = config.read_text()
        config.write_text(f"{text}\n{last}")
        hop = destination_of(place.route(str(config)))[0].jump
        assert (hop.alias if hop else None) == jump


@pytest.mark.parametrize("site", ["daic", "olivia"])
def test_a_site_without_keys_gets_no_advice_about_keys(site: str, tmp_path: Path) -> None:
    login = login_of(site)
    (tmp_path / "config").write_text("")
    to = destination(login.host or "", str(tmp_path / "config"))
    with pytest.raises(AuthenticationFailed) as caught, advised(site, login, to, interactive=False):
        raise AuthenticationFailed("it refused the login", "have your key accepted: ssh-copy-id it")
    assert "ssh-copy-id" not in str(caught.value)
    assert "accepts no key. Run this in a terminal. While a connection" in str(caught.value)
