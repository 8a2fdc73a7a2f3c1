"""The text of a twin's sshd_config, and of the ssh_config that connects to it. Pure."""

from pathlib import Path

from slurmgen.twin.layout import Layout

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sshd_config(layout: Layout) -> str:
    """A server for one user on the loopback, which accepts only a key."""
    variables: dict[str, Path | str] = {"SLURM_CONF": layout.folder / "slurm.conf"}
    if layout.bash_env:
        variables |= {"PATH": layout.slurm.path(_PATH), "BASH_ENV": layout.bash_env}
    # StrictModes checks the folders above, such as /tmp or a group-writable home; this one is private.
    return f"""Port {layout.ssh_port}
ListenAddress 127.0.0.1
PidFile {layout.run}/sshd.pid
HostKey {quoted(layout.folder / "host_key")}
AuthorizedKeysFile {quoted(layout.folder / "id.pub")}
StrictModes no
UsePAM no
AuthenticationMethods publickey
PermitRootLogin prohibit-password
AllowUsers {layout.user}
PrintMotd no
Subsystem sftp internal-sftp
SetEnv {" ".join(f"{name}={quoted(value)}" for name, value in variables.items())}
"""


def ssh_config(layout: Layout) -> str:
    """A file for `ssh -F` that connects to the twin by the name of the real login host."""
    return f"""Host {" ".join(layout.ssh_hosts)}
  HostName 127.0.0.1
  Port {layout.ssh_port}
  User {layout.user}
  IdentityFile {quoted(layout.folder / "id")}
  IdentitiesOnly yes
  UserKnownHostsFile {quoted(layout.folder / "known_hosts")}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


def known_hosts(layout: Layout, host_key: str) -> str:
    """The server's key for the address that ssh looks up."""
    kind, key, *_ = host_key.split()
    return f"[127.0.0.1]:{layout.ssh_port} {kind} {key}\n"


def quoted(path: Path | str) -> str:
    """A path that both ssh and paramiko read; in quotes if it has a space."""
    return f'"{path}"' if " " in str(path) else str(path)
