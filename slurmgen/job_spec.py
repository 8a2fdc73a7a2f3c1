"""A job as the user describes it: a request, and how to submit it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert, structs

from slurmgen.config import user
from slurmgen.config.project import (
    DEFAULT_SITE,
    FILE_NAME,
    Project,
    check_dependencies,
    depends_on,
    find_project,
    job_request,
    layers,
    own_templates,
    with_file,
)
from slurmgen.config.user import Personal, fill, load_personal
from slurmgen.errors import (
    ConfigError,
    Hint,
    RequestError,
    UnknownJob,
    did_you_mean,
    fields_in,
    offered,
    option,
)
from slurmgen.files import is_file, is_there
from slurmgen.program.files import begins_command, names_file, path_in_project, program_file
from slurmgen.request.model import NONE, Request, check_form, merge
from slurmgen.request.text import command_line
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site, profile_paths
from slurmgen.slurm import dependencies
from slurmgen.slurm.dependencies import After
from slurmgen.slurm.sbatch_options import given
from slurmgen.text import toml_key
from slurmgen.toml import located

if TYPE_CHECKING:
    from slurmgen.plan import Plan
    from slurmgen.program.framework import Program

_HINT = "`slurmgen init` writes one to start from. Arguments of the training script go after `--`."


class JobOptions(Struct, frozen=True, kw_only=True):
    """What the caller asks for; slurmgen.toml and the user's settings fill in the rest."""

    job: str | None = None
    "A job of slurmgen.toml."
    site: str | None = None
    request: Request = Request()
    "It overrules slurmgen.toml."
    replace_args: bool = False
    "The request's `script_args` replace those of slurmgen.toml; otherwise they come after them."

    @property
    def overrides(self) -> Request:
        """The request: without arguments, it removes those of slurmgen.toml, or appends none to them."""
        args = self.request.script_args or (() if self.replace_args else None)
        return structs.replace(self.request, script_args=args)


def job_name(options: JobOptions, project: Project, project_dir: Path) -> str | None:
    """The job that the options name, else the only one; None for a script of its own.

    Raises:
        RequestError: the job does not exist, or slurmgen.toml has several and the options name none.
    """
    if options.job is not None and not project.job:
        raise UnknownJob(
            f"there is no job {options.job!r}: {project_dir} has no {FILE_NAME} with jobs", _HINT
        )
    if options.job is not None or options.request.names_program or not project.job:
        return options.job
    if len(project.job) > 1:
        raise RequestError(
            f"{FILE_NAME} has several jobs: {', '.join(project.job)}",
            f"Name one, such as {next(iter(project.job))}; --script alone makes a job from [defaults].",
        )
    return next(iter(project.job))


def site_name(options: JobOptions, project: Project) -> str:
    """The site that the options name, or else slurmgen.toml, or else the default."""
    names = (options.site, project.site, DEFAULT_SITE)
    return next(name for name in names if name is not None)


def merged_request(written: Request, options: JobOptions, project_dir: Path) -> Request:
    """The request of slurmgen.toml, overruled by the options, with the parameters of its sweep.

    Raises:
        ConfigError, RequestError: the file with the parameters is wrong.
    """
    overrides = options.overrides
    merged = merge(written, overrides)
    if not options.replace_args and overrides.script_args is not None:
        args = (written.script_args or ()) + overrides.script_args
        merged = structs.replace(merged, script_args=args)
    return _with_sweep(merged, project_dir)


def _with_sweep(request: Request, project_dir: Path) -> Request:
    """The request with the parameters of its sweep, which may be in a file of the project."""
    if request.sweep is None:
        return request
    return structs.replace(request, sweep=with_file(request.sweep, project_dir))


def header_command(
    options: JobOptions, site: Site, job: str | None, written: Request, merged: Request
) -> str:
    """The command for the header: short for a named job, else complete without slurmgen.toml."""
    if job:
        return command_line(site.name, options.overrides, job, replace_args=options.replace_args)
    return command_line(site.name, merged, replace_args=written.script_args is not None)


def command_again(site: str, options: JobOptions, request: Request) -> str:
    """The command for the header of a job of the ledger: short for a named job, else complete."""
    asked = options.overrides if options.job else request
    return command_line(site, asked, options.job, replace_args=options.replace_args)


