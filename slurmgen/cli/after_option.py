"""The option --after: the jobs that must end before a job starts."""

from collections.abc import Callable
from typing import Any

import click

from slurmgen.cli.completion import complete_jobs


def after_option(default: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option, with the words for its default in the command."""
    return click.option(
        "--after",
        multiple=True,
        metavar="[TYPE:]JOB",
        shell_complete=complete_jobs,
        help="Start when that job has COMPLETED (TYPE ok), failed (notok) or ended (any); repeatable; none "
        f"for no job{default and f'; {default}'}.",
    )
