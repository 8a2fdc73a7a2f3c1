"""`slurmgen explain`: the plan, each value with its reason."""

import sys
from pathlib import Path

import click

from slurmgen.cli.options import JobCommand, request_options
from slurmgen.job_spec import JobOptions, load_spec


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
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(options: JobOptions, as_json: bool) -> None:
    """Show every value of the plan and the reason for it."""
    from slurmgen.plan import as_dict

    values = as_dict(load_spec(options, Path.cwd()).plan())
    if as_json:
        from slurmgen.text import visible_json

        click.echo(visible_json(values, indent=2), nl=False)
    else:
        _print_table(values)


def _print_table(values: dict[str, object]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from slurmgen.text import visible

    reasons = values.pop("reasons")
    cited = values.pop("cited")
    del values["sources"]
    assert isinstance(reasons, dict)  # noqa: S101
    assert isinstance(cited, dict)  # noqa: S101
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("why", overflow="fold")
    for key, value in _rows(values):
        table.add_row(*(Text(visible(cell, keep="\n")) for cell in (key, value, reasons.get(key, ""))))
    with Console(width=None if sys.stdout.isatty() else _WIDE) as console:
        console.print(table)
        for name, source in cited.items():
            console.print(Text(visible(f"[{name}] {source}")), soft_wrap=True)


_WIDE = 500
"Columns if stdout is not a terminal: each row is one line."


_SHOWN = frozenset(
    "job-name account partition qos time nodes ntasks-per-node cpus-per-task gres gpus gpus-per-node "
    "mem mem-per-gpu mem-per-cpu output".split()
)
"Directives whose values have rows of their own."


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
        else:
            rows.append((key, "-" if value is None else str(value)))
    return [(key, value) for key, value in rows if value]
