"""ssh_config as ssh itself reads it: `ssh -G` resolves Host, Match, Include and canonical names.

Like any `ssh HOST`, it runs the commands of `Match exec`.
"""

import getpass
import os
import pwd
import re
import socket
import subprocess
from pathlib import Path
from tempfile import NamedTemporaryFile

from slurmgen import files

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
TIMEOUT = 30.0
"Seconds for the commands of `Match exec` and for the canonicalization of names."

_PATH_LISTS = {"userknownhostsfile", "globalknownhostsfile", "revokedhostkeys"}
_EXPANDED = {"certificatefile", "identityagent", "identityfile", "proxycommand", "proxyjump", *_PATH_LISTS}
# ssh prints paths without quotes, also with blanks in them; each begins with a slash or a tilde.
_NEXT_PATH = re.compile(r"\s+(?=[/~])")


def read_options(
    program: str, alias: str, user: str, port: str, config_file: Path | None
) -> dict[str, list[str]]:
    """The options that ssh would use for a host.

    Raises:
        ValueError: ssh refuses the file; the message is its own.
    """
    file = ["-F", str(config_file)] if config_file else []
    login = [*(["-l", user] if user else []), *(["-p", port] if port else [])]
    values: dict[str, list[str]] = {}
    for line in _ssh_output([program, "-G", "-T", *file, *login, "--", alias]).splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword, []).append(value)
    for keyword in _PATH_LISTS & values.keys():
        values[keyword] = _NEXT_PATH.split(values[keyword][0])
    tokens = _tokens(alias, values)
    return values | {
        key: [_expanded(text, tokens) for text in values[key]] for key in _EXPANDED & values.keys()
    }


def leaves_jump_open(
    program: str, alias: str, user: str, port: str, config_file: Path | None, jump: str
) -> bool:
    """Whether ssh_config has neither ProxyJump nor ProxyCommand for a host; `ssh -G` does not print `none`.

    A default that follows all of ssh_config has an effect only if nothing in it applies.
    """
    paths = [config_file] if config_file else [Path(_home(), ".ssh/config"), SYSTEM_CONFIG]
    texts = [files.read_bytes(path) for path in paths if path.exists()]
    with NamedTemporaryFile(prefix="slurmgen-", suffix=".ssh_config") as file:
        file.write(b"\nMatch all\n".join([*texts, f"ProxyJump {jump}\n".encode()]))
        file.flush()
        return "proxyjump" in read_options(program, alias, user, port, Path(file.name))


def _ssh_output(argv: list[str]) -> str:
    try:
        reply = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"`ssh -G` did not finish within {TIMEOUT:g} seconds") from None
    if reply.returncode:
        lines = reply.stderr.decode(errors="replace").splitlines()
        raise ValueError("; ".join(lines) or f"`ssh -G` failed with exit status {reply.returncode}")
    return reply.stdout.decode(errors="surrogateescape")


def _tokens(alias: str, values: dict[str, list[str]]) -> dict[str, str]:
    """The values of ssh_config's tokens (%h), which ssh expands only when it connects."""
    host, local = values["hostname"][0], socket.gethostname()
    return {
        "%": "%",
        "d": _home(),
        "h": host,
        "i": str(os.getuid()),
        "k": values.get("hostkeyalias", [host])[0],
        "L": local.partition(".")[0],
        "l": local,
        "n": alias,
        "p": values["port"][0],
        "r": values["user"][0],
        "u": getpass.getuser(),
    }


def _expanded(text: str, tokens: dict[str, str]) -> str:
    """A value with its tokens and `~` expanded as ssh does it: not from HOME."""
    text = re.sub(r"^~(?=/)", lambda _: _home(), text)
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _home() -> str:
    return pwd.getpwuid(os.getuid()).pw_dir
