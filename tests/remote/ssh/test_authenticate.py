"""Authentication, with keys by a real sshd and with passwords and codes by paramiko's server."""

import os
import re
import shutil
import socket
import subprocess
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from getpass import getuser
from pathlib import Path
from typing import Any

import paramiko
import pytest

from slurmgen.errors import AuthenticationFailed, ConnectionFailed
from slurmgen.remote.ssh import openssh
from slurmgen.remote.ssh import paramiko as ssh_client
from slurmgen.remote.ssh.config import Destination, destination
from slurmgen.remote.ssh.paramiko import connect
from slurmgen.remote.ssh.prompt import Terminal
from slurmgen.remote.transport import TimedOut, Transport
from tests.support.questions import serving
from tests.support.sshd import Server, closed_port, keygen

CONNECT: dict[str, Callable[..., Transport]] = {"paramiko": connect, "openssh": openssh.connect}
"The clients."


class FakePrompt:
    """Answers prompts, and records them."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []
        self.shown: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answers.pop(0)

    def show(self, text: str) -> None:
        self.shown.append(text)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    reply = subprocess.run(
        ["ssh-agent", "-s", "-a", tmp_path / "agent"], capture_output=True, text=True, check=True
    )
    pid = int(re.search(r"SSH_AGENT_PID=(\d+)", reply.stdout)[1])  # type: ignore[index]
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    yield
    os.kill(pid, 15)


def echo(to: Destination, ask: Any = None, client: str = "paramiko") -> str:
    with CONNECT[client](to, ask) as transport:
        return transport.run(["echo", "in"], timeout=60).out.strip()


@pytest.mark.parametrize("client", CONNECT)
def test_the_right_key_is_accepted_and_the_wrong_one_refused_with_what_to_do(
    server: Server, tmp_path: Path, client: str
) -> None:
    assert echo(destination("far", server.config(tmp_path)), client=client) == "in"
    wrong = keygen(tmp_path / "wrong")
    with pytest.raises(AuthenticationFailed, match="far refused the login of ") as caught:
        echo(destination("far", server.config(tmp_path, key=wrong)), client=client)
    assert caught.value.exit_code == 3
    for part in (str(wrong), "ssh-copy-id far") if client == "paramiko" else ("there is no terminal here",):
        assert part in str(caught.value)


def test_a_login_without_any_key_is_reported(server: Server, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match="with no key"):
        echo(destination("far", server.config(tmp_path, key=tmp_path / "none")))


def test_too_many_keys_are_reported(server: Server, tmp_path: Path) -> None:
    keys = [keygen(tmp_path / f"wrong{number}") for number in range(5)]
    more = "\n".join(f"IdentityFile {key}" for key in keys)
    with pytest.raises(AuthenticationFailed, match=r"closed the connection after \d keys.*IdentitiesOnly"):
        echo(destination("far", server.config(tmp_path, key=keys[0], more=more)))


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_an_encrypted_key_is_decrypted_with_its_passphrase(server: Server, tmp_path: Path, kind: str) -> None:
    key = keygen(tmp_path / "locked", kind, "pässword")
    with (server.folder / "authorized_keys").open("a") as file:
        file.write(key.with_suffix(".pub").read_text())
    prompt = FakePrompt("wrong", "pässword")
    assert echo(destination("far", server.config(tmp_path, key=key)), prompt) == "in"
    assert prompt.prompts == [f"Passphrase of {key}: "] * 2


def test_an_encrypted_key_is_skipped_without_a_terminal(server: Server, tmp_path: Path) -> None:
    key = keygen(tmp_path / "locked", "ed25519", "secret")
    assert (
        echo(destination("far", server.config(tmp_path, key=key, more=f"IdentityFile {server.key}"))) == "in"
    )


@pytest.mark.parametrize("others", [0, 6])
def test_the_keys_of_the_agent_are_offered_first_the_one_that_the_config_names(
    server: Server, tmp_path: Path, agent: None, others: int
) -> None:
    """An agent may hold more keys than the host accepts attempts."""
    more = [keygen(tmp_path / f"other{number}") for number in range(others)]
    subprocess.run(["ssh-add", "-q", *more, server.key], check=True)
    config = Path(server.config(tmp_path, key=server.key if others else tmp_path / "none"))
    config.write_text(config.read_text().replace("IdentitiesOnly yes", ""))
    assert echo(destination("far", str(config))) == "in"


def test_with_identities_only_the_config_selects_the_agents_keys(
    server: Server, tmp_path: Path, agent: None
) -> None:
    subprocess.run(["ssh-add", "-q", server.key], check=True)
    with pytest.raises(AuthenticationFailed, match="no key"):
        echo(destination("far", server.config(tmp_path, key=tmp_path / "none")))
    public = shutil.copy(server.key.with_suffix(".pub"), tmp_path / "id.pub")
    assert echo(destination("far", server.config(tmp_path, key=Path(public)))) == "in"


def test_a_key_in_the_agent_needs_no_passphrase(server: Server, tmp_path: Path, agent: None) -> None:
    wrong = keygen(tmp_path / "locked")
    subprocess.run(["ssh-add", "-q", wrong], check=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", wrong], check=True, capture_output=True
    )
    prompt = FakePrompt()
    with pytest.raises(AuthenticationFailed):
        echo(destination("far", server.config(tmp_path, key=wrong)), prompt)
    assert prompt.prompts == []


@pytest.mark.parametrize("client", CONNECT)
def test_a_host_that_cannot_be_reached_is_a_failed_connection(
    server: Server, tmp_path: Path, client: str
) -> None:
    closed = Server(server.folder, closed_port())
    with pytest.raises(ConnectionFailed, match=r"cannot connect to far at 127.0.0.1 port \d+.*refused"):
        echo(destination("far", closed.config(tmp_path)), client=client)
    (tmp_path / "config").write_text("Host far\n HostName no.such.host.invalid\n")
    with pytest.raises(ConnectionFailed, match=r"no\.such\.host\.invalid"):
        echo(destination("far", str(tmp_path / "config")), client=client)


def test_a_silent_host_times_out(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_client, "CONNECT_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        start = time.monotonic()
        with pytest.raises(ConnectionFailed):
            echo(destination("far", Server(server.folder, port).config(tmp_path)))
        assert time.monotonic() - start < ssh_client.ANSWER_TIMEOUT / 4


def test_a_proxy_command_is_used_for_the_connection(server: Server, tmp_path: Path) -> None:
    inner = tmp_path / "an inner"
    inner.mkdir()
    config = server.config(tmp_path, more=f'ProxyCommand ssh -F "{server.config(inner)}" -W %h:%p far')
    assert echo(destination("far", config)) == "in"


def test_a_failing_proxy_command_is_a_failed_connection(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed):
        echo(destination("far", server.config(tmp_path, more="ProxyCommand false %h")))


class Gate(paramiko.ServerInterface):
    """Requires a password, or a key and then a code, or only a tap on a phone."""

    def __init__(self, methods: str) -> None:
        self.by_phone = methods == "phone"
        self.methods = "keyboard-interactive" if self.by_phone else methods

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if "publickey" not in self.methods:
            return paramiko.AUTH_FAILED
        self.methods = "keyboard-interactive"
        return paramiko.AUTH_PARTIALLY_SUCCESSFUL

    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_SUCCESSFUL if password == "right" else paramiko.AUTH_FAILED  # noqa: S105

    def check_auth_interactive(self, username: str, submethods: str) -> paramiko.InteractiveQuery:
        if self.by_phone:
            return paramiko.InteractiveQuery("", "\x1b[2JApprove it on your phone.")
        return paramiko.InteractiveQuery("Two factors", "\x1b[2JEnter it.", ("Code: ", False))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        if self.by_phone:
            return paramiko.AUTH_FAILED if responses else paramiko.AUTH_SUCCESSFUL
        return paramiko.AUTH_SUCCESSFUL if responses == ["123456"] else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if b" slow" in command:
            time.sleep(5)
            raise paramiko.SSHException("no client waits any more")

        def answer() -> None:
            with suppress(EOFError, OSError):  # the client may have left
                reply = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=60)
                channel.sendall_stderr(reply.stderr)
                channel.sendall(reply.stdout)
                channel.send_exit_status(reply.returncode)
                channel.close()

        channel.get_transport().begin(answer)
        return True


@pytest.fixture
def gate(server: Server, tmp_path: Path) -> Iterator[Any]:
    """Start paramiko's server with some methods; returns its destination."""
    with ExitStack() as running:

        def start(methods: str, more: str = "") -> Destination:
            port = running.enter_context(serving(server.folder / "host_key", lambda: Gate(methods)))
            return destination("far", Server(server.folder, port).config(tmp_path, more=more))

        yield start


