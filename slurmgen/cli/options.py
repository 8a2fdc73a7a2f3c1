"""Options and arguments that several commands share, and what the shell completes for them."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, get_args

import click
from click.core import ParameterSource

from slurmgen.cli.output import Command, say, warn
from slurmgen.config.project import DEFAULT_SITE, FILE_NAME, find_project
from slurmgen.errors import FILE_ONLY, ConfigError, RequestError, SlurmgenError, closest, did_you_mean
from slurmgen.files import OutsideFolder, cache_folder, make_private, refuse_links, write_inside
from slurmgen.job_spec import JobOptions
from slurmgen.request.model import OnBadNode, Precision, Rendezvous, Request
from slurmgen.request.text import (
    OMITTED,
    command_words,
    given_fields,
    grid,
    sbatch_options,
    variables,
    with_sweep,
)
from slurmgen.sites.model import EngineName, Site
from slurmgen.sites.profiles import load_site, profile_paths
from slurmgen.submit.how import How
from slurmgen.text import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from slurmgen.ledger.bad_nodes import BadNode
    from slurmgen.ledger.ledger import Record
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.status.job import Job


MAX_JOBS = 100
"Jobs that are offered, the last submitted ones."


def complete_jobs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Ids and names of submitted jobs, and `last`; with --site, of that site."""
    from slurmgen.status.lookup import LAST

    records = [record for record in _records(ctx) if not record.pending]
    items = {record.id: _described(record, record.name) for record in records}
    items |= {record.name: _described(record, record.id) for record in records}
    items |= {LAST: _described(records[-1], records[-1].name)} if records else {}
    return _matching(items, incomplete)


