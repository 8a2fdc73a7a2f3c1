"""The command line: one command a file, found by name and imported only when called."""

import sys
from importlib import import_module

import click

from slurmgen.errors import SlurmgenError

# Short help stands here so that `slurmgen --help` imports no command.
COMMANDS = {
    "render": "Write the batch script for a job.",
    "explain": "Show every number of the plan and its reason.",
    "submit": "Send the project to the site and submit the job, once.",
    "status": "Show what became of a submitted job.",
    "logs": "Show a job's log, or follow it.",
    "cancel": "Cancel a job.",
    "sites": "List, show and validate site profiles.",
    "twin": "Run a real Slurm on this machine in the shape of a site.",
}


class LazyGroup(click.Group):
    """A group that imports `slurmgen.cli.NAME` when NAME is called, and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the module of one command; None if there is no such command."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"slurmgen.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table above, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="slurmgen-torch", prog_name="slurmgen")
def cli() -> None:
    """Slurm batch scripts that are right for your cluster, and one careful way to submit them."""


def main() -> None:
    """Run the command line; every error we know becomes one line and an exit code."""
    try:
        cli(prog_name="slurmgen")
    except SlurmgenError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
