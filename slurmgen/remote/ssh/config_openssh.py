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

TIMEOUT = 30.0
"Seconds for the commands of `Match exec`, and for names to become canonical."

_PATH_LISTS = {"userknownhostsfile", "globalknownhostsfile", "revokedhostkeys"}
_FILLED = {"certificatefile", "identityagent", "identityfile", "proxycommand", "proxyjump", *_PATH_LISTS}
# ssh prints paths bare, blanks within them too; each begins anew at a slash or a tilde.
_NEXT_PATH = re.compile(r"\s+(?=[/~])")


def said(program: str, alias: str, user: str, port: str, config_file: Path | None) -> dict[str, list[str]]:
    """What ssh would go by for a host.

    Raises:
        ValueError: ssh refuses the file, in its own words.
    """
    file = ["-F", str(config_file)] if config_file else []
    login = [*(["-l", user] if user else []), *(["-p", port] if port else [])]
    values: dict[str, list[str]] = {}
    for line in _asked([program, "-G", "-T", *file, *login, "--", alias]).splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword, []).append(value)
    for keyword in _PATH_LISTS & values.keys():
        values[keyword] = _NEXT_PATH.split(values[keyword][0])
    tokens = _tokens(alias, values)
    return values | {key: [_filled(text, tokens) for text in values[key]] for key in _FILLED & values.keys()}


def _asked(argv: list[str]) -> str:
    try:
        reply = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"`ssh -G` gave no answer within {TIMEOUT:g} seconds") from None
    if reply.returncode:
        lines = reply.stderr.decode(errors="replace").splitlines()
        raise ValueError("; ".join(lines) or f"`ssh -G` failed with exit status {reply.returncode}")
    return reply.stdout.decode(errors="surrogateescape")


def _tokens(alias: str, values: dict[str, list[str]]) -> dict[str, str]:
    """What ssh_config's %-words stand for; ssh fills them in only when it connects."""
    host, here = values["hostname"][0], socket.gethostname()
    return {
        "%": "%",
        "d": _home(),
        "h": host,
        "i": str(os.getuid()),
        "k": values.get("hostkeyalias", [host])[0],
        "L": here.partition(".")[0],
        "l": here,
        "n": alias,
        "p": values["port"][0],
        "r": values["user"][0],
        "u": getpass.getuser(),
    }


def _filled(text: str, tokens: dict[str, str]) -> str:
    """A value with its tokens filled in, and `~` as ssh takes it: not from HOME."""
    text = re.sub(r"^~(?=/)", lambda _: _home(), text)
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _home() -> str:
    return pwd.getpwuid(os.getuid()).pw_dir
