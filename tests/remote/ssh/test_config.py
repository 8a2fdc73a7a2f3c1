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
        (home / "my config").write_text(text)
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


def test_none_means_no_file(resolve: Resolve) -> None:
    to = resolve("Host far\n IdentityFile none\n UserKnownHostsFile none\n GlobalKnownHostsFile none\n")
    assert (to.identity_files, to.known_hosts) == ((), ())


def test_a_user_before_the_host_overrides_the_config(resolve: Resolve) -> None:
    assert resolve("Host far\n User you\n", "other@far").user == "other"


def test_the_first_value_counts_as_in_openssh(resolve: Resolve) -> None:
    assert resolve("Host far\n Port 1\nHost *\n Port 2\n User late\n").port == 1


def test_an_include_is_read_where_it_stands(resolve: Resolve, home: Path) -> None:
    (home / "conf.d").mkdir()
    (home / "conf.d/a").write_text("Host far\n Port 7\n")
    assert resolve(f"Include {home}/conf.d/*\nHost far\n Port 8\n").port == 7


def test_a_relative_include_is_in_the_ssh_folder(no_ssh: Path) -> None:
    (no_ssh / ".ssh/extra").write_text("Host far\n Port 7\n")
    (no_ssh / ".ssh/config").write_text("Include extra\n")
    assert destination("far").port == 7


def test_the_block_around_an_include_continues_after_it(resolve: Resolve, home: Path) -> None:
    (home / "extra").write_text("Host other\n User wrong\n")
    to = resolve(f"Host far\n Include {home}/extra\n Port 9\n User right\nHost other\n Port 1\n")
    assert (to.port, to.user) == (9, "right")


@pytest.mark.parametrize("block", ["Host other", "Match host other", "Match user another"])
def test_an_include_in_a_block_for_another_host_is_not_read(resolve: Resolve, home: Path, block: str) -> None:
    (home / "extra").write_text("Port 7\nHost *\n User wrong\n")
    to = resolve(f"{block}\n Include\t{home}/extra\nHost *\n Port 9\n User right\n")
    assert (to.port, to.user) == (9, "right")


def test_an_include_in_a_matching_block_is_read(resolve: Resolve, home: Path) -> None:
    (home / "extra").write_text("Port 7\nHost other\n User wrong\n")
    to = resolve(f"Match host far\n Include {home}/extra\n User right\n")
    assert (to.port, to.user) == (7, "right")


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


def test_a_huge_config_is_refused(resolve: Resolve) -> None:
    with pytest.raises(ConfigError, match="it is larger than 1,000,000 bytes"):
        resolve("# " + "x" * 1_000_000)


def test_an_included_fifo_is_refused(no_ssh: Path) -> None:
    os.mkfifo(no_ssh / "fifo")
    (no_ssh / ".ssh/config").write_text(f"Include {no_ssh}/fifo\n")
    with pytest.raises(ConfigError, match="it is not a regular file"):
        destination("far")


def test_a_config_in_another_encoding_is_read(resolve: Resolve, home: Path) -> None:
    (home / "latin").write_bytes(b"# J\xfcrgen\nHost far\n Port 7\n")
    assert destination("far", str(home / "latin")).port == 7


@pytest.mark.parametrize("line", ["Port 0", "Port 65536", "Port 99999999999999999999"])
def test_an_invalid_port_is_refused(resolve: Resolve, line: str) -> None:
    with pytest.raises(ConfigError, match="cannot read ssh_config"):
        resolve(f"Host far\n {line}\n")


def test_without_ssh_a_canonical_name_needs_domains(no_ssh: Path) -> None:
    (no_ssh / ".ssh/config").write_text("CanonicalizeHostname yes\n")
    with pytest.raises(ConfigError, match="'canonicaldomains' is missing"):
        destination("far")


def test_a_name_is_made_canonical(resolve: Resolve) -> None:
    text = "CanonicalizeHostname yes\nCanonicalDomains invalid localdomain\nHost far\n Port 7\n"
    to = resolve(f"{text}CanonicalizeFallbackLocal yes\n")
    assert (to.host, to.port) == ("far", 7)


