"""The command line of ssh, with the options that slurmgen sets."""

import shutil
import subprocess
from collections.abc import Sequence

from slurmgen.errors import ConfigError
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.transport import command_line

_ALWAYS = {
    "ClearAllForwardings": "yes",
    "ConnectTimeout": "20",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "NoHostAuthenticationForLocalhost": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "15",
    # An unknown host is refused, as everywhere in slurmgen: only the user adds to known_hosts.
    "StrictHostKeyChecking": "yes",
}
# The messages of a jump host are kept for the error, such as an unknown host key.
_FOR_JUMP_HOST = {"LogLevel": "INFO"}
# For a shared connection. If it has ended, a failing ProxyCommand keeps ssh from opening another one.
_SHARED = {"BatchMode": "yes", "ControlMaster": "no", "LogLevel": "ERROR", "ProxyCommand": "false"}
_ALIVE_TIMEOUT = 10.0


def for_login(to: Destination, prompt: Prompt | None, path: str | None = None, **options: str) -> list[str]:
    """The words of an `ssh` that logs in; `path` is the socket that it makes."""
    batch = "no" if prompt else "yes"
    return ssh(to, path, BatchMode=batch, LogLevel="VERBOSE", **_proxy(to), **options)


def _proxy(to: Destination) -> dict[str, str]:
    """ssh's options for a host with jump hosts: a ProxyCommand with slurmgen's options for each ssh in it.

    The ssh that ProxyJump starts would have none of them, so that ssh_config could accept any host key there.
    """
    if to.jump:
        words = [*ssh(to.jump, **_FOR_JUMP_HOST, **_proxy(to.jump)), "-W", f"[{to.host}]:{to.port}"]
        command = command_line([*words, "--", to.jump.alias])
        return {"ProxyCommand": command.replace("%", "%%"), "ProxyUseFdpass": "no"}
    return {"ProxyCommand": to.proxy_command.replace("%", "%%")} if to.proxy_command else {}


def ssh(to: Destination, path: str | None = None, **options: str) -> list[str]:
    """The words of `ssh`, up to the host; `path` is the socket of a shared connection.

    Raises:
        ConfigError: ssh is not installed.
    """
    program = shutil.which("ssh")
    if program is None:
        raise ConfigError("there is no ssh on this machine", "Install OpenSSH, or use --ssh-client paramiko.")
    file = ["-F", str(to.config_file)] if to.config_file else []
    words = [f"-o{name}={value}" for name, value in (_ALWAYS | options).items()]
    shared = ["-S", path.replace("%", "%%")] if path else []
    return [program, *file, *to.spec.options, *shared, *words]


def for_shared(to: Destination, path: str) -> list[str]:
    """The words of an `ssh` over a shared connection, whose socket is `path`."""
    return ssh(to, path, **_SHARED)


def is_shared(words: Sequence[str], alias: str) -> bool:
    """Whether the shared connection of the ControlPath among the words is open."""
    argv = [*words, "-O", "check", "--", alias]
    try:
        return not subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ALIVE_TIMEOUT,
            check=False,
            start_new_session=True,
        ).returncode
    except subprocess.TimeoutExpired:
        return False