def complete_submissions(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Names and keys of unsettled submissions; with --site, of that site."""
    records = [record for record in _records(ctx) if record.pending]
    items = {record.name: _described(record, record.key) for record in records}
    items |= {record.key: _described(record, record.name) for record in records}
    return _matching(items, incomplete)


def complete_sites(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of site profiles, also those of the project."""
    return _starting(profile_paths(_project_dir()), incomplete)


def complete_hosts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Aliases of ssh_config, also after `USER@`."""
    from slurmgen.remote.ssh.config import aliases

    user, at, host = incomplete.rpartition("@")
    return [f"{user}{at}{name}" for name in _starting(aliases(ctx.params.get("ssh_config")), host)]


def complete_twins(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the twins that run."""
    from slurmgen import twin

    with suppress(SlurmgenError):
        return _starting([running.site for running in twin.running()], incomplete)
    return []


def complete_rules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Codes of lint rules, also after a comma."""
    from slurmgen.lint.rules import all_rules

    before, comma, _ = incomplete.rpartition(",")
    return _matching(
        {f"{before}{comma}{code}": rule.summary for code, rule in all_rules().items()}, incomplete
    )


def _records(ctx: click.Context) -> "list[Record]":
    """The last entries of the ledger; none if it cannot be read."""
    from slurmgen.ledger.ledger import Ledger

    site = ctx.params.get("site")
    with suppress(SlurmgenError):
        return list(Ledger().recent(MAX_JOBS, site))
    return []


def _described(record: "Record", what: str) -> str:
    return visible(f"{what} at {record.site}, {record.submitted[:16].replace('T', ' ')}")


def _matching(items: dict[str, str], incomplete: str) -> "list[CompletionItem]":
    """The items that start with the incomplete word."""
    from click.shell_completion import CompletionItem  # 2 ms that only completion needs

    return [CompletionItem(name, help=items[name]) for name in _starting(items, incomplete)]


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that start with the incomplete word, and that bash neither splits nor expands."""
    return [name for name in names if name.startswith(incomplete) and quote(name) == name]


def _project_dir() -> Path:
    with suppress(SlurmgenError):
        return project_dir()
    return Path.cwd()


def complete_frameworks(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The launchers."""
    from slurmgen.launchers import LAUNCHERS

    return [name for name in LAUNCHERS if name.startswith(incomplete)]


def complete_project_jobs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The jobs of slurmgen.toml."""
    return [name for name in find_project(Path.cwd())[1].job if name.startswith(incomplete)]


def engines(site: Site) -> Iterable[str]:
    """The container engines of a site."""
    return (site.container.engine, *site.container.engines) if site.container else get_args(EngineName)


def complete_of_site(
    names: Callable[[Site], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Complete from the profile of the site that the command line or the project names."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            folder, project = find_project(Path.cwd())
            site = load_site(ctx.params.get("site") or project.site or DEFAULT_SITE, folder)
        except SlurmgenError:
            return []
        return [name for name in names(site) if name.startswith(incomplete)]

    return complete


def not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value: it is a mistake, such as an unset shell variable. A click callback."""
    if value == "":
        raise click.BadParameter("it is empty. Leave it out, or give it a value.")
    return value


site_option = click.option(
    "--site",
    metavar="NAME",
    callback=not_empty,
    shell_complete=complete_sites,
    help="Site profile; `slurmgen sites` lists them.",
)

_JOB = click.argument("job", required=False, shell_complete=complete_project_jobs)

_ID = click.argument("job", metavar="ID", shell_complete=complete_jobs)


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
        _warn_of_unknown_sites()
        for key in _PATHS:
            params[key] = params[key] and in_project(params[key])
        request = with_sweep({key: params.pop(key) for key in _REQUEST_KEYS}, params.pop("sweep_limit"))
        options = JobOptions(
            request=Request(**given_fields(request), script_args=script_args),
            **{key: params.pop(key, None) for key in ("job", "site", "replace_args")},
        )
        return function(options, **params)

    for option in reversed([site, *REQUEST_OPTIONS]):
        call = option(call)
    with_argument: Callable[..., Any] = argument(call)
    return with_argument


def _warn_of_unknown_sites() -> None:
    """Point out a table of personal.toml that has no effect, because the name of its site is misspelt."""
    from slurmgen.config.user import FILE_NAME, personal_sites

    with suppress(SlurmgenError):  # what reads the file for a site reports what is wrong with it
        known = profile_paths(project_dir())
        for name in personal_sites():
            if name not in known and closest(name, known):  # other projects may have sites of their own
                warn(f"{FILE_NAME}: there is no site {name!r}. {did_you_mean(name, known)}")


_PATHS = ("script", "launcher_config")

_REQUEST_KEYS = [key for key in Request.__struct_fields__ if key not in ("script_args", *FILE_ONLY)]


def bad_nodes_option(*, default: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option, with the default of the command."""
    return click.option(
        "--exclude-bad-nodes/--no-exclude-bad-nodes",
        default=default,
        show_default=True,
        help="Exclude the nodes that `slurmgen nodes` lists.",
    )


def say_excluded(nodes: "Sequence[BadNode]") -> None:
    """Name the nodes that are excluded because they are remembered as bad, on stderr."""
    from slurmgen.ledger.bad_nodes import MOST_EXCLUDED

    newest = f", the newest {MOST_EXCLUDED} of {len(nodes)}" if len(nodes) > MOST_EXCLUDED else ""
    names = ", ".join(node.node for node in nodes[:MOST_EXCLUDED])
    say(f"excluding bad nodes{newest}: {names}; `slurmgen nodes` says why, and clears them")


_SCRIPT_ARGS = "slurmgen.script_args"

_WORDS = "slurmgen.words"

_VARIABLE = re.compile(r"((?:--env=)?[^=]*=).*", re.DOTALL)


class JobCommand(Command):
    """A command with the options of a request, whose words after `--` belong to the training script."""

    first_page = frozenset(
        "framework script gpus nodes mem time account partition container python_env env site sites "
        "dry_run follow after output write all_jobs present_files as_proposed failed help help_all".split()
    )

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


def cache_dir() -> Path | None:
    """The user's folder for compiled templates; None if other users could write code into it."""
    try:
        return make_private(cache_folder() / "bytecode")
    except (ConfigError, OSError):
        return None


def shown(path: Path) -> str:
    """A path relative to the current folder."""
    return os.path.relpath(path)


def write(path: Path, content: bytes) -> None:
    """Write a file that the user named.

    A link in a cloned repository leads to a file that another user chose, so a link is refused.

    Raises:
        RequestError: it is a link or behind one in the project, or it cannot be written.
    """
    try:
        if path.is_relative_to("/dev"):  # typed by the user, such as /dev/stdout
            path.write_bytes(content)
            return
        _refuse_links(path)
        if path.exists() and not path.is_file():  # such as a pipe
            path.write_bytes(content)
        else:
            write_inside(path.parent, path.name, content)
    except OSError as error:
        raise unwritable(path, error) from error


def _refuse_links(path: Path) -> None:
    """Refuse a link, and a path through a link of the project; links above the project are the user's own."""
    if path.is_symlink():
        raise OutsideFolder(f"it is a link to {path.readlink()}")
    here, marks = Path.cwd(), (FILE_NAME, ".git")
    tops = (folder for folder in (here, *here.parents) if any(os.path.lexists(folder / one) for one in marks))
    top = next(tops, here)
    whole = Path(os.path.normpath(here / path))
    if whole.is_relative_to(top):
        refuse_links(top, whole.relative_to(top))


def write_in_project(folder: Path, path: Path, content: bytes) -> None:
    """Write a file of a project; a path that contains a link is refused.

    Raises:
        RequestError: its path contains a link, or it cannot be written.
    """
    try:
        refuse_links(folder, path.relative_to(folder))
        write_inside(folder, path.relative_to(folder), content)
    except OSError as error:
        raise unwritable(path, error) from error


def write_new(path: Path, text: str) -> None:
    """Write a new file that the user named, as `write`.

    Raises:
        RequestError: the file exists, its path contains a link of the project, or it cannot be written.
    """
    try:
        _refuse_links(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file, removed_on_error(path):
            file.write(text)
            file.flush()
    except OSError as error:
        raise unwritable(path, error, "Name a new file.") from error


@contextmanager
def removed_on_error(path: Path) -> Iterator[None]:
    """Remove a new file if it cannot be written, so that the same command can be repeated."""
    try:
        yield
    except OSError:
        path.unlink(missing_ok=True)
        raise


def unwritable(path: Path, error: OSError, hint: str = "") -> RequestError:
    """The error for a file that cannot be written."""
    return RequestError(f"{shown(path)} cannot be written: {error.strerror or error}", hint)


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


class _Framework(click.Option):
    """The option whose help names the launchers; only the help imports them."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names of the option, and its help."""
        from slurmgen.launchers import LAUNCHERS

        *names, last = LAUNCHERS
        self.help = f"Launcher: {', '.join(names)} or {last}; default: read from the program, else ddp."
        return super().get_help_record(ctx)


REQUEST_OPTIONS: list[Option] = [
    click.option(
        "--framework",
        cls=_Framework,
        metavar="NAME",
        shell_complete=complete_frameworks,
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
        "-m",
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


def _existing_file(context: click.Context, option: click.Parameter, path: str | None) -> str | None:
    """Refuse a missing file. One of the variable is missed when a host is contacted."""
    is_typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    if path and is_typed and not Path(path).exists():
        raise click.BadParameter(f"File {path!r} does not exist.")
    return path


via_option = click.option(
    "--via",
    type=click.Choice(["ssh", "local", "twin"]),
    help="Use SSH, the Slurm of this machine, or a twin; default: ssh if the site has a login host.",
)

_OPTIONS = [
    via_option,
    click.option(
        "--host",
        metavar="[USER@]HOST",
        callback=not_empty,
        shell_complete=complete_hosts,
        help="Login host or its alias in ssh_config; default: from personal.toml or the profile.",
    ),
    click.option(
        "--ssh-config",
        type=click.Path(dir_okay=False, resolve_path=True),
        callback=_existing_file,
        envvar="SLURMGEN_SSH_CONFIG",
        show_envvar=True,
        help="OpenSSH configuration file; default: ~/.ssh/config.",
    ),
    click.option(
        "--ssh-client",
        type=click.Choice(["paramiko", "openssh"]),
        help="SSH client; openssh can share a login between commands; default: paramiko.",
    ),
]


def route_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --via, --host, --ssh-config and --ssh-client; it receives them by name."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

json_format_option = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the ID of one job, --site and the route options; it receives that job as `job`."""

    @wraps(function)
    def call(job_id: str, site: str | None, **params: Any) -> Any:
        options = {key: params.pop(key) for key in ("via", "host", "ssh_config", "ssh_client")}
        return function(job=find_one(job_id, site, **options), **params)

    argument = click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
    decorated: Callable[..., Any] = argument(site_option(route_options(call)))
    return decorated


def jobs_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one ID or more, --site, the route options and --json."""
    ids = click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_jobs)
    return ids(site_option(route_options(json_option(function))))


def find_jobs(
    job_ids: Sequence[str], site: str | None, *, to_cancel: bool = False, **options: Any
) -> "list[Job]":
    """The submitted jobs that the user names, without duplicates; `to_cancel` as for `lookup.find_jobs`."""
    from slurmgen.status.lookup import find_jobs

    return find_jobs(job_ids, site, options, partial(site_route, options), to_cancel=to_cancel)


def find_one(job_id: str, site: str | None, **options: Any) -> "Job":
    """The only submitted job that the user names."""
    from slurmgen.status.lookup import only_one

    return only_one(find_jobs([job_id], site, **options), job_id)


def project_dir() -> Path:
    """The folder of the current project, which may have site profiles of its own."""
    return find_project(Path.cwd())[0]


def in_project(path: str) -> str:
    """A path of the command line, which is relative to the current folder, relative to the project's folder.

    A path that does not exist here stays as it is: it may be one of the project's folder or of the cluster.
    """
    here, folder = Path.cwd(), project_dir()
    whole = Path(os.path.normpath(here / path))
    is_here = here != folder and not path.startswith("/") and whole.exists() and whole.is_relative_to(folder)
    return str(whole.relative_to(folder)) if is_here else path


def site_route(options: dict[str, Any], site: str) -> "Route":
    """The route to a site; the terminal asks about a place that only the project names."""
    from slurmgen.remote.ssh.prompt import terminal_prompt
    from slurmgen.status import lookup

    return lookup.site_route(site, Path.cwd(), options, terminal_prompt())


def connect(route: "Route", *, interactive: bool = True) -> "Transport":
    """Open a connection. Only if `interactive`, the terminal prompts for passwords and the like."""
    from slurmgen.remote.route import open_route
    from slurmgen.remote.ssh.prompt import terminal_prompt

    return open_route(route, terminal_prompt() if interactive else None)


def max_size_option(default: str, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # noqa: A002
    """Give a command --max-size."""
    return click.option(
        "--max-size", metavar="SIZE", default=default, show_default=True, callback=_bytes, help=help
    )


def _bytes(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    from slurmgen.slurm.units import kibibytes

    try:
        return kibibytes(value) << 10
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a size, such as 500M or 2G.") from None


project_size_option = max_size_option("1G", "Refuse to send a project that is larger than this.")

_REMOTE_DIR = "Folder on the cluster for submissions; default: ~/slurmgen."
remote_dir_option = click.option("--remote-dir", metavar="FOLDER", help=_REMOTE_DIR)
send_option = click.option(
    "--send",
    multiple=True,
    metavar="PATH",
    help="Send this file even if it is ignored or may hold secrets; repeatable.",
)


def submission_options(
    condition: str = "", after: str | None = None, again: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a submission and of its route; it receives them as `how`.

    Args:
        condition: when --remote-dir counts, at the start of its help.
        after: give it --after, with the words for its default.
        again: give it --again, for another submission than the unsettled one of that kind.
    """
    folder = f"{condition}f{_REMOTE_DIR[1:]}"
    options: list[Option] = [
        click.option("--remote-dir", metavar="FOLDER", help=folder[0].upper() + folder[1:]),
        project_size_option,
        send_option,
        bad_nodes_option(default=True),
    ]
    if after is not None:
        options.append(
            click.option(
                "--after",
                multiple=True,
                metavar="[TYPE:]JOB",
                shell_complete=complete_jobs,
                help="Start when that job has COMPLETED (TYPE ok), failed (notok) or ended (any); "
                f"repeatable; none for no job{after and f'; {after}'}.",
            )
        )
    if again is not None:
        text = f"Submit a new job even if the outcome of an earlier {again} is unknown."
        options.append(click.option("--again", is_flag=True, help=text))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **params: Any) -> Any:
            given = {key: params.pop(key) for key in How.__struct_fields__ if key in params}
            given["send"] = tuple(map(in_project, given["send"]))
            how = How(
                **given,
                command=typed(click.get_current_context()),
                directory=str(Path.cwd()),
                cache_dir=cache_dir(),
            )
            return function(*args, how=how, **params)

        for option in reversed(options):
            call = option(call)
        return route_options(call)

    return decorate