def test_an_unknown_condition_is_refused(resolve: Resolve) -> None:
    with pytest.raises(ConfigError, match="cannot read ssh_config"):
        resolve("Match host far phase-of-moon full\n Port 7\n")


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


def test_a_host_key_alias_is_the_name_in_known_hosts(resolve: Resolve) -> None:
    assert resolve("Host far\n Port 99\n HostKeyAlias cluster\n").host_key_name == "cluster"


def test_a_named_config_is_read_alone(no_ssh: Path) -> None:
    (no_ssh / ".ssh/config").write_text("Host far\n User you\n")
    (no_ssh / "mine").write_text("Host far\n Port 4\n")
    to = destination("far", str(no_ssh / "mine"))
    assert (to.port, to.user) == (4, "me")


def test_tokens_of_a_proxy_command_are_expanded(resolve: Resolve) -> None:
    assert resolve("Host far\n HostName h\n Port 3\n ProxyCommand nc %h %p\n").proxy_command == "nc h 3"
    assert resolve("Host far\n ProxyCommand none\n").proxy_command is None


def test_tokens_of_a_path_are_expanded(resolve: Resolve, home: Path) -> None:
    to = resolve(f"Host far\n HostName h\n User you\n IdentityFile {home}/%h-%r\n")
    assert to.identity_files == (home / "h-you",)


def hops(to: Destination) -> list[str]:
    return [f"{hop.user}@{hop.host}:{hop.port}" for hop in to.chain]


def test_a_jump_host_has_its_own_options_in_the_config(resolve: Resolve) -> None:
    to = resolve("Host far\n User you\n ProxyJump gate\nHost gate\n HostName g.org\n User me\n Port 7\n")
    assert hops(to) == ["me@g.org:7", "you@far:22"]


def test_jump_hosts_are_used_in_their_order(resolve: Resolve) -> None:
    to = resolve("Host far\n User you\n ProxyJump a@one:1,[::1]:2,ssh://c@three\nHost *\n User me\n")
    assert hops(to) == ["a@one:1", "me@::1:2", "c@three:22", "you@far:22"]


def test_only_the_first_of_several_jump_hosts_has_its_own_jump_hosts(resolve: Resolve) -> None:
    to = resolve("Host far\n ProxyJump b,c\nHost b\n ProxyJump a\nHost c\n ProxyJump x\nHost *\n User me\n")
    assert hops(to) == ["me@a:22", "me@b:22", "me@c:22", "me@far:22"]


def test_tokens_of_a_jump_host_are_expanded(resolve: Resolve) -> None:
    to = resolve("Host far\n HostName h\n Port 5\n ProxyJump gate-of-%h\nHost gate*\n ProxyJump none\n")
    assert [hop.host for hop in to.chain] == ["gate-of-h", "h"]


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


@pytest.mark.parametrize("jump", ["-oProxyCommand=x", "$(a)", "a;b", "::1", "a:port", "[::1"])
def test_an_invalid_jump_host_is_refused(resolve: Resolve, jump: str) -> None:
    with pytest.raises(ConfigError, match="cannot read ssh_config"):
        resolve(f"Host far\n ProxyJump {jump}\n")


@pytest.mark.parametrize("first", ["ProxyJump", "ProxyCommand"])
def test_the_first_of_proxy_jump_and_proxy_command_counts(resolve: Resolve, first: str) -> None:
    lines = [" ProxyJump gate\n", " ProxyCommand nc %h\n"]
    to = resolve("Host far\n" + "".join(lines if first == "ProxyJump" else reversed(lines)))
    assert (to.jump is not None, to.proxy_command is not None) == (
        first == "ProxyJump",
        first == "ProxyCommand",
    )


def test_proxy_jump_none_means_no_jump_host(resolve: Resolve) -> None:
    assert resolve("Host far\n ProxyJump none\n").chain == (resolve("Host far\n"),)


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=x", "a b", "a;b", "$(a)", "a@b@-c", "-x@host", "`a`@host", "", "a\nb"]
)
def test_an_invalid_host_name_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is not a host name"):
        destination(name)


@pytest.mark.parametrize("text", ["nonsense\n", "Host far\n Port many\n"])
def test_an_invalid_config_is_reported(resolve: Resolve, text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read ssh_config"):
        resolve(text)


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
