"""The command line: one command a file, found by name and imported only when called."""

import gc
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from slurmgen.errors import SlurmgenError, did_you_mean
from slurmgen.text import visible

BUG = 70
"Exit code of an error that is ours (EX_SOFTWARE of sysexits.h)."

# Short help stands here so that `slurmgen --help` imports no command.
COMMANDS = {
    "init": "Write a commented slurmgen.toml into this folder.",
    "render": "Write the batch script for a job to stdout, or to a file.",
    "explain": "Show every number of the plan and its reason.",
    "submit": "Send the project to the site and submit the job.",
    "status": "Show the state of submitted jobs; without ID, of the last ones.",
    "logs": "Show the log of a job, or follow it until the job ends.",
    "wait": "Wait until jobs have ended, and exit as they did.",
    "cancel": "Cancel jobs, and show their state.",
    "forget": "Give up a submission that may not have become a job.",
    "fetch": "Bring back what a job made in its folder.",
    "snapshots": "List what is kept at a site, and remove what no job needs.",
    "doctor": "Check step by step that one could submit.",
    "lint": "Find the faults of batch scripts.",
    "check": "Check that the checked-in scripts are what slurmgen.toml says.",
    "sites": "List, show and validate site profiles.",
    "twin": "Run a real Slurm here, in the shape of a site.",
}


class LazyGroup(click.Group):
    """A group that imports `slurmgen.cli.NAME` when NAME is called, and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the module of one command."""
        if name not in COMMANDS:
            raise click.UsageError(f"No such command {name!r}. {did_you_mean(name, COMMANDS)}", ctx)
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


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line; every error we know becomes one line and an exit code."""
    gc.freeze()
    gc.set_threshold(50_000)  # commands are short; collecting while they import costs 5 % of the start
    exit_code = _exit_code(args)
    gc.freeze()  # nor need it look at the end for what the process takes with it
    sys.exit(exit_code)


def _exit_code(args: list[str] | None) -> int:
    try:
        result = cli.main(args, prog_name="slurmgen", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, SystemExit):  # click leaves so when nobody reads on, as with `| head`
        _write_rest()
        return 0
    except Exception as error:
        exit_code = _told(error)
        _write_rest()
        return exit_code


def _write_rest() -> None:
    """Write what is left, or nothing more: the interpreter would fail again at exit."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _told(error: Exception) -> int:
    """Tell what went wrong, in one line unless it is a bug of ours; the exit code."""
    match error:
        case SlurmgenError():
            return _say(str(error), error.exit_code)
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message(), err=True)
            return 2
        case click.UsageError():
            return _say(f"{error.format_message().rstrip('.')}. {_help_hint(error)}", 2)
        case click.ClickException():
            return _say(error.format_message(), 2)
        case OSError():  # no room, no permission, a folder that is gone
            return _say(f"{error.filename or 'writing'}: {error.strerror}. Mend that, and try again.", 2)
        case _:
            import traceback

            click.echo(visible("".join(traceback.format_exception(error)), keep="\n"), nl=False, err=True)
            return _say("this is a bug in slurmgen. Please report it with the lines above.", BUG)


def _say(message: str, exit_code: int) -> int:
    # A message may quote anybody; no line of it looks like one of ours.
    click.echo("error: " + visible(message, keep="\n").replace("\n", "\n  "), err=True)
    return exit_code


def _help_hint(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "slurmgen"
    return f"See `{path} --help`."
