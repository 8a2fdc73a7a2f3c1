"""The OpenSSH client: shared connections, the translation of its errors, and what it leaves behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

import pytest

from slurmgen import errors
from slurmgen.remote.ssh import openssh, paramiko
from slurmgen.remote.ssh.config import Destination, destination
from slurmgen.remote.ssh.openssh import ERRORS, failure
from slurmgen.remote.transport import Transport
from tests.remote.ssh.test_jump_hosts import Chain, chain, gates
from tests.support.sshd import Server, keygen, privilege_separation_folder, sshd
from tests.support.twins import eventually

__all__ = ["chain", "gates"]


def transport(server: Server, folder: Path, **config: object) -> Transport:
    return openssh.connect(destination("far", server.config(folder, **config)))  # type: ignore[arg-type]


def echo(config: str) -> str:
    with openssh.connect(destination("far", config)) as one:
        return one.run(["echo", "in"], timeout=60).out


def ours(words: str) -> list[int]:
    """The ssh processes whose arguments have these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if Path(os.fsdecode(argv[0])).name == "ssh" and words in os.fsdecode(b" ".join(argv)):
            found.append(int(path.parent.name))
    return found


def folder_of(pid: int) -> Path:
    """The path of the socket that such an ssh shares."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return Path(words[words.index("-S") + 1]).parent


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name: that of a socket has 108 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="short-", dir="/tmp") as name:
        yield Path(name)


@contextmanager
def shared(server: Server, folder: Path, short: Path) -> Iterator[str]:
    """A shared connection of the user, and the ssh_config that names it."""
    config = server.config(folder, more=f"ControlPath {short}/%C")
    subprocess.run(["ssh", "-F", config, "-M", "-N", "-f", "far"], check=True, stderr=subprocess.DEVNULL)
    try:
        yield config
    finally:
        subprocess.run(["ssh", "-F", config, "-O", "exit", "far"], check=False, capture_output=True)


def test_a_connection_that_is_shared_is_used_without_a_login(
    server: Server, tmp_path: Path, short: Path
) -> None:
    with shared(server, tmp_path, short) as config:
        text = Path(config).read_text().replace(str(server.key), str(tmp_path / "no key"))
        Path(config).write_text(text)
        with openssh.connect(destination("far", config)) as one:
            assert one.run(["echo", "in"], timeout=60).out == "in\n"
            assert one.login == "the connection that you share"
        assert (
            subprocess.run(["ssh", "-F", config, "-O", "check", "far"], capture_output=True).returncode == 0
        )


def test_where_the_config_keeps_connections_the_next_command_needs_no_login(
    server: Server, tmp_path: Path, short: Path
) -> None:
    more = f"ControlPath {short}/%C\n ControlMaster auto\n ControlPersist 60"
    config = server.config(tmp_path, more=more)
    try:
        for login in ("publickey", "the connection that you share"):
            with openssh.connect(destination("far", config)) as one:
                assert one.run(["echo", "in"], timeout=60).out == "in\n"
                assert one.login == login
    finally:
        subprocess.run(["ssh", "-F", config, "-O", "exit", "far"], check=True, capture_output=True)


def test_an_unshared_connection_ends_with_the_process_and_leaves_no_file(
    server: Server, tmp_path: Path
) -> None:
    with transport(server, tmp_path) as one:
        (pid,) = ours(str(tmp_path))
        folder = folder_of(pid)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert one.run(["true"], timeout=60).returncode == 0
    assert ours(str(tmp_path)) == []
    assert not folder.exists()


def test_ssh_and_its_folder_end_with_a_killed_slurmgen(server: Server, tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom slurmgen.remote.ssh import openssh\n"
        "from slurmgen.remote.ssh.config import destination\n"
        "far = openssh.connect(destination('far', sys.argv[1]))\nprint('up', flush=True)\ntime.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, server.config(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        (pid,) = ours(str(tmp_path))
        folder = folder_of(pid)
        process.send_signal(signal.SIGKILL)
    eventually(lambda: not ours(str(tmp_path)) and not folder.exists())


def test_an_exit_status_of_255_may_be_the_commands_own(server: Server, tmp_path: Path) -> None:
    with transport(server, tmp_path) as one:
        completed = one.run(["sh", "-c", "echo out; echo err >&2; exit 255"], timeout=60)
        assert (completed.returncode, completed.out, completed.err) == (255, "out\n", "err\n")
        with pytest.raises(errors.CommandFailed, match="exit status 255: err"):
            list(one.stream(["sh", "-c", "echo err >&2; exit 255"], timeout=60))


def test_a_connection_that_breaks_during_a_command_is_reported(server: Server, tmp_path: Path) -> None:
    with transport(server, tmp_path) as one:
        stream = one.stream(["sh", "-c", "echo one; sleep 100"], timeout=60)
        assert next(stream) == b"one\n"
        for pid in ours(str(tmp_path)):
            if ours_is_master(pid):
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(errors.ConnectionFailed, match="the connection to far broke"):
            list(stream)
        with pytest.raises(errors.ConnectionFailed, match="the connection to far broke"):
            one.run(["true"], timeout=60)


def ours_is_master(pid: int) -> bool:
    return "ControlMaster=yes" in Path(f"/proc/{pid}/cmdline").read_text()


def test_a_command_ended_by_a_signal_is_reported(server: Server, tmp_path: Path) -> None:
    with (
        transport(server, tmp_path) as one,
        pytest.raises(errors.CommandFailed, match="sh was ended by a signal on far"),
    ):
        one.run(["sh", "-c", "kill -KILL $PPID"], timeout=60)


def test_a_host_is_known_by_the_authority_that_vouches_for_it(tmp_path: Path) -> None:
    authority = keygen(tmp_path / "ca")
    privilege_separation_folder()
    (tmp_path / "certified").mkdir()
    with sshd(tmp_path / "certified", authority=authority) as server:
        line = f"@cert-authority {server.name} {authority.with_suffix('.pub').read_text()}"
        with transport(server, tmp_path, known=line) as one:
            assert one.run(["echo", "in"], timeout=60).out == "in\n"
        other = f"@cert-authority {server.name} {keygen(tmp_path / 'ca2').with_suffix('.pub').read_text()}"
        with pytest.raises(errors.HostKeyError, match="host key of far or of a host before it is not known"):
            transport(server, tmp_path, known=other)


def test_without_ssh_the_error_names_the_other_client(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = destination("far", server.config(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(errors.ConfigError, match="use --ssh-client paramiko"):
        openssh.connect(to)


def with_first(config: str, line: str) -> str:
    """The ssh_config with a line before all others, which applies to every host."""
    Path(config).write_text(f"{line}\n{Path(config).read_text()}")
    return config


@pytest.mark.parametrize("checking", ["no", "accept-new"])
@pytest.mark.parametrize("jumps", [{"far": "inner", "inner": "outer"}, {"far": "outer,inner"}])
@pytest.mark.parametrize("name", ["outer", "inner", "far"])
def test_strict_host_key_checking_cannot_be_disabled_for_a_jump_host(
    chain: Chain, name: str, jumps: dict[str, str], checking: str
) -> None:
    chain.jumps, chain.known[name] = jumps, ""
    config = with_first(chain.config(), f"StrictHostKeyChecking {checking}")
    known_hosts = (chain.folder / "known_hosts").read_text()
    with pytest.raises(errors.HostKeyError, match=rf"the host key of {name} .* SHA256:") as caught:
        openssh.connect(destination("far", config))
    assert str(caught.value).splitlines()[-1] == chain.hosts[name].known_line.strip()
    assert (chain.folder / "known_hosts").read_text() == known_hosts


@pytest.mark.parametrize("connect", [openssh.connect, paramiko.connect])
@pytest.mark.parametrize("words", ["ssh", "/usr/bin/ssh -q"])
def test_strict_host_key_checking_cannot_be_disabled_for_an_ssh_in_a_proxy_command(
    chain: Chain, connect: Callable[[Destination], Transport], words: str
) -> None:
    chain.jumps = {}
    config = with_first(chain.config(), "StrictHostKeyChecking no")
    with_first(config, f"Host inner\n ProxyCommand {words} -F {config} -W %h:%p outer\nHost *")
    known_hosts = chain.folder / "known_hosts"
    known_hosts.write_text(chain.known["inner"])
    with pytest.raises(errors.RemoteError):
        connect(destination("inner", config))
    assert known_hosts.read_text() == chain.known["inner"]
    known_hosts.write_text(chain.known["outer"] + chain.known["inner"])
    with connect(destination("inner", config)) as one:
        assert one.run(["echo", "in"], timeout=60).out == "in\n"


def test_the_config_with_jump_hosts_may_be_in_any_folder(chain: Chain, tmp_path: Path) -> None:
    odd = tmp_path / "it's 100%h"
    odd.mkdir()
    config = shutil.copy(chain.config(), odd)
    assert echo(config) == "in\n"


@pytest.mark.parametrize("shell", ["sh", "bash", "csh", "fish"])
def test_jump_hosts_work_with_any_login_shell(
    chain: Chain, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", shutil.which(shell) or "/bin/sh")
    assert echo(chain.config()) == "in\n"


def test_user_port_and_host_key_alias_of_a_jump_host_count(chain: Chain) -> None:
    outer, inner = chain.hosts["outer"], chain.hosts["inner"]
    chain.jumps = {"far": f"{getuser()}@outer:{outer.port},inner"}
    chain.known["inner"] = f"gate {inner.host_key}\n"
    wrong = "Host outer\n User stranger\n Port 1\nHost inner\n HostKeyAlias gate"
    assert echo(with_first(chain.config(), wrong)) == "in\n"


def test_a_connection_to_a_jump_host_is_shared_if_the_config_says_so(chain: Chain, short: Path) -> None:
    more = f"Host outer\n ControlPath {short}/%C\n ControlMaster auto\n ControlPersist 60"
    config = with_first(chain.config(), more)
    try:
        assert echo(config) == "in\n"
        argv = ["ssh", "-F", config, "-O", "check", "outer"]
        assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
    finally:
        subprocess.run(["ssh", "-F", config, "-O", "exit", "outer"], check=False, capture_output=True)


def test_behind_a_jump_host_with_a_prompt_the_error_names_the_known_keys(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.known["inner"] = ""
    word = "outer"
    chain.keys["outer"] = keygen(tmp_path / "locked", passphrase=word)
    with (chain.hosts["outer"].folder / "authorized_keys").open("a") as file:
        file.write((tmp_path / "locked.pub").read_text())
    prompt = tmp_path / "person"
    prompt.write_text(f"#!/bin/sh\necho {word}\n")
    prompt.chmod(0o700)
    monkeypatch.setenv("SSH_ASKPASS", str(prompt))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with pytest.raises(errors.HostKeyError, match=r"not that of outer, .* Run `ssh -F \S+ far` once"):
        openssh.connect(destination("far", chain.config()))


def test_a_jump_host_with_a_certificate_is_not_blamed(chain: Chain, tmp_path: Path) -> None:
    authority = keygen(tmp_path / "ca")
    privilege_separation_folder()
    (tmp_path / "certified").mkdir()
    with sshd(tmp_path / "certified", authority=authority) as outer:
        chain.hosts["outer"], chain.keys["outer"] = outer, outer.key
        chain.known["outer"] = f"@cert-authority {outer.name} {authority.with_suffix('.pub').read_text()}"
        chain.known["inner"] = ""
        with pytest.raises(errors.HostKeyError, match="of far or of a host before it is not known"):
            openssh.connect(destination("far", chain.config()))


def test_the_config_forwards_and_runs_nothing_of_its_own(server: Server, tmp_path: Path) -> None:
    more = f"LocalForward {server.port} 127.0.0.1:1\n ExitOnForwardFailure yes\n RemoteCommand false"
    assert echo(server.config(tmp_path, more=more)) == "in\n"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ssh: connect to host h port 22: Connection timed out", errors.ConnectionFailed),
        ("Connection timed out during banner exchange", errors.ConnectionFailed),
        ("ssh: connect to host h port 22: No route to host", errors.ConnectionFailed),
        ("kex_exchange_identification: Connection closed by remote host", errors.ConnectionFailed),
        ("Permission denied, try again.\nConnection reset by 1.2.3.4 port 22", errors.ConnectionFailed),
        ("Received disconnect from h: Too many authentication failures", errors.AuthenticationFailed),
        ("me@h: Permission denied (publickey,keyboard-interactive).", errors.AuthenticationFailed),
        ("No ED25519 host key is known for h\nHost key verification failed.", errors.HostKeyError),
        ("/x: line 3: Bad configuration option: y", errors.ConfigError),
        ("", errors.ConnectionFailed),
    ],
)
def test_a_message_of_ssh_becomes_an_error(said: str, kind: type[Exception], tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    error = failure(destination("far", str(tmp_path / "config")), said, is_unattended=False)
    assert isinstance(error, kind)
    assert error.hint
    assert "{" not in str(error)


def test_every_error_of_ssh_has_a_hint() -> None:
    assert all(one.hint for one in ERRORS)
