"""The text of a twin's sshd and of the ssh_config that reaches it. Pure."""

from pathlib import Path

from slurmgen.twin.layout import Layout


def sshd_config(layout: Layout) -> str:
    """A server for one user on the loopback, by key alone."""
    # StrictModes looks at folders above ours, such as /tmp or a group-writable home; ours is private.
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
SetEnv SLURM_CONF={quoted(layout.folder / "slurm.conf")}
"""


def ssh_config(layout: Layout) -> str:
    """What `ssh -F` needs to reach the twin under the login host's own name."""
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
    """The server's key, under the address that ssh looks it up by."""
    kind, key, *_ = host_key.split()
    return f"[127.0.0.1]:{layout.ssh_port} {kind} {key}\n"


def quoted(path: Path) -> str:
    """A path as both ssh's and paramiko's readers take it; bare where it can be."""
    return f'"{path}"' if " " in str(path) else str(path)
