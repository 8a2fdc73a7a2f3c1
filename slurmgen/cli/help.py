"""How `--help` looks: options in groups, and examples at the end."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

OWN = "Options"
"The group of the options that only one command has."
GROUPS = {
    "Job": "framework script module command replace_args launcher_args launcher_config rendezvous "
    "mixed_precision requeue requeue_signal segments sweep sweep_limit label_ranks mail mail_user "
    "name log_dir",
    "Resources": "gpus nodes nodelist gpu_type cpus_per_gpu cpus ntasks_per_node mem time account partition "
    "qos exclude sbatch preflight on_bad_node",
    "Software": "container container_engine binds env modules python_env",
    "Site and connection": "site sites via host ssh_config ssh_client",
    "Files": "remote_dir max_size send",
    "Output": "output write all_jobs force format_ color as_json",
}
"The parameters of each group; all others are in OWN."
_WIDTH = 28
"Most columns of an option's name, beside which its description starts."


class Command(click.Command):
    """A command whose help has options in groups, and examples.

    Args:
        examples: command lines, each with what it is for.
    """

    def __init__(self, *args: Any, examples: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = dict(examples or {})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of options, with all descriptions in one column."""
        groups = grouped(self, ctx)
        width = min(_WIDTH, max(len(names) for rows in groups.values() for names, _ in rows))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl([(names.ljust(width), text) for names, text in rows], col_max=width)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        if self.examples:
            with formatter.section("Examples"):
                for line in example_lines(self.examples):
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Group(Command, click.Group):
    """A group of commands, whose help has examples too."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of their definition."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below the options."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def grouped(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """The names and the description of each option, by group; a group of one option joins OWN."""
    options = [param for param in command.get_params(ctx) if isinstance(param, click.Option)]
    records = {str(option.name): record for option in options if (record := option.get_help_record(ctx))}
    groups = {title: [name for name in names.split() if name in records] for title, names in GROUPS.items()}
    groups = {title: names for title, names in groups.items() if len(names) > 1}
    shared = {name for names in groups.values() for name in names}
    groups = {OWN: [name for name in records if name not in shared], **groups}
    return {title: [records[name] for name in names] for title, names in groups.items()}


def example_lines(examples: Mapping[str, str]) -> Iterator[str]:
    """Each example below a comment that says what it is for."""
    for command, purpose in examples.items():
        yield f"# {purpose}"
        yield command