def files_of(
    request: Request, merged: Request, overrides: Request, layers: Sequence[tuple[str, Request]]
) -> dict[str, str]:
    """The file and table that each field, variable and sbatch option comes from, if it is not an option."""
    files: dict[str, str] = {}
    for key in Request.__struct_fields__:
        value, override = getattr(request, key), getattr(overrides, key)
        if isinstance(value, dict):
            inner = value.keys() - override.keys()
            files |= {f"{key}.{name}": _table(layers, key, name) for name in inner}
        elif key == "secrets":  # a name of the caller counts as consent
            inner = [name for name in value or () if name not in (override or ())]
            files |= {f"{key}.{name}": _table(layers, key, name) for name in inner}
        elif value != getattr(merged, key):
            files[key] = user.FILE_NAME
        elif override is None and value is not None:
            files[key] = _table(layers, key)
    return files


def _table(layers: Sequence[tuple[str, Request]], key: str, name: str = "") -> str:
    """The file and the last table that sets a field, or one of its entries."""
    values = ((table, getattr(request, key)) for table, request in reversed(layers))
    tables = (table for table, value in values if (name in (value or ()) if name else value is not None))
    return f"{FILE_NAME} {next(tables, '')}".rstrip()


class JobSpec(Struct, frozen=True, kw_only=True):
    """One job: its request and its site, and the project that they come from."""

    request: Request
    site: Site
    personal: Personal
    "The user's own settings for the site."
    project_dir: Path
    project: Project
    template_dir: Path | None
    "The project's own templates."
    files: dict[str, str]
    "The file that a field of the request comes from, if it is not an option."
    command: str
    "The slurmgen command that makes the script, for its header."
    name: str | None = None
    "The job of slurmgen.toml; None for one of `[defaults]` alone."
    options: JobOptions = JobOptions()
    "What the caller asked for."
    on_all_nodes: "JobSpec | None" = None
    "The same job before it excluded remembered nodes, which may differ when a submission is repeated."
    is_recorded: bool = False
    "Rebuilt from the ledger; slurmgen.toml is ignored."
    program: "Program | None" = None
    "Its program, if that was read."
    notices: tuple[str, ...] = ()
    "What was understood of the command line, for the user."

    def excluding(self, nodes: Sequence[str]) -> "JobSpec":
        """The same job on other nodes than these, each `NODE` or `NODE=WHY`."""
        exclude = (*(self.request.exclude or ()), *nodes)
        asked = structs.replace(self.options.request, exclude=exclude)
        options = structs.replace(self.options, request=asked)
        request = structs.replace(self.request, exclude=exclude)
        return structs.replace(
            self,
            request=request,
            files={key: file for key, file in self.files.items() if key != "exclude"},
            command=command_again(self.site.name, options, request)
            if self.is_recorded
            else load_spec(options, self.project_dir).command,
            options=options,
            on_all_nodes=self,
        )

    def identity(self, cache_dir: Path | None = None) -> str | None:
        """The script of the job on all nodes, by which a repeated submission is found; None if it is its own.

        Args:
            cache_dir: a private folder for compiled templates.
        """
        return self.on_all_nodes.render(self.on_all_nodes.plan(), cache_dir) if self.on_all_nodes else None

    def after(self, words: Sequence[str] = ()) -> tuple[After, ...]:
        """The jobs that must end before this one starts.

        Args:
            words: each `[TYPE:]JOB`, instead of those of slurmgen.toml; `none` for no job.

        Raises:
            RequestError: a word names no job, or an sbatch option names dependencies too.
        """
        afters = dependencies.given(words) if words else self._depends_on()
        dependencies.check_alone(afters, given(self.request.sbatch).get("dependency"))
        return afters

    def _depends_on(self) -> tuple[After, ...]:
        return depends_on(self.project, self.name, self.site.name) if self.name else ()

    def plan(self) -> "Plan":
        """Resolve the request on its site.

        Raises:
            RequestError: the site cannot run such a job.
        """
        from slurmgen.plan import resolve  # 12 ms, during which a login is already under way

        try:
            plan = resolve(self.request, self.site, self.command, self.files)
            self._refuse_failing(plan)
            return plan
        except RequestError as error:
            named = (error.field, *fields_in(error.marked[0]))
            field = next((one for one in named if self.files.get(one, "").startswith(FILE_NAME)), None)
            if field is None:
                raise
            raise self._placed(error, field) from None

    def warnings(self, plan: "Plan") -> tuple[str, ...]:
        """What of the program, and of the files that it is given, does not fit the plan."""
        outside = _outside(self.request, self.project_dir)
        if self.program is None:
            return outside
        from slurmgen.program.checks import warnings_of

        return (*outside, *warnings_of(self.program, plan, self.project_dir))

    def _refuse_failing(self, plan: "Plan") -> None:
        if self.program:
            from slurmgen.program.checks import refuse_failing

            refuse_failing(self.program, plan)

    def _placed(self, error: RequestError, field: str) -> RequestError:
        """An error about a value of slurmgen.toml, with its line and the table for the site's own value."""
        own = ["job", self.name or "", "site", self.site.name]
        tables = [own, own[:2], ["defaults", *own[2:]], ["defaults"]]
        place = located(self.project_dir / FILE_NAME, *([*table, field] for table in tables))
        hint = f"[{'.'.join(map(toml_key, own))}] may have another `{field}` for this site."
        return error.but(f"{place}: ", f" {hint}" if self.name else "")

    def render(self, plan: "Plan", cache_dir: Path | None = None) -> str:
        """The batch script of a plan, by the project's own templates where it has some.

        Args:
            cache_dir: a private folder for compiled templates.

        Raises:
            ConfigError: a template of the project is wrong.
        """
        from slurmgen.render import render

        return render(plan, self.template_dir, cache_dir)


