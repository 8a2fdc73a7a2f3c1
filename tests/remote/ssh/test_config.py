"""The destination of a name, as resolved by ssh, and by paramiko if ssh is not installed."""

import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError, RequestError
from slurmgen.remote.ssh import config
from slurmgen.remote.ssh.config import Destination, destination
from tests.support.examples import Example, examples

Resolve = Callable[..., Destination]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder for paramiko; ssh ignores HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "me")
    monkeypatch.setattr(config, "SYSTEM_CONFIG", tmp_path / "system")
    (tmp_path / ".ssh").mkdir()
    return tmp_path


@pytest.fixture
def no_ssh(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder on a machine without ssh."""
    monkeypatch.setattr(config.shutil, "which", lambda _: None)  # type: ignore[attr-defined]
    return home


@pytest.fixture(params=["ssh", "paramiko"])
def resolve(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """The destination in a file, by each reader in turn."""
    if request.param == "paramiko":
        request.getfixturevalue("no_ssh")

    def resolve_text(text: str, name: str = "far") -> Destination:
        (home / "my config").write_text(text, errors="surrogateescape")
        return destination(name, str(home / "my config"))

    return resolve_text


def test_without_a_config_a_name_is_a_host(no_ssh: Path) -> None:
    to = destination("login.site.org")
    assert (to.host, to.port, to.user, to.host_key_name) == ("login.site.org", 22, "me", "login.site.org")


def test_your_own_config_and_the_systems_are_read(no_ssh: Path) -> None:
    (no_ssh / ".ssh/config").write_text("Host far\n Port 1\n")
    (no_ssh / "system").write_text("Host far\n Port 2\n User you\n")
    to = destination("far")
    assert (to.port, to.user) == (1, "you")


def test_host_port_user_and_keys_come_from_the_config(resolve: Resolve, home: Path) -> None:
    to = resolve(
        f"Host far\n HostName Login.Site.org\n Port 2222\n User you\n IdentityFile {home}/a\n"
        f' IdentityFile "{home}/b c"\n IdentitiesOnly yes\n'
        f' UserKnownHostsFile "{home}/one and a half" {home}/two\n GlobalKnownHostsFile /dev/null\n',
    )
    assert (to.host, to.port, to.user) == ("login.site.org", 2222, "you")
    assert to.identity_files == (home / "a", home / "b c")
    assert to.identities_only
    assert to.known_hosts == (home / "one and a half", home / "two", Path("/dev/null"))
    assert to.host_key_name == "[login.site.org]:2222"


def test_the_default_files_are_used(resolve: Resolve, home: Path) -> None:
    to = resolve("Host far\n HostName h\n")
    own = {path.parent for path in (*to.identity_files, *to.known_hosts[:2])}
    assert own in ({home / ".ssh"}, {Path(pwd.getpwuid(os.getuid()).pw_dir, ".ssh")})
    assert "id_ed25519" in [path.name for path in to.identity_files]
    assert [path.name for path in to.known_hosts][:2] == ["known_hosts", "known_hosts2"]
    assert to.known_hosts[2] == Path("/etc/ssh/ssh_known_hosts")
    assert not to.identities_only


OPTIONS = [
    *examples(Path(__file__).with_name("options.txt")),
    Example("another encoding", "# J\udcfcrgen\nHost far\n Port 7\n", "far: port=7"),
]


@pytest.mark.parametrize("example", OPTIONS, ids=lambda example: example.name)
def test_options_count_as_in_openssh(resolve: Resolve, home: Path, example: Example) -> None:
    (home / "include.d").mkdir()
    (home / "include.d/a").write_text("Host far\n Port 7\n")
    (home / "other").write_text("Host other\n User wrong\n")
    (home / "any").write_text("Port 7\nHost other\n User wrong\n")
    name, _, expected = example.expected.partition(": ")
    to = resolve(example.text.replace("{home}", str(home)), name)
    for option, value in (part.split("=") for part in expected.split(", ")):
        found = getattr(to, option)
        assert (" ".join(map(str, found)) if isinstance(found, tuple) else str(found)) == value


def test_a_relative_include_is_in_the_ssh_folder(no_ssh: Path) -> None:
    (no_ssh / ".ssh/extra").write_text("Host far\n Port 7\n")
    (no_ssh / ".ssh/config").write_text("Include extra\n")
    assert destination("far").port == 7


def test_files_that_include_one_another_are_refused(resolve: Resolve, home: Path) -> None:
    (home / "a").write_text(f"Include {home}/b\n")
    (home / "b").write_text(f"Include {home}/a {home}/b\n")
    with pytest.raises(ConfigError, match=r"include one another|recursive configuration includes"):
        resolve(f"Include {home}/a\n")


def test_very_many_included_files_are_refused_without_ssh(no_ssh: Path) -> None:
    for number in range(12):
        (no_ssh / f"{number}").write_text(f"Include {no_ssh}/{number + 1} {no_ssh}/[{number + 1}]*\n")
    (no_ssh / ".ssh/config").write_text(f"Include {no_ssh}/0\n")
    with pytest.raises(ConfigError, match="too many files"):
        destination("far")


def test_a_config_that_is_not_a_regular_file_is_refused_at_once(resolve: Resolve, home: Path) -> None:
    os.mkfifo(home / "fifo")
    with pytest.raises(ConfigError, match="cannot read ssh_config: it is not a regular file"):
        destination("far", str(home / "fifo"))


def test_an_included_fifo_is_refused(no_ssh: Path) -> None:
    os.mkfifo(no_ssh / "fifo")
    (no_ssh / ".ssh/config").write_text(f"Include {no_ssh}/fifo\n")
    with pytest.raises(ConfigError, match="it is not a regular file"):
        destination("far")


def test_without_ssh_a_canonical_name_needs_domains(no_ssh: Path) -> None:
    (no_ssh / ".ssh/config").write_text("CanonicalizeHostname yes\n")
    with pytest.raises(ConfigError, match="'canonicaldomains' is missing"):
        destination("far")


def test_a_condition_that_paramiko_does_not_support_is_left_to_ssh(no_ssh: Path) -> None:
    (no_ssh / ".ssh/config").write_text("Match localnetwork 10.0.0.0/8\n Port 7\n")
    with pytest.raises(ConfigError, match="only if `ssh` is installed"):
        destination("far")


def test_match_exec_is_run_as_ssh_runs_it(home: Path) -> None:
    (home / "config").write_text("Match host far exec true\n Port 7\nMatch exec false\n User wrong\n")
    to = destination("far", str(home / "config"))
    assert (to.port, to.user != "wrong") == (7, True)


def test_match_user_sees_the_user_before_the_host(home: Path) -> None:
    (home / "config").write_text("Match user you\n Port 7\n")
    assert destination("you@far", str(home / "config")).port == 7
    assert destination("far", str(home / "config")).port == 22


def test_a_named_config_is_read_alone(no_ssh: Path) -> None:
    (no_ssh / ".ssh/config").write_text("Host far\n User you\n")
    (no_ssh / "mine").write_text("Host far\n Port 4\n")
    to = destination("far", str(no_ssh / "mine"))
    assert (to.port, to.user) == (4, "me")


def hops(to: Destination) -> list[str]:
    return [f"{hop.user}@{hop.host}:{hop.port}" for hop in to.chain]


@pytest.mark.parametrize("example", examples(Path(__file__).with_name("jump_hosts.txt")))
def test_jump_hosts_are_used_as_in_openssh(resolve: Resolve, example: Example) -> None:
    """In their order, each with its options, and only the first with jump hosts of its own."""
    assert hops(resolve(example.text)) == example.expected.split()


@pytest.mark.parametrize(
    "text",
    [
        "Host *\n ProxyJump gate\n",
        "Host far\n ProxyJump a\nHost a\n ProxyJump b\nHost b\n ProxyJump far\n",
        "Host *\n ProxyJump x%h\n",
    ],
)
def test_a_circular_proxy_jump_is_refused(resolve: Resolve, text: str) -> None:
    with pytest.raises(ConfigError, match=r"is circular: far -> |jumphost loop"):
        resolve(text)


JUMPS = ("-oProxyCommand=x", "$(a)", "a;b", "::1", "a:port", "[::1")
PORTS = ("0", "65536", "99999999999999999999", "many")


@pytest.mark.parametrize(
    "text",
    [
        *(f"Host far\n ProxyJump {jump}\n" for jump in JUMPS),
        *(f"Host far\n Port {port}\n" for port in PORTS),
        *("Match host far phase-of-moon full\n Port 7\n", "nonsense\n", "# " + "x" * 1_000_000),
    ],
)
def test_an_invalid_config_is_refused(resolve: Resolve, text: str) -> None:
    too_large = "it is larger than 1,000,000 bytes" if len(text) > 1_000_000 else ""
    with pytest.raises(ConfigError, match=f"cannot read ssh_config: {too_large}"):
        resolve(text)


@pytest.mark.parametrize("first", ["ProxyJump", "ProxyCommand"])
def test_the_first_of_proxy_jump_and_proxy_command_counts(resolve: Resolve, first: str) -> None:
    lines = [" ProxyJump gate\n", " ProxyCommand nc %h\n"]
    to = resolve("Host far\n" + "".join(lines if first == "ProxyJump" else reversed(lines)))
    assert (to.jump is not None, to.proxy_command is not None) == (
        first == "ProxyJump",
        first == "ProxyCommand",
    )


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=x", "a b", "a;b", "$(a)", "a@b@-c", "-x@host", "`a`@host", "", "a\nb"]
)
def test_an_invalid_host_name_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is not a host name"):
        destination(name)


def test_a_missing_config_is_reported(resolve: Resolve, home: Path) -> None:
    resolve("")
    with pytest.raises(ConfigError, match="cannot read ssh_config"):
        destination("far", str(home / "none"))


def test_a_config_that_takes_too_long_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "TIMEOUT", 1)
    (home / "config").write_text('Match exec "exec sleep 60"\n Port 7\n')
    with pytest.raises(ConfigError, match="did not finish within 1 seconds"):
        destination("far", str(home / "config"))


def test_options_are_the_same_as_in_ssh(resolve: Resolve, home: Path) -> None:
    to = resolve("Host f*\n HostName %h.site.org\n User you\nHost *\n Port 9\n")
    argv = ["ssh", "-G", "-T", "-F", home / "my config", "far"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {f"hostname {to.host}", f"user {to.user}", f"port {to.port}"} <= set(lines)
