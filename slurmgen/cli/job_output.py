"""Print reports of jobs: in lines, or as an object for --json."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from slurmgen.text import visible, visible_json

if TYPE_CHECKING:
    from slurmgen.jobs.report import Report


def print_reports(
    reports: "Sequence[Report]", *, as_json: bool, several: bool, origins: bool = False
) -> None:
    """Print the state of jobs.

    Args:
        reports: what is known of them.
        as_json: print one object.
        several: the user named several jobs, even if all are the same.
        origins: also print where each job comes from.
    """
    from slurmgen.jobs.report_text import origin

    if as_json:
        print_report_objects(reports, several=several)
        return
    for report in reports:
        print_report(report)
        if origins:
            for label, text in origin(report.job):
                click.echo(visible(f"  {label}: {text}"))


def print_report(report: "Report") -> None:
    """Print the state of one job, in lines."""
    from slurmgen.jobs.report_text import lines

    for line in lines(report):
        click.echo(line)


def print_report_objects(reports: "Sequence[Report]", *, several: bool) -> None:
    """Print the state of jobs as one object."""
    from slurmgen.jobs.report import to_json

    print_jobs([to_json(report) for report in reports], several=several)


def print_jobs(objects: Sequence[Any], *, several: bool) -> None:
    """Print one object, or several under `jobs`: one name may be that of several jobs."""
    print_json({"jobs": list(objects)} if several or len(objects) > 1 else objects[0])


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print an object of `slurmgen.cli.objects`, or a list of them, as JSON."""
    from msgspec import to_builtins

    # Structs are converted one by one, because an array may have very many tasks.
    click.echo(visible_json(value, indent, default=to_builtins), nl=False)


def print_script(text: str) -> None:
    """Print a script exactly; on a terminal, escape its control characters."""
    is_shown = sys.stdout is not None and sys.stdout.isatty()
    exact = text.encode(errors="surrogateescape")
    click.echo(visible(text, keep="\n\t") if is_shown else exact, nl=False)


def exit_code(reports: "Sequence[Report]") -> int:
    """3 if the state of a job is unknown, else 0."""
    from slurmgen.slurm.replies import GONE

    return 3 if any(report.error and report.state != GONE for report in reports) else 0


def warn(text: str) -> None:
    """Print a warning to stderr."""
    say(f"warning: {text}")


def say(text: str) -> None:
    """Print a line to stderr, with the control characters of quoted text escaped."""
    click.echo(visible(text), err=True)