def load_job(
    name: str | None = None,
    site: str | None = None,
    project_dir: Path | str = ".",
    *,
    replace_args: bool = False,
    **overrides: Any,
) -> JobSpec:
    """A job of slurmgen.toml, as `slurmgen submit NAME` reads it.

    Args:
        name: the job; default: the only one, or one of `[defaults]` if `script` is given.
        site: the site; default: that of slurmgen.toml, else `generic`.
        project_dir: the folder of the project, or one below it.
        replace_args: `script_args` replace those of slurmgen.toml; otherwise they come after them.
        overrides: fields of `Request`, which overrule slurmgen.toml.

    Raises:
        RequestError: the job does not exist, or a field has a wrong name or value.
        ConfigError: slurmgen.toml, personal.toml or the site's profile is wrong.
    """
    options = JobOptions(job=name, site=site, request=_request(overrides), replace_args=replace_args)
    return load_spec(options, Path(project_dir))


def load_spec(options: JobOptions, folder: Path, *, personal: bool = True) -> JobSpec:
    """The job that options name, in the project of a folder.

    Args:
        options: what the caller asks for.
        folder: the folder of the project, or one below it.
        personal: whether the user's own settings and site profiles count.

    Raises:
        RequestError: the job does not exist, or slurmgen.toml has several and the options name none.
        ConfigError: slurmgen.toml, personal.toml or the site's profile is wrong.
    """
    project_dir, project = find_project(folder)
    options, notices = understood(options, project, project_dir, folder)
    job = job_name(options, project, project_dir)
    site = load_site(site_name(options, project), project_dir, personal=personal)
    check_names(project, project_dir)
    own = load_personal(site.name) if personal else Personal()
    spec = _spec(options, site, project, job, own, project_dir, partial(_read, project_dir=project_dir))
    notices = (*notices, *_of_framework(spec))
    return structs.replace(spec, template_dir=own_templates(project_dir, project), notices=notices)


def _read(request: Request, project_dir: Path) -> "tuple[Request, Program | None]":
    """The request with the framework of its program, if that is a file of the project."""
    if program_file(request, project_dir) is None:
        return request, None
    from slurmgen.program.of_request import with_framework  # 30 ms that a job without such a file saves

    return with_framework(request, project_dir)


