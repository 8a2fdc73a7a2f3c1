"""`slurmgen submit FILE`: a batch script of the user's own, as it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmgen.cli.job_output import say
from slurmgen.cli.paths import shown
from slurmgen.config.project import DEFAULT_SITE, Project, find_project
from slurmgen.config.user import load_personal
from slurmgen.errors import RequestError
from slurmgen.job_spec import JobOptions
from slurmgen.request import Request, flag
from slurmgen.sites.profiles import load_site

if TYPE_CHECKING:
    from slurmgen.cli.sending_options import Sending
    from slurmgen.config.user import Personal
    from slurmgen.jobs.batch_script import BatchScript
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.lint.finding import Report
    from slurmgen.remote.route import Route
    from slurmgen.sites.model import Site
    from slurmgen.slurm.dependencies import After


class FileJob:
    """A batch script that a command names, in its project and at its site."""

    def __init__(self, path: Path, options: JobOptions, project_dir: Path, project: Project) -> None:
        self.path, self.project_dir = path, project_dir
        refuse_options(options, str(options.job))
        self.site: Site = load_site(options.site or project.site or DEFAULT_SITE, project_dir)
        self.personal: Personal = load_personal(self.site.name)

    def read(self, *, lint: bool) -> "BatchScript":
        """The script; prints what the linter finds in it.

        Raises:
            RequestError: it cannot be submitted as it is; with `lint`, also if it has an error.
        """
        from slurmgen.jobs.batch_script import read_script, refuse_errors

        script = read_script(self.path, self.project_dir)
        if Path.cwd().resolve() != self.project_dir.resolve():
            say(f"the job starts in its copy of {self.project_dir}, not of the current folder")
        if lint:
            refuse_errors(script, _print_findings(script, self.site))
        return script

    def after(self, script: "BatchScript", words: Sequence[str]) -> "tuple[After, ...]":
        """The jobs that it waits for."""
        from slurmgen.slurm.dependencies import check_alone, given

        check_alone(afters := given(words), script.option("dependency"))
        return afters

    def prepare(
        self,
        script: "BatchScript",
        route: "Route",
        sending: "Sending",
    ) -> "Prepared":
        """All that its submission needs."""
        from slurmgen.jobs.prepare_script import prepare_script

        folder, size = sending.remote_dir or self.personal.remote_dir, sending.max_size
        return prepare_script(script, self.site, route, self.project_dir, folder, size, sending.send)


def find_file_job(options: JobOptions) -> FileJob | None:
    """The batch script that the argument names; None if it names a job."""
    project_dir, project = find_project(Path.cwd())
    if options.job is None or options.job in project.job:
        return None
    from slurmgen.jobs.batch_script import find_script  # slow to import, and jobs have names

    path = find_script(options.job, project, Path.cwd())
    return FileJob(path, options, project_dir, project) if path else None


def refuse_options(options: JobOptions, file: str) -> None:
    """Refuse options of a job: the script itself has them.

    Raises:
        RequestError: one is given.
    """
    asked, empty = options.request, Request()
    given = [key for key in Request.__struct_fields__ if getattr(asked, key) != getattr(empty, key)]
    if not (given or options.replace_args):
        return
    what = "arguments after --" if given[-1:] == ["script_args"] else flag([*given, "script_args"][0])
    raise RequestError(
        f"{file} is submitted as it is, so that {what} would have no effect",
        f"Change the script, or make a job of slurmgen.toml from it with `slurmgen adopt {file}`.",
    )


def _print_findings(script: "BatchScript", site: "Site") -> "tuple[Report, ...]":
    from slurmgen.lint import lint_text
    from slurmgen.lint.reports import Linted, report
    from slurmgen.lint.settings import lint_settings

    codes, _ = lint_settings(Path.cwd(), None)
    found = script.without_made(lint_text(script.text, site, script.path, codes))
    if found:
        text = report("text", [Linted(shown(script.path), script.text, found)])
        click.echo(text, nl=False, err=True)
    return found
