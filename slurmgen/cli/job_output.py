"""Answers about jobs, printed: in lines, or as an object for --json."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from slurmgen.jobs.status import Answer


def tell(answers: "Sequence[Answer]", *, as_json: bool, several: bool, origins: bool = False) -> None:
    """Print the state of jobs.

    Args:
        answers: what is known of them.
        as_json: as one object.
        several: more than one was named, though some may be the same.
        origins: also print where each comes from.
    """
    from slurmgen.jobs.report import origin

    if as_json:
        print_jobs([one.report for one in answers], several=several)
        return
    for answer in answers:
        tell_one(answer)
        if origins:
            for line in origin(answer.report):
                click.echo(line)


def tell_one(answer: "Answer", *, err: bool = False) -> None:
    """Print what became of one job, in lines."""
    from slurmgen.jobs.report import lines

    for line in lines(answer.states, answer.report, answer.named.way.site):
        click.echo(line, err=err)


def print_jobs(told: Sequence[Any], *, several: bool) -> None:
    """Print one object, or several under `jobs`."""
    print_json({"jobs": list(told)} if several else told[0])


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    from msgspec import to_builtins

    from slurmgen.text import visible_json

    # Structs are converted one by one: an array may have very many tasks.
    click.echo(visible_json(value, default=to_builtins), nl=False)


def print_script(text: str) -> None:
    """Print a script: exactly, but to a terminal without what could steer it."""
    from slurmgen.text import visible

    is_shown = sys.stdout is not None and sys.stdout.isatty()
    click.echo(visible(text, keep="\n\t") if is_shown else text, nl=False)


def exit_code(answers: "Sequence[Answer]") -> int:
    """3 if of one of them nothing is known, else 0."""
    from slurmgen.jobs.slurm_client import GONE

    return 3 if any(one.report.error and one.report.state != GONE for one in answers) else 0


def warn(text: str) -> None:
    """Print a warning to stderr; a name in it may be anybody's."""
    from slurmgen.text import visible

    click.echo(visible(f"warning: {text}"), err=True)
