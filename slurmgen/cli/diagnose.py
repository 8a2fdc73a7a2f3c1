"""`slurmgen diagnose`: why any job failed, from its logs."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from slurmgen.cli.options import json_option
from slurmgen.cli.output import Command
from slurmgen.errors import RequestError

if TYPE_CHECKING:
    from slurmgen.status.diagnose import LogDiagnosis


@click.command(
    "diagnose",
    cls=Command,
    examples={
        "slurmgen diagnose slurm-4711.out": "Find what broke in the log of any job",
        "slurmgen diagnose logs/rank_*.err": "Read the logs of all ranks together",
        "slurmgen diagnose --json -": "Read a log from stdin, and print the cause and all evidence",
    },
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@json_option
def command(files: tuple[str, ...], as_json: bool) -> int:
    """Find the cause of a failure in logs, whatever program wrote them.

    No job and no site is needed. Several logs, such as one for each rank, are read together; - is stdin.
    Exits with 1 if a cause is found, and with 0 if none is seen.
    """
    from slurmgen.status.diagnose import Binary, diagnose

    with ExitStack() as stack:
        streams = {("stdin" if name == "-" else name): _opened(name, stack) for name in dict.fromkeys(files)}
        try:
            found = diagnose(streams)
        except Binary as error:
            raise RequestError(f"{error} is not a text file", "Name the log that the job wrote.") from None
    if as_json:
        from slurmgen.cli.output import print_json

        print_json(found, indent=2)
    else:
        _print(found)
    return 1 if found.cause else 0


def _opened(name: str, stack: ExitStack) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    if Path(name).is_dir():
        raise RequestError(f"{name} is a folder", f"Name its logs, as in {name.rstrip('/')}/*.out.")
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        reason = (
            "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        )
        raise RequestError(f"{name} {reason}", "Name the log that the job wrote.") from None


def _print(found: "LogDiagnosis") -> None:
    from slurmgen.text import visible

    if cause := found.cause:
        place = ":".join(filter(None, [cause.file, str(cause.number or "")]))
        rows = [("why", cause.what), ("at", place), *(("log", line) for line in cause.line.splitlines())]
        rows += [("do", cause.todo)] if cause.todo else []
    else:
        rows = [("why", "no cause of a failure is seen"), *(("end", line) for line in found.ending)]
    for label, text in rows:
        click.echo(f"{label + ':':5}{visible(text)}")
