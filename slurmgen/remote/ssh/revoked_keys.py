"""RevokedHostKeys of ssh_config: a file of public keys, or a key revocation list that `ssh-keygen` reads."""

import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path

import paramiko

from slurmgen.errors import ConfigError
from slurmgen.remote.ssh.known_hosts import content, lines

_MAGIC = b"SSHKRL\n\0"
_TIMEOUT = 30.0


def is_revoked(key: paramiko.PKey, paths: Iterable[Path]) -> bool:
    """Whether one of the files revokes a key.

    Raises:
        ConfigError: a file cannot be read; ssh then refuses every host, too.
    """
    return any(_is_revoked(key, path) for path in paths)


def _is_revoked(key: paramiko.PKey, path: Path) -> bool:
    try:
        data = content(path)
        if data.startswith(_MAGIC):
            return _is_in_list(key, path)
        return key.asbytes() in [b64decode(line.split()[1], validate=True) for line in lines(data)]
    except IndexError:
        error: object = "a line is not a public key"
    except (OSError, ValueError, subprocess.TimeoutExpired) as reason:
        error = reason
    raise ConfigError(
        f"cannot read RevokedHostKeys {path}: {error}",
        "Name a file of public keys or of `ssh-keygen -k`, or remove the option from ssh_config.",
    )


def _is_in_list(key: paramiko.PKey, path: Path) -> bool:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ValueError("ssh-keygen is not installed")
    with tempfile.NamedTemporaryFile("w", suffix=".pub") as public:
        public.write(f"{key.get_name()} {key.get_base64()}\n")
        public.flush()
        argv = [program, "-Q", "-f", str(path), public.name]
        reply = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    if reply.returncode and not reply.stdout.rstrip().endswith("REVOKED"):
        raise ValueError(reply.stderr.strip() or f"ssh-keygen ended with exit status {reply.returncode}")
    return reply.returncode != 0
