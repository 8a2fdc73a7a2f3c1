"""ssh_config as paramiko reads it if ssh is not installed; with Include, which paramiko does not support."""

import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path

import paramiko

from slurmgen import files
from slurmgen.remote.ssh.config_openssh import SYSTEM_CONFIG

DEEPEST = 16
"How deep files may include one another, as in OpenSSH."
MOST_FILES = 256
"Number of files that are read; each takes longer than the one before."

_PATH_LISTS = {"userknownhostsfile", "globalknownhostsfile", "revokedhostkeys"}
_ALONE = {"all", "canonical", "final"}
_WITH_VALUE = {"exec", "host", "localuser", "originalhost", "user"}
_PROBE = "slurmgenprobe"


def read_options(alias: str, config_file: Path | None) -> dict[str, list[str]]:
    """The options of ssh_config for a host.

    Raises:
        OSError, ValueError: a file cannot be read, or is not valid.
    """
    # OpenSSH ignores the system's file too when it is given one.
    paths = [config_file] if config_file else [Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG]
    lines: list[str] = []
    count = itertools.count(1)
    for path in paths:
        if config_file or path.exists():
            _read(path, alias, lines, count)
            lines.append("Host *")
    return {key: _values(key, value) for key, value in _lookup(lines, alias).items() if value}


def _values(keyword: str, value: str | list[str]) -> list[str]:
    if isinstance(value, list):
        return value
    return shlex.split(value) if keyword in _PATH_LISTS else [value]


def _lookup(lines: list[str], alias: str) -> paramiko.SSHConfigDict:
    config = paramiko.SSHConfig()
    try:
        config.parse(iter(lines))
        return config.lookup(alias)
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize, ImportError) as error:
        raise ValueError(str(error)) from None  # `Match exec` needs a package that is not installed
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None


def _read(path: Path, alias: str, lines: list[str], count: Iterator[int], depth: int = 0) -> None:
    """Add the lines of a file; those that it includes only if the block around them applies."""
    if depth > DEEPEST or next(count) > MOST_FILES:
        raise ValueError(f"{path} is one of too many files that include one another")
    block = "Host *"
    # A comment may be in any encoding.
    for line in files.read_bytes(path).decode(errors="surrogateescape").splitlines():
        keyword, value = _parts(line)
        if keyword == "match":
            _check_match(value)
        if keyword in {"host", "match"}:
            block = line
        if keyword != "include":
            lines.append(line)
        elif _is_active(block, alias, lines):
            for included in _included(value):
                _read(included, alias, lines, count, depth + 1)
                lines.append(block)


def _parts(line: str) -> tuple[str, str]:
    keyword, value = [*line.replace("=", " ", 1).split(None, 1), "", ""][:2]
    return keyword.lower(), value.strip()


def _is_active(block: str, alias: str, lines: list[str]) -> bool:
    return _PROBE in _lookup([*lines, block, f"{_PROBE} yes"], alias)


def _check_match(value: str) -> None:
    """Refuse a condition that paramiko does not support: it would treat it as true."""
    words = iter(shlex.split(value))
    for word in words:
        plain = word.removeprefix("!").lower()
        if plain in _WITH_VALUE:
            next(words, None)
        elif plain not in _ALONE:
            raise ValueError(f"`Match {word}` is supported only if `ssh` is installed")


def _included(patterns: str) -> Iterator[Path]:
    """The files that an Include names; relative ones are in ~/.ssh."""
    home = Path("~/.ssh").expanduser()
    for pattern in shlex.split(patterns):
        whole = home / Path(pattern).expanduser()
        yield from sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))
