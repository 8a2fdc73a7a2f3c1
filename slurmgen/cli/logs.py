"""`slurmgen logs`: a job's log, once or until the job ends."""

import codecs
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.job_output import print_jobs
from slurmgen.cli.route_options import connect, find_jobs, jobs_options

if TYPE_CHECKING:
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.ledger import Record
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId
    from slurmgen.slurm.replies import JobState

# Kept: backspace, tab, line feed, carriage return, SGR (colours) and EL (erase the line).
# Bytes 80 to 9F that are not part of UTF-8 are decoded to DC80 to DC9F.
_CONTROLS = re.compile("\x1b\\[[0-9;:]{0,64}[mK]|([\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")
INTERRUPTED = 130
"Exit code after ^C."


@click.command()
@jobs_options
@click.option(
    "-f", "--follow", is_flag=True, help="Follow the log until the job ends; exit 0 if it COMPLETED, else 1."
)
@click.option(
    "--start", type=click.IntRange(min=0), default=0, metavar="BYTE", help="First byte to show; default: 0."
)
def command(
    job_ids: tuple[str, ...], site: str | None, as_json: bool, follow: bool, start: int, **said: Any
) -> int:
    """Show a job's log, or follow it to the job's end.

    ID is a job's id, ID_TASK in an array, a job's name, or `last`. With --follow, a link that breaks
    is made anew, and no byte is lost or shown twice. --json tells what the logs are, not what is in them.
    Exit code 1 if the folder of a job, and with it the log, was pruned.
    """
    if follow and (as_json or len(job_ids) > 1):
        raise click.UsageError("--follow shows one log, and goes without --json.")
    from slurmgen.jobs.job import for_each

    jobs = find_jobs(job_ids, site, **said)

    def show(far: "Transport", one: "Job") -> bool:
        path = _path(far, one.id, one.record)
        if follow:
            if pruned := _is_pruned(far, one):
                _say(_pruned(one))
            follow_to_end(far, one.route, one.id, path, start=start, fails=pruned)
        if len(jobs) > 1:
            _head(one, path)
        return _show(far, one, path, start)

    if not as_json:
        return int(any(for_each(jobs, connect, show)))
    logs = for_each(jobs, connect, _metadata)
    print_jobs([log for log, _ in logs], several=len(job_ids) > 1)
    return int(any(pruned for _, pruned in logs))


def _head(one: "Job", path: str) -> None:
    """Say whose log follows, as tail does."""
    from slurmgen.text import visible

    click.echo(visible(f"==> job {one.id} at {one.route.site}: {path} <=="))


def _metadata(far: "Transport", one: "Job") -> tuple[dict[str, object], bool]:
    """What a log is, and whether it was pruned."""
    from msgspec import structs

    from slurmgen.jobs.log_files import look

    log = look(far, _path(far, one.id, one.record))
    if pruned := log.size is None and _is_pruned(far, one):
        _say(_pruned(one))
    return {"id": one.id.number, "site": one.route.site, **structs.asdict(log)}, pruned


def _is_pruned(far: "Transport", one: "Job") -> bool:
    """Whether the folder that the job ran in is gone."""
    from slurmgen.jobs.log_files import has_folder

    return one.record is not None and not has_folder(far, one.record.folder)


def follow_to_end(
    far: "Transport",
    way: "Route",
    job: "JobId",
    path: str,
    *,
    start: int = 0,
    err: bool = False,
    fails: bool = False,
) -> None:
    """Follow the log until the job ends, and print its state; exits with 0 if it COMPLETED, else 1.

    Args:
        far: where the job is.
        way: how to connect again.
        job: the job.
        path: its log.
        start: the first byte to show.
        err: write to stderr.
        fails: exit with 1 in any case.
    """
    from slurmgen.jobs.follow import follow_through
    from slurmgen.jobs.logs import Shown
    from slurmgen.jobs.report_text import describe
    from slurmgen.jobs.slurm_client import outcome
    from slurmgen.text import visible

    ctx = click.get_current_context()
    write = _Output(err=err)
    shown = Shown(write, start)
    try:
        states = follow_through(
            far,
            lambda: connect(way, interactive=False),
            job,
            path,
            shown,
            tell=lambda text: click.echo(visible(text), err=True),
            go_on=lambda: f"slurmgen logs -f {job} --site {way.site} --start {shown.bytes}",
        )
    except KeyboardInterrupt:
        click.echo(f"\njob {job} goes on; see `slurmgen logs -f {job}` and `slurmgen cancel {job}`", err=True)
        ctx.exit(INTERRUPTED)
    finally:
        write.finish()
    _remember(way, job, states)
    for line in describe(states, job, far.where):
        click.echo(line, err=True)
    ctx.exit(1 if fails or outcome(states) != "COMPLETED" else 0)


