"""The options that say what a job should be, the same for every command that takes a job."""

import re
import shlex
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec import structs

from slurmgen.cli.help import Command
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.site_option import site_option
from slurmgen.cli.size_option import max_size_option
from slurmgen.config.project import FILE_NAME, Project
from slurmgen.config.user import Personal
from slurmgen.errors import RequestError
from slurmgen.request import NONE, OMITTED, Request
from slurmgen.sites.model import Site

if TYPE_CHECKING:
    from slurmgen.plan import Plan

_SCRIPT_ARGS = "slurmgen.script_args"
project_size_option = max_size_option("1G", "Refuse to send a project that is larger than this.")
_WORDS = "slurmgen.words"
_HIDDEN = "..."
"Stands for the value of a variable, which may be a secret."
_VARIABLE = re.compile(r"((?:--env=)?[^=]*=).*", re.DOTALL)


class Asked(NamedTuple):
    """What the command line asks for, with the project and the personal file put in."""

    request: Request
    site: Site
    personal: Personal
    project_dir: Path
    project: Project
    template_dir: Path | None
    files: dict[str, str]
    "The file that a field of the request comes from, if not from the command line."
    command: str
    "The command line that the script names as its maker."
    job: str | None = None

    def plan(self) -> "Plan":
        """Resolve what is asked."""
        from slurmgen.plan import resolve

        return resolve(self.request, self.site, self.command, self.files)

    def text(self, plan: "Plan") -> str:
        """Render a plan with the project's templates."""
        from slurmgen.script import render

        return render(plan, self.template_dir, cache_dir())


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
    """The command line as it was typed, without the values of --env."""
    words: tuple[str, ...] = ctx.meta[_WORDS]
    end = words.index("--") if "--" in words else len(words)
    shown = [_without_value(before, word) for before, word in zip(("", *words), words[:end], strict=False)]
    return shlex.join(["slurmgen", str(ctx.info_name), *shown, *words[end:]])


def _without_value(before: str, word: str) -> str:
    is_variable = before == "--env" or word.startswith("--env=")
    return _VARIABLE.sub(rf"\1{_HIDDEN}", word) if is_variable else word


