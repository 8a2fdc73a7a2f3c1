"""`slurmgen submit FILE`: a batch script of the user's own, as it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmgen.cli.job_output import say
from slurmgen.cli.paths import shown
from slurmgen.config.project import DEFAULT_SITE, Project, find_project
from slurmgen.config.user import load_personal
from slurmgen.job_options import JobOptions
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
        from slurmgen.jobs.script_options import refuse_others

        refuse_others(options.request, options.replace_args, str(options.job))
        self.asked = options.request
        self.site: Site = load_site(options.site or project.site or DEFAULT_SITE, project_dir)
        self.personal: Personal = load_personal(self.site.name)

    def read(self, *, lint: bool) -> "BatchScript":
        """The script, with the options that override its header; prints what the linter finds in it.

        Raises:
            RequestError: it cannot be submitted as it is; with `lint`, also if it has an error.
        """
        from slurmgen.jobs.batch_script import read_script, refuse_errors
        from slurmgen.jobs.script_faults import left_in
        from slurmgen.jobs.script_options import with_options

        script = read_script(self.path, self.project_dir)
        if Path.cwd().resolve() != self.project_dir.resolve():
            say(f"the job starts in its copy of {self.project_dir}, not of the current folder")
        made = with_options(script, self.asked, self.site, check=lint)
        if lint:
            found = left_in(made, _findings(script, self.site), self.site)
            _print(script, found)
            refuse_errors(made, found)
        return made

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

        upload = sending.upload(self.personal.remote_dir)
        return prepare_script(script, self.site, route, self.project_dir, upload)


def find_file_job(options: JobOptions) -> FileJob | None:
    """The batch script that the argument names; None if it names a job."""
    project_dir, project = find_project(Path.cwd())
    if options.job is None or options.job in project.job:
        return None
    from slurmgen.jobs.batch_script import find_script  # slow to import, and jobs have names

    path = find_script(options.job, project, Path.cwd())
    return FileJob(path, options, project_dir, project) if path else None


def _findings(script: "BatchScript", site: "Site") -> "tuple[Report, ...]":
    from slurmgen.lint import lint_text
    from slurmgen.lint.settings import lint_settings

    codes, _ = lint_settings(Path.cwd(), None)
    return script.without_made(lint_text(script.text, site, script.path, codes))


def _print(script: "BatchScript", found: "tuple[Report, ...]") -> None:
    from slurmgen.lint.reports import Linted, report

    if found:
        text = report("text", [Linted(shown(script.path), script.text, found)])
        click.echo(text, nl=False, err=True)