def _of_framework(spec: JobSpec) -> tuple[str, ...]:
    """What the program shows of the framework, if that counted."""
    program = spec.program
    if program and spec.files.get("framework") == program.origin:
        return (program.notice,)
    several = (spec.request.gpus or 0) > 1
    if program and not program.is_known and spec.request.framework is None and several:
        return (
            f"framework: the default, {program.file} does not show how it starts; --framework changes it",
        )
    return ()


def understood(
    options: JobOptions, project: Project, project_dir: Path, folder: Path
) -> tuple[JobOptions, tuple[str, ...]]:
    """The options with the program that the argument or the words after `--` name, and notices about it.

    Args:
        options: what the caller asks for.
        folder: the folder that a path of the argument is relative to.

    Raises:
        RequestError: the argument names a file that is neither a program nor a job.
    """
    asked, words = options.request, options.request.script_args or ()
    notices: tuple[str, ...] = ()
    if options.job is not None and options.job not in project.job:
        found = _of_argument(options.job, folder, project_dir)
        if found and asked.names_program:
            raise RequestError(f"{options.job} and another program are named", "Name one of them.")
        if found:
            asked, options = merge(found, asked), structs.replace(options, job=None)
    elif _is_command(options, words, project, project_dir):
        from slurmgen.program.target import as_command

        asked, notice = as_command(asked)
        notices = (notice,) if notice else ()
    return structs.replace(options, request=_relative(asked, project_dir)), notices


def _is_command(options: JobOptions, words: Sequence[str], project: Project, project_dir: Path) -> bool:
    """Whether the words after `--` are the program of the job, and not its arguments."""
    names_other = options.job is not None or options.request.names_program
    return (
        bool(words) and not names_other and begins_command(words[0], project_dir, has_jobs=bool(project.job))
    )


_NAMES = f"Name a job of {FILE_NAME}, a program, or the path of a batch script."


def _of_argument(word: str, folder: Path, project_dir: Path) -> Request | None:
    """The request for the program that an argument names; None if it names none."""
    path = folder / word
    if not is_file(path):
        if names_file(word):
            raise UnknownJob(f"there is no file {word}", _NAMES)
        return None
    from slurmgen.program.target import kind_of, program_request

    kind = kind_of(path)
    if kind == "batch":
        raise UnknownJob(
            f"{word} is a batch script, which is submitted as it is",
            f"Use `slurmgen submit {word}`, or `slurmgen adopt {word}` to make a job of it.",
        )
    if kind is None and names_file(word):
        raise UnknownJob(
            f"{word} is not a Python or shell program, and has no #SBATCH line",
            "Give the command that runs it after --.",
        )
    return program_request(path, kind, project_dir) if kind else None


def _relative(request: Request, project_dir: Path) -> Request:
    """The request with paths of the project instead of full paths of this machine that lie in it."""
    script, args = request.script, request.script_args
    if script and script.startswith("/") and is_there(script):
        request = structs.replace(request, script=path_in_project(Path(script), project_dir) or script)
    if args:
        request = structs.replace(
            request, script_args=tuple(_relative_word(one, project_dir) for one in args)
        )
    return request


def _outside(request: Request, project_dir: Path) -> tuple[str, ...]:
    """A warning for each full path that exists on this machine, outside the project."""
    words = (request.script or "", *(request.script_args or ()))
    paths = [path for word in words if (path := word.rpartition("=")[2]).startswith("/") and "$" not in path]
    local = [path for path in paths if len(Path(path).parts) > _SHORTEST and is_there(path)]
    return tuple(
        f"{path} exists on this machine and is not sent: the job needs it at the same place on the cluster"
        for path in dict.fromkeys(local)
        if not path.startswith(("/dev/", "/proc/", "/sys/"))
        and path_in_project(Path(path), project_dir) is None
    )


_SHORTEST = 2
"Parts of a path such as /tmp, which every machine has."


def _relative_word(word: str, project_dir: Path) -> str:
    """An argument `PATH` or `--NAME=PATH` whose file is one of the project."""
    name, sign, path = word.rpartition("=")
    if not path.startswith("/") or not is_there(path):
        return word
    inside = path_in_project(Path(path), project_dir)
    return f"{name}{sign}{inside}" if inside else word


