"""`slurmgen explain`: the plan, each value with its reason."""

import sys
import textwrap
from itertools import zip_longest
from pathlib import Path

import click

from slurmgen.cli.options import JobCommand, json_option, request_options
from slurmgen.cli.output import say, terminal_width, warn
from slurmgen.config.project import FILE_NAME
from slurmgen.job_spec import JobOptions, load_spec

Row = tuple[str, str, str]
"The name of a value, the value, and its reason."


@click.command(
    "explain",
    cls=JobCommand,
    examples={
        "slurmgen explain train": "Show the plan of the job train in slurmgen.toml",
        "slurmgen explain --site olivia --account nn1234k --gpus 8": "Show what 8 GPUs mean at another site",
        "slurmgen explain train --json": "Read the plan in a program",
    },
)
@request_options
@json_option
def command(options: JobOptions, as_json: bool) -> None:
    """Show every value of the plan and the reason for it."""
    from slurmgen.plan import as_dict

    spec = load_spec(options, Path.cwd())
    plan = spec.plan()
    for notice in spec.notices:
        say(notice)
    for text in spec.warnings(plan):
        warn(text)
    values = as_dict(plan)
    values["depends_on"] = [one.text for one in spec.after()]
    values["reasons"] |= {"depends_on": FILE_NAME} if spec.after() else {}  # type: ignore[operator]
    if as_json:
        from slurmgen.text import visible_json

        click.echo(visible_json(values, indent=2), nl=False)
    else:
        _print_table(values)


def _print_table(values: dict[str, object]) -> None:
    from slurmgen.text import visible

    reasons = values.pop("reasons")
    cited = values.pop("cited")
    del values["sources"]
    assert isinstance(reasons, dict)  # noqa: S101
    assert isinstance(cited, dict)  # noqa: S101
    rows = [
        (visible(key), visible(value, keep="\n"), visible(reasons.get(key, "")))
        for key, value in _rows(values)
    ]
    _print_on_terminal(rows) if sys.stdout.isatty() else _print_plain(rows)
    for name, source in cited.items():
        for line in _wrapped(visible(f"[{name}] {source}"), terminal_width() or _WIDTH):
            click.echo(line)


def _print_on_terminal(rows: list[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("why", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with Console() as console:
        console.print(table)


def _print_plain(rows: list[Row]) -> None:
    """Print rows of 80 columns. The reason of a long value stands below it; no word is divided."""
    first = min(_LONGEST, max(len(key) for key, _, _ in rows))
    second = min(_LONGEST, max(len(value) for _, value, _ in rows))
    rest = _WIDTH - first - second - 4
    for key, value, why in [("what", "value", "why"), *rows]:
        values = [part for line in value.split("\n") for part in _wrapped(line, _WIDTH - first - 2)]
        reasons = _wrapped(why, rest)
        if max(map(len, values)) > second:
            reasons = [*[""] * len(values), *reasons]
        lines = [*zip_longest(values, reasons, fillvalue="")]
        if len(key) > first:
            lines = [("", ""), *lines]
        for number, (part, reason) in enumerate(lines):
            click.echo(f"{'' if number else key:{first}}  {part:{second}}  {reason}".rstrip())


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a text; a word that is longer than one stays whole, so that it can be copied."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


_WIDTH = 80
"Columns of a table, if stdout is not a terminal."
_LONGEST = 20
"Characters of a name or a value that count for the width of its column there."


_SHOWN = frozenset(
    "job-name account partition qos time nodes ntasks-per-node cpus-per-task gres gpus gpus-per-node "
    "mem mem-per-gpu mem-per-cpu output".split()
)
"Directives whose values have rows of their own."
_OMITTED = frozenset(["script"])
"Values that another row contains."
_OMITTED_IF_UNSET = frozenset(["on_bad_node", "requeue_signal", "sweep"])


def _rows(values: dict[str, object]) -> list[tuple[str, str]]:
    """A row for each value, one for each entry of a dict, and none for what is unset."""
    rows = []
    for key, value in values.items():
        if key == "directives" and isinstance(value, dict):
            rows += [(f"directives.{name}", str(text)) for name, text in value.items() if name not in _SHOWN]
        elif isinstance(value, dict):
            rows += [(f"{key}.{name}", str(text)) for name, text in value.items()]
        elif isinstance(value, list):
            rows.append((key, "\n".join(value)))
        elif key in _OMITTED or (value is None and key in _OMITTED_IF_UNSET):
            continue
        else:
            rows.append((key, "-" if value is None else str(value)))
    return [(key, value) for key, value in rows if value]