def test_a_password_is_prompted_for_if_no_key_is_accepted(gate: Any) -> None:
    prompt = FakePrompt("wrong", "right")
    assert echo(gate("password"), prompt) == "in"
    assert prompt.prompts == [f"Password of {getuser()}@far: "] * 2


def test_a_code_is_prompted_for_after_the_key(gate: Any) -> None:
    prompt = FakePrompt("123456")
    assert echo(gate("publickey"), prompt) == "in"
    assert prompt.prompts == [f"({getuser()}@far) Two factors \\x1b[2JEnter it. Code: "]


def test_a_message_that_needs_no_answer_is_shown(gate: Any) -> None:
    prompt = FakePrompt()
    assert echo(gate("phone"), prompt) == "in"
    assert [text.strip() for text in prompt.shown] == [f"({getuser()}@far) \\x1b[2JApprove it on your phone."]


@pytest.mark.parametrize("methods", ["password", "publickey"])
def test_an_unanswered_prompt_is_a_failed_login(
    gate: Any, monkeypatch: pytest.MonkeyPatch, methods: str
) -> None:
    def nothing(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("slurmgen.remote.ssh.prompt.getpass", nothing)
    monkeypatch.setattr("slurmgen.remote.ssh.prompt.restore_terminal_at_exit", lambda: None)
    with pytest.raises(AuthenticationFailed, match="there was no answer to"):
        echo(gate(methods), Terminal())


def test_a_host_that_is_slow_to_start_a_command_is_reported(gate: Any) -> None:
    with (
        connect(gate("password"), FakePrompt("right")) as transport,
        pytest.raises(TimedOut, match="slow did not finish"),
    ):
        transport.run(["slow"], timeout=1)


def test_the_login_ends_after_three_wrong_answers(gate: Any) -> None:
    prompt = FakePrompt("a", "b", "c", "d")
    with pytest.raises(AuthenticationFailed):
        echo(gate("password"), prompt)
    assert prompt.answers == ["d"]


@pytest.mark.parametrize("switch", ["PubkeyAuthentication no", "PreferredAuthentications password"])
def test_keys_that_ssh_config_disables_are_not_offered(server: Server, tmp_path: Path, switch: str) -> None:
    with pytest.raises(AuthenticationFailed, match="with no key"):
        echo(destination("far", server.config(tmp_path, more=switch)))


@pytest.mark.parametrize("switch", ["PasswordAuthentication no", "PreferredAuthentications publickey"])
def test_a_password_that_ssh_config_disables_is_not_prompted_for(gate: Any, switch: str) -> None:
    prompt = FakePrompt("right")
    with pytest.raises(AuthenticationFailed):
        echo(gate("password", switch), prompt)
    assert prompt.prompts == []


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff\xfe" * 100, b"x" * 2_000_000, None])
@pytest.mark.parametrize("name", ["id", "id.pub", "id-cert.pub"])
def test_a_file_that_is_not_a_key_is_skipped(
    server: Server, tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is None:
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    if name != "id":
        shutil.copy(server.key, tmp_path / "id")
    more = f"IdentityFile {server.key}" if name == "id" else ""
    config = server.config(tmp_path, key=tmp_path / "id", more=more)
    assert echo(destination("far", config), FakePrompt()) == "in"


def test_a_damaged_key_is_skipped(server: Server, tmp_path: Path) -> None:
    lines = keygen(tmp_path / "id").read_text().splitlines()
    blob = bytearray(b64decode("".join(lines[1:-1])))
    blob[-30] ^= 1  # a part of the private half, which then does not belong to the public one
    text = "\n".join([lines[0], b64encode(blob).decode(), lines[-1], ""])
    (tmp_path / "id").write_text(text)
    more = f"IdentityFile {server.key}"
    assert echo(destination("far", server.config(tmp_path, key=tmp_path / "id", more=more))) == "in"


@pytest.mark.parametrize("form", ["RFC4716", "PEM"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
@pytest.mark.parametrize("passphrase", ["", "secret"])
def test_a_key_is_read_in_any_format(
    server: Server, tmp_path: Path, kind: str, form: str, passphrase: str
) -> None:
    key = tmp_path / "id"
    command = ["ssh-keygen", "-q", "-t", kind, "-m", form, "-N", passphrase, "-f", key]
    subprocess.run(command, check=True)
    with (server.folder / "authorized_keys").open("a") as file:
        file.write(key.with_suffix(".pub").read_text())
    assert echo(destination("far", server.config(tmp_path, key=key)), FakePrompt(passphrase)) == "in"


def test_without_a_terminal_there_is_no_password_prompt(gate: Any) -> None:
    with pytest.raises(AuthenticationFailed, match="there is no terminal here"):
        echo(gate("password"))


def test_a_password_is_in_no_message(gate: Any) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        echo(gate("password"), FakePrompt("hunter2", "hunter2", "hunter2"))
    assert "hunter2" not in f"{caught.value!r}{caught.value.__cause__!r}{caught.value.__context__!r}"
