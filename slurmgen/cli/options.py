"""The options of a job, the same for every command that takes one."""

import re
import shlex
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from slurmgen.cli.completion import complete_jobs, complete_sites
from slurmgen.cli.help import Command
from slurmgen.cli.request_completion import (
    complete_frameworks,
    complete_of_site,
    complete_project_jobs,
    engines,
)
from slurmgen.cli.site_option import site_option
from slurmgen.job_spec import JobOptions
from slurmgen.request import FILE_ONLY, OMITTED, Request
from slurmgen.request_text import command_words, given, grid, sbatch_options, variables, with_sweep

_SCRIPT_ARGS = "slurmgen.script_args"
_WORDS = "slurmgen.words"
_VARIABLE = re.compile(r"((?:--env=)?[^=]*=).*", re.DOTALL)


class JobCommand(Command):
    """A command whose words after `--` belong to the training script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the words after the first `--` aside."""
        ctx.meta[_WORDS] = tuple(args)
        if "--" in args:
            at = args.index("--")
            ctx.meta[_SCRIPT_ARGS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    @staticmethod
    def script_args(ctx: click.Context) -> tuple[str, ...] | None:
        """The words after `--`; None if there was no `--`."""
        words: tuple[str, ...] | None = ctx.meta.get(_SCRIPT_ARGS)
        return words

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the words after `--`."""
        return [*super().collect_usage_pieces(ctx), "[-- SCRIPT ARGS]"]


def typed(ctx: click.Context) -> str:
    """The command line as it was typed, without the values of --env, which may be secret."""
    words: tuple[str, ...] = ctx.meta[_WORDS]
    end = words.index("--") if "--" in words else len(words)
    shown = [_without_value(before, word) for before, word in zip(("", *words), words[:end], strict=False)]
    return shlex.join(["slurmgen", str(ctx.info_name), *shown, *words[end:]])


def _without_value(before: str, word: str) -> str:
    is_variable = before == "--env" or word.startswith("--env=")
    return _VARIABLE.sub(rf"\1{OMITTED}", word) if is_variable else word


def _read(parse: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback of click that reads the text, or the texts, of an option."""

    def read(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


_JOB = click.argument("job", required=False, shell_complete=complete_project_jobs)
_ID = click.argument("job", metavar="ID", shell_complete=complete_jobs)
_OPTIONS: list[Callable[[Callable[..., Any]], Any]] = [
    click.option(
        "--framework",
        metavar="NAME",
        shell_complete=complete_frameworks,
        help="Launcher: python, lightning, ddp, srun, accelerate, deepspeed, hf-trainer, jax, mpi, ray, "
        "spawn or tensorflow; default: ddp.",
    ),
    click.option(
        "--gpus", type=int, metavar="N", help="Total number of GPUs of the job, or 0 for none; default: 1."
    ),
    click.option("--nodes", type=int, metavar="N", help="Number of nodes; default: as few as --gpus needs."),
    click.option(
        "--gpu-type",
        metavar="TYPE",
        shell_complete=complete_of_site(lambda site: site.gpu.types),
        help="GPU type, by its name in Slurm.",
    ),
    click.option(
        "--cpus-per-gpu", type=int, metavar="N", help="CPUs per GPU; default: from the site profile."
    ),
    click.option(
        "--cpus",
        type=int,
        metavar="N",
        help="CPUs per task, instead of --cpus-per-gpu; default: 4 without GPUs.",
    ),
    click.option(
        "--ntasks-per-node",
        type=int,
        metavar="N",
        help="Tasks that the job reserves on each node; default: those that the framework needs.",
    ),
    click.option("--mem", metavar="SIZE", help="Memory per node, such as 64G."),
    click.option("--time", metavar="TIME", help="Time limit, such as 04:00:00 or 1-12:00:00."),
    click.option("--account", metavar="NAME", help="Account to charge."),
    click.option(
        "--partition",
        metavar="NAME",
        shell_complete=complete_of_site(lambda site: site.partitions),
        help="Partition to submit to.",
    ),
    click.option(
        "--qos",
        metavar="NAME",
        shell_complete=complete_of_site(lambda site: site.qos),
        help="Quality of service (QOS).",
    ),
    click.option("--container", metavar="IMAGE", help="Container image, or none for no container."),
    click.option(
        "--container-engine",
        metavar="NAME",
        shell_complete=complete_of_site(engines),
        help="Container engine of the image, where the site has several.",
    ),
    click.option(
        "--bind",
        "binds",
        multiple=True,
        metavar="SRC[:DST]",
        help="Folder to mount in the container; repeatable.",
    ),
    click.option(
        "--env",
        multiple=True,
        callback=_read(variables),
        metavar="K=V",
        help="Environment variable; $NAME in V is expanded in the job; repeatable.",
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME",
        help="Variable with a secret value, from the environment, the keyring or a prompt; repeatable.",
    ),
    click.option(
        "--not-secret",
        multiple=True,
        metavar="NAME",
        help="Variable of --env that is not secret, although it looks so; repeatable.",
    ),
    click.option(
        "--module",
        "modules",
        multiple=True,
        metavar="NAME",
        help="Module to load instead of the site's, or none; repeatable.",
    ),
    click.option(
        "--python-env",
        metavar="ENV",
        help="Python environment: none, uv[:FOLDER], venv:FOLDER, conda:NAME, pixi[:FOLDER[:NAME]] or "
        "squashfs:FILE[:FOLDER].",
    ),
    click.option(
        "--sbatch",
        multiple=True,
        callback=_read(sbatch_options),
        metavar="K[=V]",
        help="Another sbatch option; K alone if it takes no value; repeatable.",
    ),
    click.option(
        "--script",
        metavar="PATH",
        help="Python or shell (.sh) script; default: the job's, or the bundled CIFAR example.",
    ),
    click.option(
        "--python-module",
        "module",
        metavar="NAME",
        help="Python module instead of a script, as in python -m.",
    ),
    click.option(
        "--command",
        callback=_read(command_words),
        metavar="TEXT",
        help="Program instead of a script, with its arguments in one text.",
    ),
    click.option(
        "--launcher-arg",
        "launcher_args",
        multiple=True,
        metavar="WORD",
        help="Further option of torchrun or accelerate launch; repeatable.",
    ),
    click.option(
        "--launcher-config", metavar="PATH", help="Configuration file of accelerate launch, or of DeepSpeed."
    ),
    click.option(
        "--replace-args",
        is_flag=True,
        help="Let SCRIPT ARGS replace those of slurmgen.toml, not follow them.",
    ),
    click.option(
        "--rendezvous",
        type=click.Choice(["static", "c10d"]),
        help="How the nodes of torchrun find each other.",
    ),
    click.option(
        "--mixed-precision",
        type=click.Choice(["no", "fp16", "bf16", "fp8"]),
        help="Precision that the accelerate launcher sets.",
    ),
    click.option(
        "--preflight/--no-preflight",
        default=None,
        help="Check the nodes first; the job ends with exit status 79 if one of them is bad.",
    ),
    click.option(
        "--requeue/--no-requeue",
        default=None,
        help="Ask the ranks to save before the time limit, and requeue the job if they are unfinished.",
    ),
    click.option(
        "--segments",
        type=int,
        metavar="N",
        help="Run the job in up to N array tasks, one after the other, until it is finished.",
    ),
    click.option(
        "--requeue-signal",
        metavar="HOW",
        help="How they are asked: USR2, TERM or file (STOP_FILE); @SECONDS before the limit.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="NODE[=WHY]",
        help="Node that the job does not use, and why; repeatable.",
    ),
    click.option(
        "--on-bad-node",
        type=click.Choice(["stop", "retry"]),
        help="If the preflight finds a bad node: stop, or requeue the job without it; default: stop.",
    ),
    click.option(
        "--sweep",
        multiple=True,
        callback=_read(grid),
        metavar="NAME=V,V...",
        help="Run every combination of these values of the script's parameters; repeatable.",
    ),
    click.option(
        "--sweep-limit", type=int, metavar="N", help="The most tasks of a sweep that run at a time."
    ),
    click.option(
        "--label-ranks/--no-label-ranks",
        default=None,
        help="Begin each line of the log with its rank, for `logs --rank`.",
    ),
    click.option(
        "--mail", metavar="EVENTS", help="Have Slurm send mail on these events, such as end,fail, or none."
    ),
    click.option(
        "--mail-user", metavar="ADDRESS", help="Address for --mail; default: mail_user in personal.toml."
    ),
    click.option("--name", metavar="NAME", help="Job name; default: the name of the script."),
    click.option(
        "--log-dir",
        metavar="FOLDER",
        help="Folder for the log; submit creates it, otherwise it must exist when the job starts.",
    ),
]


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the JOB argument and every request option; it is called with a JobOptions first."""
    return _with_request(function, _JOB)


def changes_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with the ID of a submitted job, whose request the options change."""
    return _with_request(function, _ID)


def several_sites_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same as `request_options` with several --site; the command also gets `sites`."""
    sites = click.option(
        "--site",
        "sites",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_sites,
        help="Site to ask; repeatable; default: those of personal.toml and of slurmgen.toml.",
    )
    return _with_request(function, _JOB, sites)


def _with_request(
    function: Callable[..., Any],
    argument: Callable[[Callable[..., Any]], Any],
    site: Callable[[Callable[..., Any]], Any] = site_option,
) -> Callable[..., Any]:
    @wraps(function)
    def call(**params: Any) -> Any:
        script_args = JobCommand.script_args(click.get_current_context())
        request = with_sweep({key: params.pop(key) for key in _REQUEST_KEYS}, params.pop("sweep_limit"))
        options = JobOptions(
            request=Request(**given(request), script_args=script_args),
            **{key: params.pop(key, None) for key in ("job", "site", "replace_args")},
        )
        return function(options, **params)

    for option in reversed([site, *_OPTIONS]):
        call = option(call)
    with_argument: Callable[..., Any] = argument(call)
    return with_argument


_REQUEST_KEYS = [key for key in Request.__struct_fields__ if key not in ("script_args", *FILE_ONLY)]
