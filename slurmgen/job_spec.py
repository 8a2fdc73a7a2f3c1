"""One job as one Request and its Site: from slurmgen.toml, the user's own settings, and the caller's options.

The command line and Python use the same function, so that both get the same job.

>>> from slurmgen import load_job, render, resolve
>>> job = load_job(site="olivia", gpus=8, account="nn1234k", script="train.py")
>>> job.request.gpus, job.site.name
(8, 'olivia')
>>> job.plan().nodes
2
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert, structs

from slurmgen.config.dependencies import check_dependencies, depends_on
from slurmgen.config.project import FILE_NAME, Project, find_project, job_request, own_templates
from slurmgen.config.user import Personal, fill, load_personal
from slurmgen.errors import ConfigError, RequestError, did_you_mean
from slurmgen.field_names import fields_in
from slurmgen.job_options import (
    JobOptions,
    command_again,
    files_of,
    header_command,
    job_name,
    merged_request,
    site_name,
)
from slurmgen.request import NONE, Request, check_form, merge
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site, profile_paths
from slurmgen.slurm import dependencies
from slurmgen.slurm.dependencies import After
from slurmgen.slurm.sbatch_options import given
from slurmgen.text import toml_key
from slurmgen.toml_structs import located

if TYPE_CHECKING:
    from slurmgen.plan import Plan


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
    "Whether it is of the ledger, so that the present slurmgen.toml does not count."

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
            return resolve(self.request, self.site, self.command, self.files)
        except RequestError as error:
            named = (error.field, *fields_in(error.marked[0]))
            field = next((one for one in named if self.files.get(one) == FILE_NAME), None)
            if field is None:
                raise
            raise self._placed(error, field) from None

    def _placed(self, error: RequestError, field: str) -> RequestError:
        """An error about a value of slurmgen.toml, with its line and the table for the site's own value."""
        own = ["job", self.name or "", "site", self.site.name]
        tables = [own, own[:2], ["defaults"]]
        place = located(self.project_dir / FILE_NAME, *([*table, field] for table in tables))
        hint = f"[{'.'.join(map(toml_key, own))}] may have another `{field}` for this site."
        return error.but(f"{place}: ", f" {hint}" if self.name else "")

    def render(self, plan: "Plan", cache_dir: Path | None = None) -> str:
        """The batch script of a plan, by the project's own templates where it has some.

        Args:
            plan: the plan.
            cache_dir: a private folder for compiled templates.

        Raises:
            ConfigError: a template of the project is wrong.
        """
        from slurmgen.script import render

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
    job = job_name(options, project, project_dir)
    site = load_site(site_name(options, project), project_dir, personal=personal)
    check_names(project, project_dir)
    own = load_personal(site.name) if personal else Personal()
    spec = _spec(options, site, project, job, own, project_dir)
    return structs.replace(spec, template_dir=own_templates(project_dir, project))


def spec_of_options(options: JobOptions, site: Site, own: Personal) -> JobSpec:
    """The job of options and the user's own settings, as in an empty folder. It reads no file.

    Raises:
        RequestError: the options name a job of slurmgen.toml.
    """
    job = job_name(options, Project(), Path())
    return _spec(options, site, Project(), job, own, Path())


def _spec(
    options: JobOptions, site: Site, project: Project, job: str | None, own: Personal, project_dir: Path
) -> JobSpec:
    """The job with the bundled templates."""
    written = job_request(project, job, site.name)
    if written.container == NONE:
        written = merge(written, Request(container=NONE))  # without its engine and binds
    merged = merged_request(written, options, project_dir)
    request = fill(merged, own, site)
    return JobSpec(
        request=request,
        site=site,
        personal=own,
        project_dir=project_dir,
        project=project,
        template_dir=None,
        files=files_of(request, merged, options.overrides),
        command=header_command(options, site, job, written, merged),
        name=job,
        options=options,
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
    for name, job in project.job.items():
        for site in job.site.keys() - known.keys():
            place = located(project_dir / FILE_NAME, ["job", name, "site", site])
            raise ConfigError(
                f"{place}: job {name} on {site}: there is no site {site!r}", did_you_mean(site, known)
            )
    check_dependencies(project, project_dir)
