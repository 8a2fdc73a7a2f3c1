"""Logs as files over there: the ends of many, and what one is."""

import re
from collections.abc import Sequence

from msgspec import Struct

from slurmgen.jobs.failure import LOG_END
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, failed

_HEAD = 4096
"Bytes of a log's beginning by which text is told from the rest."
# A NUL ends each, so none may be within.
_ENDS = r"""for file do tail -c "$0" "$file" 2>/dev/null | tr -d '\000'; printf '\000'; done"""
_LOOK = '[ ! -f "$2" ] || { wc -c <"$2" && head -c "$1" "$2"; }'


class LogFile(Struct, frozen=True):
    """What a log is; `size` in bytes, None if there is no such file yet."""

    path: str
    size: int | None = None
    text: bool | None = None
    "Whether it looks like text."


def ends(far: Transport, paths: Sequence[str]) -> list[str]:
    """The end of each log, all with one command; nothing of one that cannot be read."""
    completed = far.run(["sh", "-c", _ENDS, str(LOG_END), *paths], timeout=COMMAND_TIMEOUT)
    texts = [text[-LOG_END:] for text in completed.out.split("\0", len(paths))]
    return [*texts, *[""] * len(paths)][: len(paths)]


def look(far: Transport, path: str) -> LogFile:
    """What a log is, without reading it all.

    Raises:
        CommandFailed: it cannot be read.
    """
    argv = ["sh", "-c", _LOOK, "look", str(_HEAD), path]
    said = far.run(argv, timeout=COMMAND_TIMEOUT)
    if said.returncode:
        raise failed(argv, far.where, said.returncode, said.stderr)
    size, _, head = said.stdout.partition(b"\n")
    is_there = re.fullmatch(rb" *[0-9]{1,18} *", size)
    return LogFile(path, int(size), b"\0" not in head) if is_there else LogFile(path)


def has_folder(far: Transport, path: str) -> bool:
    """Whether the remote host has that folder."""
    return not far.run(["test", "-d", path], timeout=COMMAND_TIMEOUT).returncode
