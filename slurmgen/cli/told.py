"""Answers about jobs, printed: in lines, or as an object for --json."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from slurmgen.asking import Answer


def tell(answers: "Sequence[Answer]", *, as_json: bool, as_list: bool | None = None) -> None:
    """Print what became of jobs: one object, or `{"jobs": [...]}` where several were asked for."""
    if as_json:
        print_json([one.report for one in answers], as_list=as_list)
        return
    for answer in answers:
        tell_one(answer)


def tell_one(answer: "Answer", *, err: bool = False) -> None:
    """Print what became of one job, in lines."""
    from slurmgen.remote.report import lines

    for line in lines(answer.states, answer.report, answer.named.way.site):
        click.echo(line, err=err)


def print_json(reports: Sequence[Any], *, as_list: bool | None = None) -> None:
    """Print one object, or several under `jobs`."""
    from msgspec import json

    several = len(reports) != 1 if as_list is None else as_list
    click.echo(json.encode({"jobs": list(reports)} if several else reports[0]).decode())


def exit_code(answers: "Sequence[Answer]") -> int:
    """3 if of one of them nothing is known, else 0."""
    from slurmgen.remote.slurm import GONE

    return 3 if any(one.report.error and one.report.state != GONE for one in answers) else 0
