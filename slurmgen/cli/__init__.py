"""The command line: the module of a command is imported only when the command is called."""

import gc
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from slurmgen.cli.output import Group
from slurmgen.errors import SlurmgenError, did_you_mean
from slurmgen.text import visible

BUG = 70
"Exit code of an internal error (EX_SOFTWARE of sysexits.h)."

# The short help is here so that `slurmgen --help` imports no command.
SECTIONS = {
    "Scripts": {
        "init": "Create a commented slurmgen.toml in the current folder.",
        "render": "Write the batch script of a job to stdout or to a file.",
        "explain": "Show every value of the plan and the reason for it.",
        "check": "Check that the scripts in the project match slurmgen.toml.",
        "lint": "Find mistakes in batch scripts.",
        "adopt": "Put the jobs of hand-written batch scripts into slurmgen.toml.",
        "web": "Serve the page with generator, linter, sites and jobs on this machine.",
    },
    "Jobs": {
        "where": "Show at which sites a job could run, and where it would start first.",
        "submit": "Send the project to the site and submit the job.",
        "run": "Run a job in this terminal: show its log, exit with its exit code, cancel it on ^C.",
        "resubmit": "Submit a job again, with changes.",
        "status": "Show the state of submitted jobs; without ID, list the last ones.",
        "top": "Watch the jobs that have not ended, or the GPUs of one job.",
        "diagnose": "Find the cause of a failure in logs, whatever program wrote them.",
        "logs": "Show the log of a job, or follow it until the job ends.",
        "shell": "Open a shell in a running job, in its container and environment.",
        "ssh": "Open a shell on the login node, in the folder of a job.",
        "path": "Print the folder of a job on the cluster.",
        "port": "Forward a local port to a program in a running job, such as TensorBoard.",
        "wait": "Wait until jobs have ended, and exit with their exit code.",
        "cancel": "Cancel jobs, and show their state.",
        "fetch": "Fetch the files that a job made or changed.",
        "results": "Show what the runs of a sweep measured, as a table or a plot.",
        "forget": "Forget a submission that may not have become a job.",
        "snapshots": "List what slurmgen stores at a site, and remove what no job needs.",
    },
    "Sites": {
        "sites": "List, write, check and try site profiles.",
        "nodes": "List the bad nodes that new jobs exclude, add to them, and clear them.",
        "preflight": "Check nodes of a site by a short job.",
        "doctor": "Check step by step that a job can be submitted.",
        "twin": "Run a real Slurm on this machine that imitates a site.",
    },
}
HOMES = {
    "cancel": ("forget", "snapshots"),
    "lint": ("diagnose", "lsp"),
    "nodes": ("preflight",),
    "render": ("check", "explain"),
    "results": ("fetch",),
    "shell": ("path", "port", "ssh"),
    "status": ("wait",),
    "submit": ("run",),
}
"The further commands of a module; each other one has a module of its own name."
_MODULES = {name: module for module, names in HOMES.items() for name in (module, *names)}
HIDDEN = {"lsp": "Run the linter as a language server on stdin and stdout."}
"Commands that only programs call."
COMMANDS = {name: text for section in (*SECTIONS.values(), HIDDEN) for name, text in section.items()}


class LazyGroup(Group):
    """A group that imports the module of a command only when that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the module of one command."""
        if name == "help":
            return _help
        if name not in COMMANDS:
            raise click.UsageError(f"No such command {name!r}. {did_you_mean(name, COMMANDS)}", ctx)
        module = import_module(f"slurmgen.cli.{_MODULES.get(name, name)}")
        command: click.Command = getattr(module, f"{name}_command" if name in _MODULES else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table above without importing them."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


@click.command("help", hidden=True, add_help_option=False)
@click.argument("names", metavar="COMMAND...", nargs=-1)
@click.pass_context
def _help(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command, as `slurmgen COMMAND --help`."""
    assert ctx.parent  # noqa: S101
    cli.main([*names, "--help"], prog_name=ctx.parent.info_name, standalone_mode=False)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples={
        "slurmgen init": "Start a project",
        "slurmgen render": "Print the batch script of its job",
        "slurmgen doctor": "Check that the job can be submitted",
        "slurmgen submit --follow": "Submit the job and show its log until it ends",
        "slurmgen lint slurm/*.sbatch": "Find mistakes in any batch script",
    },
)
@click.version_option(package_name="slurmgen-torch", prog_name="slurmgen")
def cli() -> None:
    """Generate Slurm batch scripts for your cluster, and submit each job exactly once."""


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line; every expected error becomes one line and an exit code."""
    # Collecting garbage during imports and again at exit takes a sixth of the time of `render`.
    gc.set_threshold(50_000)
    # paramiko imports it for its own reading of `Match exec`, which slurmgen does not use: a fifth of the
    # time that a command over SSH takes to start.
    sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]
    try:
        exit_code = _exit_code(args)
        sys.unraisablehook = _not_raised
        gc.freeze()
    except KeyboardInterrupt:  # a further ^C while an error is printed
        exit_code = 130
    sys.exit(exit_code)


def _not_raised(lost: "sys.UnraisableHookArgs") -> None:
    """Print the traceback of what Python cannot raise while it ends, unless it is a ^C."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)


def _exit_code(args: list[str] | None) -> int:
    try:
        result = cli.main(args, prog_name="slurmgen", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, SystemExit):  # click exits so when the reader has closed the pipe, as `| head`
        _write_rest()
        return 0
    except Exception as error:
        exit_code = _report(error)
        _write_rest()
        return exit_code


def _write_rest() -> None:
    """Flush stdout; if that fails, discard the rest, or the interpreter would fail again at exit."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _report(error: Exception) -> int:
    """Print an error, in one line unless it is a bug in slurmgen, and return the exit code."""
    match error:
        case SlurmgenError():
            return _print_error(str(error), error.exit_code)
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message(), err=True)
            return 2
        case click.UsageError():
            message = error.format_message().rstrip(".")
            end = "" if message.endswith("?") else "."
            path = error.ctx.command_path if error.ctx else "slurmgen"
            return _print_error(f"{message}{end} See `{path} --help`.", 2)
        case click.ClickException():
            return _print_error(error.format_message(), 2)
        case OSError():  # the disk is full, permission is denied, a folder was removed
            fact = f"{error.filename or 'stdout'}: {error.strerror or error}"
            return _print_error(f"{fact}. Fix this, then repeat the command.", 2)
        case _:
            import traceback

            click.echo(visible("".join(traceback.format_exception(error)), keep="\n"), nl=False, err=True)
            return _print_error("this is a bug in slurmgen. Please report it with the lines above.", BUG)


def _print_error(message: str, exit_code: int) -> int:
    # A message may quote untrusted text: indent its other lines, so that none looks like an error of ours.
    click.echo("error: " + visible(message, keep="\n").replace("\n", "\n  "), err=True)
    return exit_code
