"""Log files on the remote host: the ends of many, and what kind of file one is."""

import re
from collections.abc import Sequence

from msgspec import Struct

from slurmgen.jobs.failure import LOG_END, NO_FOLDER
from slurmgen.jobs.job import Job
from slurmgen.jobs.log_paths import find_log
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, batches, failed

_HEAD = 4096
"Bytes of a log's beginning that show whether it is text."
_SEARCHED = 4 << 20
"Bytes of a log's end that the remote host reads: a failure of Lightning writes 20 kB for each rank."
# Without the frames of tracebacks, the failures of many ranks fit into LOG_END.
# A NUL ends each log, so the logs themselves must not contain one. The line of the last unfinished run comes
# first: what a long run writes after it may be more than is kept.
_ENDS = r"""
export LC_ALL=C
searched=$1 kept=$2 longest=$3 gone=$4
shift 4
for file do
  [ -d "${file%/*}" ] || printf '%s' "$gone"
  tail -c "$searched" "$file" 2>/dev/null | tr -d '\000' |
    grep '^slurmgen: \(run\|segment\) [0-9]' | tail -n 1 | head -c "$longest"
  tail -c "$searched" "$file" 2>/dev/null | tr -d '\000' |
    sed -e '/^\(\[[^]]*\]: *\)*  File "/d' -e '/^\(\[[^]]*\]: \{0,1\}\)*    /d' | tail -c "$kept"
  printf '\000'
done"""
_TOGETHER = 8 << 20
"Bytes of all ends that one command sends; `MAX_REPLY` is twice that."
_LEAST = 4096
"Bytes of a log's end that are read in any case."
_LINE = 200
"Bytes of that line, at most."
_LOOK = '[ ! -f "$2" ] || { wc -c <"$2" && head -c "$1" "$2"; }'


class LogFile(Struct, frozen=True):
    """A log file; `size` in bytes, None if the file does not exist yet."""

    path: str
    size: int | None = None
    text: bool | None = None
    "Whether it looks like text."


def ends(transport: Transport, paths: Sequence[str]) -> list[str]:
    """The end of each log without the frames of tracebacks; an empty text for one that cannot be read.

    One command reads those of up to some hundred logs. Of very many, less of each is read.
    """
    most = max(_LEAST, min(LOG_END, _TOGETHER // max(1, len(paths))))
    parts = (
        part[start : start + _TOGETHER // most]
        for part in batches(paths)
        for start in range(0, len(part), _TOGETHER // most)
    )
    return [text for part in parts for text in _ends(transport, part, most)]


def _ends(transport: Transport, paths: Sequence[str], most: int) -> list[str]:
    sizes = (_SEARCHED, most - _LINE, _LINE)
    argv = ["sh", "-c", _ENDS, "ends", *map(str, sizes), NO_FOLDER, *paths]
    completed = transport.run(argv, timeout=COMMAND_TIMEOUT)
    texts = [text[-LOG_END:] for text in completed.out.split("\0", len(paths))]
    return [*texts, *[""] * len(paths)][: len(paths)]


def look(transport: Transport, path: str) -> LogFile:
    """Size and kind of a log, without reading all of it.

    Raises:
        CommandFailed: it cannot be read.
    """
    argv = ["sh", "-c", _LOOK, "look", str(_HEAD), path]
    reply = transport.run(argv, timeout=COMMAND_TIMEOUT)
    if reply.returncode:
        raise failed(argv, transport.where, reply.returncode, reply.stderr)
    size, _, head = reply.stdout.partition(b"\n")
    exists = re.fullmatch(rb" *[0-9]{1,18} *", size)
    return LogFile(path, int(size), b"\0" not in head) if exists else LogFile(path)


def path_of(transport: Transport, job: Job, *, stderr: bool) -> str:
    """The log of a job: from the ledger, else from Slurm.

    Raises:
        CommandFailed, RequestError: see `find_log`.
    """
    if job.run is not None and not stderr:
        return job.log
    return find_log(transport, job.record, job.id, stderr=stderr)


def is_pruned(transport: Transport, job: Job) -> bool:
    """Whether the folder that the job ran in no longer exists."""
    return job.record is not None and not has_folder(transport, job.record.folder)


def has_folder(transport: Transport, path: str) -> bool:
    """Whether the remote host has that folder."""
    return not transport.run(["test", "-d", path], timeout=COMMAND_TIMEOUT).returncode
