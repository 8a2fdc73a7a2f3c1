"""A real sshd on the loopback with its own keys, home folder and environment."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path


@dataclass(frozen=True)
class Server:
    """A running sshd, and how to reach it."""

    folder: Path
    port: int

    @property
    def home(self) -> Path:
        """The home folder of its sessions."""
        return self.folder / "home"

    @property
    def host_key(self) -> str:
        """The public half of its key: type and text."""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    @property
    def key(self) -> Path:
        """The user's key that it accepts."""
        return self.folder / "key"

    @property
    def name(self) -> str:
        """Its name in known_hosts."""
        return f"[127.0.0.1]:{self.port}"

    def config(
        self, folder: Path, *, known: str | None = None, key: Path | None = None, more: str = ""
    ) -> str:
        """Write an ssh_config with the alias `far`; returns its path."""
        (folder / "known_hosts").write_text(self.known_line if known is None else known)
        (folder / "ssh_config").write_text(self.block("far", folder / "known_hosts", key=key, more=more))
        return str(folder / "ssh_config")

    @property
    def known_line(self) -> str:
        """Its line in known_hosts."""
        return f"{self.name} {self.host_key}\n"

    def block(self, alias: str, known_hosts: Path, *, key: Path | None = None, more: str = "") -> str:
        """Its block in ssh_config."""
        return f"""Host {alias}
          HostName 127.0.0.1
          Port {self.port}
          User {getuser()}
          IdentityFile "{key or self.key}"
          IdentitiesOnly yes
          UserKnownHostsFile "{known_hosts}"
          GlobalKnownHostsFile /dev/null
          {more}
        """


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", path], check=True, timeout=60)
    return path


def certified(host_key: Path, authority: Path) -> Path:
    """The certificate of the host key of 127.0.0.1, signed by an authority."""
    vouch = ["ssh-keygen", "-q", "-s", authority, "-I", "test", "-h", "-n", "127.0.0.1", f"{host_key}.pub"]
    subprocess.run(vouch, check=True, timeout=60)
    return host_key.with_name(f"{host_key.name}-cert.pub")


def reserved_port() -> socket.socket:
    """A socket bound to a port on which no process listens.

    As long as it is open, no other process is given the port. A server with SO_REUSEADDR can listen there.
    """
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    return bound


_RESERVED: list[socket.socket] = []


def closed_port() -> int:
    """A port on which no process listens; it stays reserved for this process."""
    _RESERVED.append(reserved_port())
    return int(_RESERVED[-1].getsockname()[1])


@contextmanager
def sshd(
    folder: Path, variables: Mapping[str, str] | None = None, more: str = "", authority: Path | None = None
) -> Iterator[Server]:
    """Start an sshd that sets `variables` in each session; it ends with the block.

    `more` configures it; an `authority` signs its host key.
    """
    with reserved_port() as reserved:
        server = Server(folder, reserved.getsockname()[1])
        server.home.mkdir()
        keygen(folder / "host_key")
        if authority:
            more += f"\nHostCertificate {certified(folder / 'host_key', authority)}"
        shutil.copy(keygen(server.key).with_suffix(".pub"), folder / "authorized_keys")
        settings = _config(server, {"HOME": str(server.home), **(variables or {})})
        (folder / "sshd_config").write_text(f"{more}\n{settings}")
        with (folder / "sshd.log").open("wb") as log:
            # Its own full name: sshd starts itself anew for each connection.
            program = shutil.which("sshd") or "/usr/sbin/sshd"
            process = subprocess.Popen([program, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
        try:
            _await(server.port)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _config(server: Server, variables: Mapping[str, str]) -> str:
    pairs = " ".join(f'"{name}={text}"' for name, text in variables.items())
    return f"""Port {server.port}
ListenAddress 127.0.0.1
PidFile none
HostKey {server.folder}/host_key
AuthorizedKeysFile {server.folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxAuthTries 3
PrintMotd no
SetEnv {pairs}
ForceCommand cd "$HOME" && eval "$SSH_ORIGINAL_COMMAND"
"""


def _await(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("sshd does not accept connections")


def privilege_separation_folder() -> None:
    """Make the folder that sshd requires, if no service has made it."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
