"""The files that a job made or changed, as `fetch` would fetch them, without their content."""

import re
from collections.abc import Iterator

from msgspec import Struct

from slurmgen.errors import CommandFailed
from slurmgen.jobs.job import Job
from slurmgen.jobs.results.fetch import FOUND, find_tests
from slurmgen.jobs.results.local_folder import of_task, record_of
from slurmgen.jobs.results.names import refusal
from slurmgen.remote.transport import Transport, failed

MOST = 2000
"Files that are listed."
_TIMEOUT = 120.0
_LIST = f"{FOUND} | head -z -n {MOST + 1} | {{ xargs -0 -r stat --printf='%s %Y %n\\0'; exit 0; }}"
_ROW = re.compile(r"([0-9]{1,18}) ([0-9]{1,12}) \./(.+)", re.DOTALL)


class Made(Struct, frozen=True):
    """A file that a job made or changed."""

    name: str
    "Its path in the run folder."
    size: int
    "Bytes."
    changed: int
    "Seconds since 1970."
    refused: str = ""
    "Why it would not be fetched, else empty."


class Listing(Struct, frozen=True):
    """The files of a job, in the order of their names."""

    files: tuple[Made, ...] = ()
    is_cut: bool = False
    "Whether there are more."


def list_results(transport: Transport, job: Job) -> Listing:
    """The files that a job made or changed; of a task of a sweep, those of its folder and its log.

    Raises:
        RequestError: the job is not recorded.
        CommandFailed: they cannot be listed: the folder may be gone.
    """
    tests = find_tests(of_task(job, ()))
    argv = ["sh", "-c", _LIST, "list", record_of(job).folder, *tests]
    completed = transport.run(argv, timeout=_TIMEOUT)
    if completed.returncode:
        raise failed(argv, transport.where, completed.returncode, completed.stderr)
    rows = completed.stdout.split(b"\0")
    if rows.pop():
        raise CommandFailed(f"{transport.where} did not list the files of job {job.id}", "Try again.")
    found = sorted(_files(rows), key=lambda file: file.name)
    return Listing(tuple(found[:MOST]), len(found) > MOST)


def _files(rows: list[bytes]) -> Iterator[Made]:
    for row in rows:
        if match := _ROW.fullmatch(row.decode(errors="surrogateescape")):
            size, changed, name = match.groups()
            yield Made(name, int(size), int(changed), refusal(name) or "")