def _remember(way: "Route", job: "JobId", states: "tuple[JobState, ...]") -> None:
    from slurmgen.errors import ConfigError
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.ledger import Ledger
    from slurmgen.jobs.status import make_report, save_final_states

    with suppress(ConfigError):  # the log was shown all the same
        records = Ledger().find(str(job), way.site)
        save_final_states(make_report(Job(job, way, record), states) for record in records)


class _Output:
    """Writes a log part by part: to a terminal without what could steer it, elsewhere as it is."""

    def __init__(self, *, err: bool = False) -> None:
        stream = sys.stderr if err else sys.stdout
        self._harmless = Harmless() if stream and stream.isatty() else None
        self._err = err

    def __call__(self, part: bytes) -> None:
        click.echo(self._harmless(part) if self._harmless else part, nl=False, err=self._err)

    def finish(self) -> None:
        """Write what was held back."""
        if self._harmless:
            click.echo(self._harmless(b"", final=True), nl=False, err=self._err)


class Harmless:
    """Makes a log fit for a terminal part by part; a sequence that is cut is held back until the next one."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._held = ""

    def __call__(self, part: bytes, *, final: bool = False) -> bytes:
        """The part, with what was held back of the one before it."""
        text = self._held + self._decode(part, final)
        cut = _UNFINISHED.search(text) if not final else None
        end = cut.start() if cut else len(text)
        self._held = text[end:]
        return _CONTROLS.sub(_escaped, text[:end]).encode(errors="surrogateescape")


def harmless(log: bytes) -> bytes:
    r"""A log fit for a terminal: colours and what progress bars need stay, other controls are escaped.

    >>> harmless(b"\x1b[31mred\x1b[0m\r50 %\x1b[K\x1b[2J\x07\n")
    b'\x1b[31mred\x1b[0m\r50 %\x1b[K\\x1b[2J\\x07\n'
    """
    return Harmless()(log, final=True)


def _escaped(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    return "".join(f"\\x{byte:02x}" for byte in found[1].encode(errors="surrogateescape"))


def _path(far: "Transport", job: "JobId", record: "Record | None") -> str:
    from slurmgen.jobs.logs import asked_path, log_path

    if record is None:
        return asked_path(far, job)
    return log_path(record.folder, record.output, record.name, str(job))


def _show(far: "Transport", one: "Job", path: str, start: int) -> bool:
    """Print a log, or why there is none; whether that is since it was pruned."""
    from slurmgen.jobs.logs import read

    is_empty, write = True, _Output()
    for chunk in read(far, path, start):
        write(chunk)
        is_empty = False
    write.finish()
    if not is_empty:
        return False
    if _is_pruned(far, one):
        _say(_pruned(one))
        return True
    _say(f"there is nothing in {path}")
    _say_state(far, one.id)
    return False


def _pruned(one: "Job") -> str:
    return f"job {one.id} was pruned: its folder at {one.route.site} is gone, and its log with it"


def _say_state(far: "Transport", job: "JobId") -> None:
    from slurmgen.jobs.report_text import describe
    from slurmgen.jobs.slurm_client import job_states

    for line in describe(job_states(far, job), job, far.where):
        _say(line)


def _say(text: str) -> None:
    from slurmgen.text import visible

    click.echo(visible(text), err=True)
