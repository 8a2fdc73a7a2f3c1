"""`slurmgen top`: jobs that have not ended, or the GPUs of one job, refreshed in place."""

import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from select import select
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.cli.options import complete_jobs, connect, find_one, json_option, route_options, site_option
from slurmgen.cli.output import Command, color_option, console, print_json, print_report_objects, say
from slurmgen.cli.tables import print_sample, print_status_table
from slurmgen.errors import RemoteError, RequestError
from slurmgen.ledger.ledger import Ledger
from slurmgen.live.gpus import Sample, Sampler, Sites
from slurmgen.status.job import Job
from slurmgen.status.lookup import recorded_route
from slurmgen.status.report import Report

if TYPE_CHECKING:
    from rich.console import Console


Show = Callable[["Console"], None]
"Prints what is to be seen now."
INTERVAL = 10.0


@click.command(
    "top",
    cls=Command,
    examples={
        "slurmgen top": "Watch all jobs that have not ended",
        "slurmgen top last": "Watch the GPUs of the last job",
        "slurmgen top last --once --json": "Read the use of its GPUs in a program",
    },
)
@click.argument("job_id", metavar="[ID]", required=False, shell_complete=complete_jobs)
@site_option
@route_options
@click.option(
    "--interval",
    type=click.FloatRange(2, 3600),
    metavar="SECONDS",
    default=INTERVAL,
    show_default=True,
    help="Time between two refreshes.",
)
@click.option("--once", is_flag=True, help="Print once and end, as without a terminal.")
@color_option
@json_option
def command(
    job_id: str | None,
    site: str | None,
    interval: float,
    once: bool,
    color: str,
    as_json: bool,
    **options: Any,
) -> int:
    """Watch the jobs that have not ended, or the GPUs of one job.

    Without ID, the jobs of all sites; with ID, also the CPUs and the memory of that running job. ID is a job
    id, ID_TASK in an array, a job name, or `last`. nvidia-smi or rocm-smi reads the GPUs, in a short step
    beside those of the job. Each site needs one login. --json prints once. `q` or ^C ends it.
    """
    with Sites(lambda route, interactive: connect(route, interactive=interactive)) as sites:
        if job_id is None:
            watch: _Jobs | _Gpus = _Jobs(sites, site, options)
        else:
            watch = _Gpus(sites, find_one(job_id, site, **options))
        if as_json:
            return watch.print_json()
        screen = console(color)
        if once or not screen.is_terminal:
            watch.show()(screen)
            return 0
        _refresh(watch.show, screen, interval)
    return 0


def _refresh(show: Callable[[], Show], screen: "Console", interval: float) -> None:
    """Show it again and again in the same place, until `q`, ^C or until there is nothing more to see."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    shown = show()
    with Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live, _keys() as is_quit:
        while True:
            page = Console(
                file=StringIO(),
                width=screen.width,
                force_terminal=True,
                color_system="standard" if screen.color_system else None,
                markup=False,
                highlight=False,
                emoji=False,
            )
            with page.capture() as captured:
                shown(page)
            live.update(Text.from_ansi(captured.get()), refresh=True)
            if is_quit(interval):
                return
            try:
                shown = show()
            except RequestError as error:  # the job has ended
                say(str(error))
                return


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """A function that waits some seconds, and returns whether the user has pressed `q` before."""
    if not sys.stdin or not sys.stdin.isatty():
        yield _waited
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)  # ^C stays a signal
    try:
        yield _pressed_q
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _waited(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _pressed_q(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while select([sys.stdin], [], [], max(0, end - time.monotonic()))[0]:
        key = os.read(sys.stdin.fileno(), 1)
        if key in b"qQ":  # also at the end of the input
            return True
    return False


class _Jobs:
    """All jobs that have not ended, and those that ended while they were watched, as they were then."""

    def __init__(self, sites: Sites, site: str | None, options: dict[str, Any]) -> None:
        self._sites, self._site, self._options = sites, site, options
        self._shown: dict[Job, Report] = {}
        self._seen: set[str] = set()
        "The keys of all jobs that were queried, without jobs that are submitted meanwhile."

    def show(self) -> Show:
        reports = self._reports()
        return lambda screen: (
            print_status_table(reports, screen) if reports else screen.print("no job is active")
        )

    def print_json(self) -> int:
        print_report_objects(self._reports(), several=True)
        return 0

    def _reports(self) -> list[Report]:
        active = [job for job, report in self._shown.items() if not report.ended]
        reports = self._sites.query([*active, *self._new()])
        # An old job that accounting has forgotten is not active, nor is an ended one that is seen first now:
        # without accounting, the ledger may not know the end of an array.
        for report in reports:
            if report.error or (report.states and (report.job in self._shown or not report.ended)):
                self._shown[report.job] = report
            else:
                self._shown.pop(report.job, None)
        return list(self._shown.values())

    def _new(self) -> list[Job]:
        records = [one for one in Ledger().unfinished(self._site) if one.key not in self._seen]
        self._seen |= {record.key for record in records}
        return [Job.of(record, recorded_route(record, self._options)) for record in records]


class _Gpus:
    """The GPUs, CPUs and memory of one job."""

    def __init__(self, sites: Sites, job: Job) -> None:
        self._sites, self._job = sites, job
        self._sampler = Sampler(job)
        self._last: Sample | None = None

    def show(self) -> Show:
        try:
            self._last = self._sample()
        except RemoteError as error:
            if self._last is None:
                raise
            self._sites.drop(self._job.route)
            problem = f"{error.fact}; trying again"
            self._last = structs.replace(self._last, problem=problem, verdict=[], gpus=[])
        sample = self._last
        return lambda screen: print_sample(sample, screen)

    def print_json(self) -> int:
        sample = self._sample()
        if sample.problem:
            say(sample.problem)
        print_json(sample)
        return 0

    def _sample(self) -> Sample:
        return self._sampler.sample(self._sites.transport(self._job.route), time.monotonic())