def _complete_frameworks(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from slurmgen.launchers import LAUNCHERS

    return [name for name in LAUNCHERS if name.startswith(incomplete)]


def _complete_jobs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from slurmgen.config.project import find_project

    return [name for name in find_project(Path.cwd())[1].job if name.startswith(incomplete)]


def _complete_of_site(
    names: Callable[[Site], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Complete from the profile of the site that is named before, or in the project."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from slurmgen.config.project import DEFAULT_SITE, find_project
        from slurmgen.errors import SlurmgenError
        from slurmgen.sites.profiles import load_site

        try:
            folder, project = find_project(Path.cwd())
            site = load_site(ctx.params.get("site") or project.site or DEFAULT_SITE, folder)
        except SlurmgenError:
            return []
        return [name for name in names(site) if name.startswith(incomplete)]

    return complete


def _variables(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` words as a dict."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.")
        if not (name.isidentifier() and name.isascii()):
            raise click.BadParameter(f"{name!r} is not a valid variable name.")
        if value == OMITTED:
            raise click.BadParameter(f"{text!r} has no value; a script's header omits it.")
        pairs[name] = value
    return pairs


def _sbatch(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str | bool]:
    """`KEY=VALUE` words, or a KEY alone for an option without a value, as a dict."""
    found: dict[str, str | bool] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not key or (equals and not value):
            raise click.BadParameter(f"{text!r} is neither KEY=VALUE nor KEY.")
        found[key] = value if equals else True
    return found


_OPTIONS = [
    click.argument("job", required=False, shell_complete=_complete_jobs),
    site_option,
    click.option(
        "--framework",
        metavar="NAME",
        shell_complete=_complete_frameworks,
        help="Launcher: python, lightning, ddp or accelerate; default: ddp.",
    ),
    click.option("--gpus", type=int, metavar="N", help="Total number of GPUs of the job; default: 1."),
    click.option("--nodes", type=int, metavar="N", help="Number of nodes; default: as few as --gpus needs."),
    click.option(
        "--gpu-type",
        metavar="TYPE",
        shell_complete=_complete_of_site(lambda site: site.gpu.types),
        help="GPU type, by its name in Slurm.",
    ),
    click.option(
        "--cpus-per-gpu", type=int, metavar="N", help="CPUs per GPU; default: from the site profile."
    ),
    click.option("--mem", metavar="SIZE", help="Memory per node, such as 64G."),
    click.option("--time", metavar="TIME", help="Time limit, such as 04:00:00 or 1-12:00:00."),
    click.option("--account", metavar="NAME", help="Account to charge."),
    click.option(
        "--partition",
        metavar="NAME",
        shell_complete=_complete_of_site(lambda site: site.partitions),
        help="Partition to submit to.",
    ),
    click.option(
        "--qos",
        metavar="NAME",
        shell_complete=_complete_of_site(lambda site: site.qos),
        help="Quality of service (QOS).",
    ),
    click.option("--container", metavar="IMAGE", help="Container image, or none for no container."),
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
        callback=_variables,
        metavar="K=V",
        help="Environment variable; $NAME in V is expanded in the job; repeatable.",
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
        help="Python environment: none, uv, uv:FOLDER, venv:FOLDER or conda:NAME.",
    ),
    click.option(
        "--sbatch",
        multiple=True,
        callback=_sbatch,
        metavar="K[=V]",
        help="Another sbatch option; K alone if it takes no value; repeatable.",
    ),
    click.option(
        "--script", metavar="PATH", help="Training script; default: the job's, or the bundled CIFAR example."
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
        "--requeue/--no-requeue",
        default=None,
        help="Signal the ranks with USR2 before the time limit, and requeue the job if they exit with 75.",
    ),
    click.option("--name", metavar="NAME", help="Job name; default: the name of the script."),
    click.option(
        "--log-dir",
        metavar="FOLDER",
        help="Folder for the log; submit creates it, otherwise it must exist when the job starts.",
    ),
]


send_option = click.option(
    "--send",
    multiple=True,
    metavar="PATH",
    help="Send this file even if it is ignored or may hold secrets; repeatable.",
)


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the JOB argument and every request option; it is called with an Asked first."""

    @wraps(function)
    def call(**params: Any) -> Any:
        ctx = click.get_current_context()
        said = {key: params.pop(key) for key in ("job", "site", "replace_args", *_REQUEST_KEYS)}
        one_job = not params.get("all_jobs")
        asked = gather(JobCommand.script_args(ctx), **said, personal=uses_personal(params), one_job=one_job)
        return function(asked, **params)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


_REQUEST_KEYS = [key for key in Request.__struct_fields__ if key != "script_args"]


def uses_personal(params: dict[str, Any]) -> bool:
    """Whether facts and profiles of your own may count: not in a script that is written to a file."""
    return not (params.get("write") or params.get("output"))


def gather(
    script_args: tuple[str, ...] | None,
    job: str | None,
    site: str | None,
    *,
    replace_args: bool = False,
    personal: bool,
    one_job: bool = True,
    **said: Any,
) -> Asked:
    """What the options, the project and the personal file ask for together.

    Args:
        script_args: the words after `--`.
        job: the job of slurmgen.toml.
        site: the name of the site.
        replace_args: `script_args` stand for those of slurmgen.toml, instead of after them.
        personal: whether the user's own facts and profiles count.
        one_job: whether it is about one job, and not about all of slurmgen.toml.
        said: the other fields of the request.

    Raises:
        RequestError: there is no such job, or slurmgen.toml has several and none is named.
    """
    from slurmgen.config.project import DEFAULT_SITE, find_project, job_request, own_templates
    from slurmgen.config.user import fill, load_personal
    from slurmgen.request import command_line, merge
    from slurmgen.sites.profiles import load_site

    project_dir, project = find_project(Path.cwd())
    if job is not None and not project.job:
        raise RequestError(
            f"there is no job {job!r}: {project_dir} has no slurmgen.toml with jobs", _ARGUMENTS_HINT
        )
    if job is None and one_job:
        job = _only_job(project, said.get("script"))
    names = (site, project.site, DEFAULT_SITE)
    place = load_site(next(name for name in names if name is not None), project_dir, personal=personal)
    own = load_personal(place.name) if personal else Personal()
    written = job_request(project, job, place.name)
    given = Request(**_without_empty(said), script_args=_arguments(script_args, replace_args))
    merged = merge(written, given)
    if not replace_args and written.script_args and given.script_args:
        merged = structs.replace(merged, script_args=written.script_args + given.script_args)
    request = fill(merged, own, place)
    _check_names(project, project_dir)
    replaces = replace_args if job else written.script_args is not None
    return Asked(
        request=request,
        site=place,
        personal=own,
        project_dir=project_dir,
        project=project,
        template_dir=own_templates(project_dir, project),
        files=_files(request, merged, given),
        command=command_line(place.name, given if job else merged, job, replace_args=replaces),
        job=job,
    )


def _only_job(project: Project, script: str | None) -> str | None:
    """The job of a command line that names none: the only one; none if it names a script of its own.

    Raises:
        RequestError: the project has several.
    """
    if script is not None or not project.job:
        return None
    if len(project.job) > 1:
        raise RequestError(
            f"{FILE_NAME} has several jobs: {', '.join(project.job)}",
            f"Name one, such as {next(iter(project.job))}; --script alone makes a job from [defaults].",
        )
    return next(iter(project.job))


def _arguments(script_args: tuple[str, ...] | None, replace_args: bool) -> tuple[str, ...] | None:
    """The words after `--`; if they replace others, nothing stands for none at all."""
    return script_args or () if replace_args else script_args


def _check_names(project: Project, project_dir: Path) -> None:
    """Refuse what slurmgen.toml names and is not there: a misspelt name would silently do nothing."""
    from slurmgen.errors import ConfigError, did_you_mean
    from slurmgen.sites.profiles import profile_paths
    from slurmgen.toml_structs import located

    known = profile_paths(project_dir)
    for name, job in project.job.items():
        for site in job.site.keys() - known.keys():
            place = located(project_dir / FILE_NAME, ["job", name, "site", site])
            raise ConfigError(
                f"{place}: job {name} on {site}: there is no site {site!r}", did_you_mean(site, known)
            )
    if project.template_dir != Project().template_dir and not (project_dir / project.template_dir).is_dir():
        raise ConfigError(
            f"{FILE_NAME}: template_dir: there is no folder {project.template_dir!r}", "Make it."
        )


def _files(request: Request, merged: Request, given: Request) -> dict[str, str]:
    """The file that each field, variable and sbatch option comes from, if not from the command line."""
    found: dict[str, str] = {}
    for key in Request.__struct_fields__:
        value, on_line = getattr(request, key), getattr(given, key)
        if isinstance(value, dict):
            found |= {f"{key}.{name}": FILE_NAME for name in value.keys() - on_line.keys()}
        elif value != getattr(merged, key):
            found[key] = "personal.toml"
        elif on_line is None and value is not None:
            found[key] = FILE_NAME
    return found


_ARGUMENTS_HINT = "Arguments of the training script go behind `--`."


def _without_empty(said: dict[str, Any]) -> dict[str, Any]:
    """Options that were given; an empty tuple is one that was not, and `none` alone means an empty one."""
    given = {key: value for key, value in said.items() if value not in (None, ())}
    return {key: () if value == (NONE,) else value for key, value in given.items()}
