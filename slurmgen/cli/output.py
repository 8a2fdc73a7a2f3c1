"""What commands print and ask: colors, help, JSON, the reports of jobs, and answers of the user."""

import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from slurmgen.slurm.shell import unprintable
from slurmgen.text import unstyled, visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console

    from slurmgen.status.report import Report

_DIFF_COLORS = {"+": "green", "-": "red", "@": "cyan"}

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Use colours; auto: on a terminal unless NO_COLOR is set.",
)


def style_of(color: str) -> Callable[..., str]:
    """How text for stdout is styled: by `click.style`, or not at all."""
    return click.style if _is_colored(color) else unstyled


def _is_colored(color: str) -> bool:
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return color == "always" or (color == "auto" and _is_terminal() and not is_plain)


def console(color: str) -> "Console":
    """A console on stdout that prints text without interpreting it, with or without colours."""
    from rich.console import Console

    return Console(
        color_system="standard" if _is_colored(color) else None,
        no_color=False,
        markup=False,
        highlight=False,
        emoji=False,
    )


def terminal_width() -> int | None:
    """The columns of the terminal on stdout; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if _is_terminal() else None


def styled_diff(diff: str, style: Callable[..., str]) -> str:
    """A unified diff with added lines in green and removed lines in red."""
    colors = ((line, _DIFF_COLORS.get(line[:1])) for line in diff.split("\n"))
    return "\n".join(style(line, fg=color) if color else line for line, color in colors)


def _is_terminal() -> bool:
    return bool(sys.stdout and sys.stdout.isatty())


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


_WHOLE = "slurmgen.whole_help"


def _show_whole_help(ctx: click.Context, _param: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        ctx.meta[_WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_whole_help,
    help="Show all options.",
)


class Command(click.Command):
    """A command whose help has options in groups, and examples.

    Args:
        examples: command lines, each with what it is for.
    """

    first_page: frozenset[str] = frozenset()
    "The parameters that --help shows after the examples, where --help-all shows all; empty for all."

    def __init__(self, *args: Any, examples: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = dict(examples or {})

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, with --help-all if --help shows only some."""
        return [*super().get_params(ctx), *([_HELP_ALL] if self.first_page else [])]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help; on a first page, the examples stand before the options."""
        if not self.first_page or ctx.meta.get(_WHOLE):
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)
        formatter.write(f"\n`{ctx.command_path} --help-all` shows all options.\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of options, with all descriptions in one column."""
        groups = grouped(self, ctx, None if ctx.meta.get(_WHOLE) else self.first_page or None)
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


def grouped(
    command: click.Command, ctx: click.Context, only: frozenset[str] | None = None
) -> dict[str, list[tuple[str, str]]]:
    """The names and the description of each option, by group; a group of one option joins OWN.

    Args:
        only: the options; default: all.
    """
    options = [param for param in command.get_params(ctx) if isinstance(param, click.Option)]
    options = [param for param in options if only is None or param.name in only]
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


def print_reports(
    reports: "Sequence[Report]", *, as_json: bool, several: bool, origins: bool = False
) -> None:
    """Print the state of jobs.

    Args:
        several: the user named several jobs, even if all are the same.
        origins: also print where each job comes from.
    """
    from slurmgen.status.report_text import origin

    if as_json:
        print_report_objects(reports, several=several)
        return
    for report in reports:
        print_report(report)
        if origins:
            for label, text in origin(report.job):
                click.echo(visible(f"  {label}: {text}"))


def print_report(report: "Report") -> None:
    """Print the state of one job, in lines."""
    from slurmgen.status.report_text import lines

    for line in lines(report):
        click.echo(line)


def print_report_objects(reports: "Sequence[Report]", *, several: bool) -> None:
    """Print the state of jobs as one object."""
    from slurmgen.status.report import to_json

    print_jobs([to_json(report) for report in reports], several=several)


def print_jobs(objects: Sequence[Any], *, several: bool) -> None:
    """Print one object, or several under `jobs`: several jobs may share a name."""
    print_json({"jobs": list(objects)} if several or len(objects) > 1 else objects[0])


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print an object of `slurmgen.cli.objects`, or a list of them, as JSON."""
    from msgspec import to_builtins

    # Structs are converted one by one, because an array may have very many tasks.
    click.echo(visible_json(value, indent, default=to_builtins), nl=False)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text; a word that is longer than one stays whole, so that it can be copied."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with columns as wide as their cells; nothing is cut."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def print_script(text: str) -> None:
    """Print a script exactly; on a terminal, escape its control characters."""
    is_shown = sys.stdout is not None and sys.stdout.isatty()
    exact = text.encode(errors="surrogateescape")
    click.echo(visible(text, keep="\n\t") if is_shown else exact, nl=False)


def exit_code(reports: "Sequence[Report]") -> int:
    """3 if the state of a job is unknown, else 0."""
    from slurmgen.slurm.replies import GONE

    return 3 if any(report.error and report.state != GONE for report in reports) else 0


def warn(text: str) -> None:
    """Print a warning to stderr."""
    say(f"warning: {text}")


def say(text: str) -> None:
    """Print a line to stderr, with the control characters of quoted text escaped."""
    click.echo(visible(text), err=True)


def answered(
    text: str, option: str, given: str | None, read: Callable[[str], Any], *, required: bool = False
) -> Any:
    """The value of an option, else of an answer; None if that is empty.

    On a terminal, a wrong answer is asked for again with the reason.
    """
    while True:
        answer = _answer(text) if given is None else given
        try:
            if answer:
                return read(answer)
            if not required:
                return None
            raise ValueError("an answer is required; ^C ends the command")
        except ValueError as error:
            if given is not None:
                raise click.BadParameter(f"{error}", param_hint=option) from None
            if not can_answer():
                raise click.UsageError(f"{text}: {error}. Give {option}, or another answer.") from None
            click.echo(visible(f"error: {error}"), err=True)


def can_answer() -> bool:
    """Whether a user can answer questions."""
    return sys.stdin is not None and sys.stdin.isatty()


def _answer(text: str) -> str:
    """An answer from the terminal, or the next line of stdin; empty at its end."""
    if can_answer():
        reply: str = click.prompt(text, default="", show_default=False, err=True)
        return reply.strip()
    line = sys.stdin.buffer.readline() if sys.stdin else b""
    return line.decode(errors="replace").strip()


def printable(text: str) -> str:
    """A text for a comment or a source.

    Raises:
        ValueError: it has a control character.
    """
    if any("\udc80" <= character <= "\udcff" for character in text):
        raise ValueError(f"{text.encode(errors='surrogateescape')!r} is not valid UTF-8")
    if unprintable(text) is not None:
        raise ValueError(f"{text!r} has a control character")
    return text


_ENDING = (signal.SIGTERM, signal.SIGHUP)


def interrupt_when_ended() -> None:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt as SIGINT does, unless ignored, as with nohup."""
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in _ENDING:  # a closed terminal sends several, which must not interrupt the cleanup
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