def spec_of_options(options: JobOptions, site: Site, own: Personal) -> JobSpec:
    """The job of options and the user's own settings, as in an empty folder. It reads no file.

    Raises:
        RequestError: the options name a job of slurmgen.toml.
    """
    job = job_name(options, Project(), Path())
    return _spec(options, site, Project(), job, own, Path())


def _spec(
    options: JobOptions,
    site: Site,
    project: Project,
    job: str | None,
    own: Personal,
    project_dir: Path,
    with_framework: "Callable[[Request], tuple[Request, Program | None]]" = lambda request: (request, None),
) -> JobSpec:
    written = job_request(project, job, site.name)
    if written.container == NONE:
        written = merge(written, Request(container=NONE))  # without its engine and binds
    named = merged_request(written, options, project_dir)
    merged, program = with_framework(named)
    found = layers(project, job, site.name)
    _check_account(merged.account, own, site, project, found)
    request = fill(merged, own, site)
    files = files_of(request, merged, options.overrides, found)
    if program and merged.framework != named.framework:
        files["framework"] = program.origin
    return JobSpec(
        request=request,
        site=site,
        personal=own,
        project_dir=project_dir,
        project=project,
        template_dir=None,
        files=files,
        program=program,
        command=header_command(options, site, job, written, merged),
        name=job,
        options=options,
    )


def _check_account(
    account: str | None, own: Personal, site: Site, project: Project, found: Sequence[tuple[str, Request]]
) -> None:
    """Refuse an account of all sites if the user has another one for this site, not the project's.

    Either could be the wrong one to charge.
    """
    tables = {table: one.account for table, one in found if one.account}
    table = next(reversed(tables), "")
    is_general = tables.get(table) == account and not table.endswith(f".site.{toml_key(site.name)}]")
    if not (own.account and account and account != own.account and is_general) or site.name == project.site:
        return
    raise RequestError(
        f"the account for {site.name} is ambiguous: {table} of {FILE_NAME} has {account!r} for every site, "
        f"and {user.FILE_NAME} has {own.account!r} for {site.name}",
        Hint(
            f"Name one with {option('account')}, or write it into [defaults.site.{toml_key(site.name)}].",
            offered("account", account, own.account),
        ),
    )


def spec_of(plan: "Plan", folder: Path) -> JobSpec:
    """What belongs to a plan in the project of a folder: profile, settings, templates.

    Raises:
        ConfigError: slurmgen.toml, personal.toml or the site's profile is wrong.
    """
    project_dir, project = find_project(folder)
    return JobSpec(
        request=plan.request,
        site=load_site(plan.site, project_dir),
        personal=load_personal(plan.site),
        project_dir=project_dir,
        project=project,
        template_dir=own_templates(project_dir, project),
        files=plan.files,
        command=plan.command,
    )


def _request(values: dict[str, Any]) -> Request:
    unknown = next((key for key in values if key not in Request.__struct_fields__), None)
    if unknown is not None:
        raise RequestError(f"a request has no {unknown!r}", did_you_mean(unknown, Request.__struct_fields__))
    return convert(check_form(Request(**values)), Request)


def check_names(project: Project, project_dir: Path) -> None:
    """Refuse a site that slurmgen.toml names and that does not exist: a misspelt name would have no effect.

    Raises:
        ConfigError: it names the line.
    """
    known = profile_paths(project_dir)
    for keys, site in _named_sites(project):
        if site not in known:
            place = located(project_dir / FILE_NAME, [*keys, site], keys)
            key = ".".join(map(toml_key, keys))
            raise ConfigError(f"{place}: {key}: there is no site {site!r}", did_you_mean(site, known))
    check_dependencies(project, project_dir)


def _named_sites(project: Project) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each site that slurmgen.toml names, after the keys of the table or the list with it."""
    yield from ((("site",), name) for name in filter(None, [project.site]))
    yield from ((("sites",), name) for name in project.sites or ())
    yield from ((("defaults", "site"), name) for name in project.defaults.site)
    for job, entry in project.job.items():
        yield from ((("job", job, "sites"), name) for name in entry.sites or ())
        yield from ((("job", job, "site"), name) for name in entry.site)
