"""The options of the command line for a request."""

from collections.abc import Callable
from typing import Any, get_args

import click

from slurmgen.cli.request_completion import complete_frameworks, complete_of_site, engines
from slurmgen.request import OnBadNode, Precision, Rendezvous
from slurmgen.request_text import command_words, grid, sbatch_options, variables

Option = Callable[[Callable[..., Any]], Any]
"A decorator that gives a command an option."


def _read(parse: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback of click that reads the text, or the texts, of an option."""

    def read(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


def _repeatable(*names: str, metavar: str, text: str, parse: Callable[[Any], Any] | None = None) -> Option:
    """An option that may be given several times; `text` is its help."""
    read = _read(parse) if parse else None
    return click.option(*names, multiple=True, metavar=metavar, callback=read, help=f"{text}; repeatable.")


def _number(name: str, text: str) -> Option:
    """An option with a whole number; `text` is its help."""
    return click.option(name, type=int, metavar="N", help=text)


REQUEST_OPTIONS: list[Option] = [
    click.option(
        "--framework",
        metavar="NAME",
        shell_complete=complete_frameworks,
        help="Launcher: python, lightning, ddp, srun, accelerate, deepspeed, hf-trainer, jax, mpi, ray, "
        "spawn or tensorflow; default: ddp.",
    ),
    _number("--gpus", "Total number of GPUs of the job, or 0 for none; default: 1."),
    _number("--nodes", "Number of nodes; default: as few as --gpus needs."),
    click.option(
        "--gpu-type",
        metavar="TYPE",
        shell_complete=complete_of_site(lambda site: site.gpu.types),
        help="GPU type, by its name in Slurm.",
    ),
    _number("--cpus-per-gpu", "CPUs per GPU; default: from the site profile."),
    _number("--cpus", "CPUs per task, instead of --cpus-per-gpu; default: 4 without GPUs."),
    _number(
        "--ntasks-per-node",
        "Tasks that the job reserves on each node; default: those that the framework needs.",
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
    _repeatable("--bind", "binds", metavar="SRC[:DST]", text="Folder to mount in the container"),
    _repeatable(
        "--env",
        metavar="K=V",
        parse=variables,
        text="Environment variable; $NAME in V is expanded in the job",
    ),
    _repeatable(
        "--secret",
        "secrets",
        metavar="NAME",
        text="Variable with a secret value, from the environment, the keyring or a prompt",
    ),
    _repeatable(
        "--not-secret", metavar="NAME", text="Variable of --env that is not secret, although it looks so"
    ),
    _repeatable("--module", "modules", metavar="NAME", text="Module to load instead of the site's, or none"),
    click.option(
        "--python-env",
        metavar="ENV",
        help="Python environment: none, uv[:FOLDER], venv:FOLDER, conda:NAME, pixi[:FOLDER[:NAME]] or "
        "squashfs:FILE[:FOLDER].",
    ),
    _repeatable(
        "--sbatch",
        metavar="K[=V]",
        parse=sbatch_options,
        text="Another sbatch option; K alone if it takes no value",
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
    _repeatable(
        "--launcher-arg",
        "launcher_args",
        metavar="WORD",
        text="Further option of torchrun or accelerate launch",
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
        type=click.Choice(get_args(Rendezvous)),
        help="How the nodes of torchrun find each other.",
    ),
    click.option(
        "--mixed-precision",
        type=click.Choice(get_args(Precision)),
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
    _number("--segments", "Run the job in up to N array tasks, one after the other, until it is finished."),
    click.option(
        "--requeue-signal",
        metavar="HOW",
        help="How they are asked: USR2, TERM or file (STOP_FILE); @SECONDS before the limit.",
    ),
    _repeatable("--exclude", metavar="NODE[=WHY]", text="Node that the job does not use, and why"),
    click.option(
        "--on-bad-node",
        type=click.Choice(get_args(OnBadNode)),
        help="If the preflight finds a bad node: stop, or requeue the job without it; default: stop.",
    ),
    _repeatable(
        "--sweep",
        metavar="NAME=V,V...",
        parse=grid,
        text="Run every combination of these values of the script's parameters",
    ),
    _number("--sweep-limit", "The most tasks of a sweep that run at a time."),
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
