"""`slurmgen submit` and `slurmgen run`: send the project and submit the job."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from slurmgen.cli.job_objects import Accepted, SubmittedFirst
from slurmgen.cli.log_output import LogOutput
from slurmgen.cli.options import (
    JobCommand,
    complete_sites,
    connect,
    json_option,
    request_options,
    shown,
    submission_options,
)
from slurmgen.cli.output import print_json, say
from slurmgen.cli.submit_output import (
    LinePrinter,
    Printer,
    announced,
    follow_log,
    print_ids,
    printed,
    refuse_example,
    say_result,
    show,
    submitted_values,
    warn,
)
from slurmgen.cli.where import connect_without_prompt
from slurmgen.config.project import (
    DEFAULT_SITE,
    Project,
    find_project,
    require_project,
    site_of_script,
    with_dependencies,
)
from slurmgen.config.user import load_personal
from slurmgen.errors import CommandFailed, RequestError, SlurmgenError, UnknownJob
from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.places import Confirm, route_of
from slurmgen.ledger.races import Race
from slurmgen.lint import lint_text
from slurmgen.lint.reports import Linted, report
from slurmgen.lint.settings import lint_settings
from slurmgen.remote.route import Route
from slurmgen.remote.ssh.prompt import terminal_prompt
from slurmgen.remote.transport import Transport
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.dependencies import NONE
from slurmgen.slurm.replies import JobState
from slurmgen.status.follow import follow_through
from slurmgen.status.job import Job, find_log, job_id
from slurmgen.status.logs import Followed, Shown
from slurmgen.status.lookup import earlier
from slurmgen.status.query import end_of
from slurmgen.status.report_text import lines
from slurmgen.submit.cancel import cancel_jobs
from slurmgen.submit.exactly_once import try_out
from slurmgen.submit.first import FirstJob, Logins, of_each, sites_that_can_run, submit_first
from slurmgen.submit.how import How
from slurmgen.submit.job import JobGroup, ProjectJob, Work, ready, submit
from slurmgen.submit.prepare import Prepared
from slurmgen.submit.race import Loser, Runner
from slurmgen.submit.submission import Login, Observer, Outcome, advised
from slurmgen.submit.where import Option, refuse_one_host
from slurmgen.text import counted, listed, visible

if TYPE_CHECKING:
    from slurmgen.submit.script import BatchScript


class FileJob:
    """A batch script that a command names, in its project and at its site."""

    def __init__(
        self, path: Path, options: JobOptions, project_dir: Path, project: Project, *, lint: bool
    ) -> None:
        self.path, self.project_dir, self.lint = path, project_dir, lint
        from slurmgen.submit.script import refuse_others

        refuse_others(options.request, options.replace_args, str(options.job))
        self.asked = options.request
        self.site: Site = load_site(
            options.site or site_of_script(path, project, project_dir) or DEFAULT_SITE, project_dir
        )
        self.personal = load_personal(self.site.name)

    def route(self, how: How, ask: Confirm | None, *, connects: bool) -> Route:
        """See `Work`."""
        place = (self.site, self.personal, self.project_dir, ask)
        return route_of(*place, connects=connects, **how.route_values)

    def arrays(self, _login: Login, route: Route, how: How, observer: Observer) -> list[Prepared]:
        """See `Work`."""
        from slurmgen.submit.script import prepare_script

        script = self.read()
        observer.planned(is_array=script.is_array)
        how = how.by_default_to(self.personal.remote_dir)
        after = script.after(how.after)
        return [prepare_script(script, self.site, route, self.project_dir, how, after)]

    def read(self) -> "BatchScript":
        """The script, with the options that override its header; prints what the linter finds in it.

        Raises:
            RequestError: it cannot be submitted as it is; with `lint`, also if it has an error.
        """
        from slurmgen.submit.script import left_in, read_script, refuse_errors, with_options

        script = read_script(self.path, self.project_dir)
        if Path.cwd().resolve() != self.project_dir.resolve():
            say(f"the job starts in its copy of {self.project_dir}, not of the current folder")
        made = with_options(script, self.asked, self.site, check=self.lint)
        if self.lint:
            codes, _ = lint_settings(Path.cwd(), None)
            found = script.without_made(lint_text(script.text, self.site, script.path, codes))
            found = left_in(made, found, self.site)
            if found:
                text = report("text", [Linted(shown(script.path), script.text, found)])
                click.echo(text, nl=False, err=True)
            refuse_errors(made, found)
        return made


def _found(options: JobOptions, *, lint: bool) -> Work:
    """What the argument names: a batch script, or a job."""
    project_dir, project = find_project(Path.cwd())
    if options.job is not None and options.job not in project.job:
        from slurmgen.submit.script import find_script  # slow to import, and jobs have names

        if path := find_script(options.job, project, Path.cwd(), options.request):
            return FileJob(path, options, project_dir, project, lint=lint)
    job = _load(options)
    refuse_example(job)
    return ProjectJob(job)


@click.command(
    "submit",
    cls=JobCommand,
    examples={
        "slurmgen submit train --dry-run": "Show the script and what would be sent",
        "slurmgen submit train --follow": "Submit the job train of slurmgen.toml and show its log",
        "slurmgen submit train.py --gpus 2 -- --epochs 20": "Submit your own script, with arguments",
        "slurmgen submit slurm/train.sbatch --site daic": "Submit a batch script of your own as it is",
    },
)
@request_options
@submission_options(after="", again="submission")
@click.option(
    "--all",
    "several",
    is_flag=True,
    help="Submit all jobs of slurmgen.toml as one group; with JOB, that one and those it depends on.",
)
@click.option("--no-lint", is_flag=True, help="Submit a batch script even if the linter finds an error.")
@click.option(
    "--first",
    multiple=True,
    metavar="SITE",
    shell_complete=complete_sites,
    help="Instead of --site: submit to all of these sites, and keep the job that starts first; repeatable.",
)
@click.option("--test-only", is_flag=True, help="Check whether Slurm would accept the job; submit nothing.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the script and what would be sent, without connecting; with --first, the sites are asked.",
)
@click.option(
    "--follow", is_flag=True, help="Show the log until the job ends; exit 0 if it COMPLETED, else 1."
)
@json_option
def submit_command(
    options: JobOptions,
    how: How,
    several: bool,
    first: tuple[str, ...],
    no_lint: bool,
    test_only: bool,
    dry_run: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Send the project to the site and submit the job.

    JOB is a job of slurmgen.toml; default: its only job. It can also be a Python or shell program of the
    project, of which a job is made from [defaults] and the options; so can -m MODULE, and a command after --.
    The framework is read from the program. --script training/train_ddp.py submits the bundled example.

    With several --first, a job waits at each of these sites. The first one that starts runs the program,
    and the others are cancelled. The command waits for that start; a repeated one continues.

    The path of a batch script is submitted as it is unless the linter finds an error. Options such as --time
    override its header.

    The job id is printed to stdout, everything else to stderr. After a failure, repeat the command: it
    finds the job, or submits it if there is none. Only a controller that takes the job very late, or has
    forgotten it, can get a second one.
    """
    if test_only + dry_run + follow > 1:
        raise click.UsageError("--test-only, --dry-run and --follow exclude each other.")
    others = {"--after": bool(how.after), "--test-only": test_only}
    if first and not several:
        for option in [name for name, is_given in others.items() if is_given]:
            raise click.UsageError(f"{option} and --first exclude each other.")
        _submit_first(options, how, tuple(dict.fromkeys(first)), dry_run, follow, as_json)
        return
    if several:
        others |= {"--follow": follow, "--first": bool(first), "--dry-run --json": dry_run and as_json}
        _check_all(options, others)
        work: Work = JobGroup(_load_all(options))
    else:
        work = _found(options, lint=not no_lint)
    if test_only:
        _test_only(work, structs.replace(how, after=(NONE,)), as_json)
    elif dry_run:
        _show(work, how, as_json)
    else:
        _submit(work, how, follow, as_json)


def _submit(work: Work, how: How, follow: bool, as_json: bool) -> None:
    is_group = isinstance(work, JobGroup)

    def show_ids(outcomes: Sequence[Outcome]) -> None:
        print_ids(outcomes, as_json, is_group=is_group)

    printer = Printer(show_ids, follow=follow)
    with printed(work, how, printer) as outcomes:
        if is_group:
            key = outcomes[0].record.part_of
            say(f"these jobs are the group {key}, which status, wait and cancel take like an id")
        elif follow:  # an array was refused
            follow_log(outcomes[0].transport, outcomes[0].record, printer.arrays[0].route)


def _show(work: Work, how: How, as_json: bool) -> None:
    """Print what would be submitted."""
    with ready(work, how, Printer(), connects=False) as (arrays, _):
        members = arrays if isinstance(work, JobGroup) else arrays[:1]
        for one in members:
            warn(one)
            show(one, as_json)
            for place, kind in one.needs:
                say(f"would depend on {arrays[place].record.name} ({kind})")


def _test_only(work: Work, how: How, as_json: bool) -> None:
    """Check whether Slurm would accept a job, and print its reply."""
    with ready(work, how, Printer()) as ((prepared, *_), login), login.transport() as transport:
        try:
            reply = try_out(transport, prepared.submission.script, prepared.submission.sbatch_options)
        except CommandFailed as error:
            raise advised(error, prepared) from error
    route = prepared.route
    if as_json:
        print_json(Accepted(site=route.site, via=route.via, answer=reply))
    say(f"{route.place} would accept the job: {reply}")


def _load(options: JobOptions) -> JobSpec:
    """The job; the error for a submitted one names `slurmgen resubmit`."""
    try:
        return announced(load_spec(options, Path.cwd()))
    except UnknownJob as error:
        if found := earlier(str(options.job)):
            hint = f"`slurmgen resubmit {found.id}` submits job {found.id} ({found.name}) again."
            raise UnknownJob(error.fact, hint) from None
        raise


def _check_all(options: JobOptions, others: dict[str, bool]) -> None:
    """Refuse what belongs to one job; `others` says whether further options are given, by their names.

    Raises:
        RequestError: an option is that of one job only.
    """
    asked = options.request
    if asked.names_program or asked.name or asked.script_args is not None:
        raise RequestError(
            "--all submits several jobs, and a program, its arguments or a name belong to one",
            "Write them into slurmgen.toml.",
        )
    for option, is_given in others.items():
        if is_given:
            raise RequestError(f"--all and {option} exclude each other", "Leave one out.")


def _load_all(options: JobOptions) -> list[JobSpec]:
    """The jobs of slurmgen.toml in their order, or one job and those that it depends on.

    Raises:
        RequestError: there is no such job.
    """
    folder, project = find_project(Path.cwd())
    require_project(folder)
    names = with_dependencies(project, options.job)
    if not names:
        raise RequestError("slurmgen.toml has no jobs", "Add a [job.NAME].")
    return [announced(load_spec(structs.replace(options, job=name), Path.cwd())) for name in names]


def _submit_first(
    options: JobOptions, how: How, sites: tuple[str, ...], dry_run: bool, follow: bool, as_json: bool
) -> None:
    """Submit the job to all sites that could run it, and print the id of the one that starts first.

    Raises:
        RequestError, ConfigError: the request, or a profile, is wrong.
        CommandFailed: no site could run the job, or none has.
    """
    _check(options, sites, how)
    refuse_example(announced(load_spec(structs.replace(options, site=sites[0]), Path.cwd())))
    job = FirstJob(
        options=options,
        folder=Path.cwd(),
        sites=sites,
        how=how,
        observe=partial(LinePrinter, follow=follow),
        ask=terminal_prompt(),
    )
    with Logins(connect_without_prompt) as logins:
        if dry_run:
            _show_first(job, logins, as_json)
            return
        with submit_first(job, logins, say, partial(_print_first, as_json)) as runner:
            if follow:
                follow_log(runner.connected(), runner.record, runner.route)


def _check(options: JobOptions, sites: tuple[str, ...], how: How) -> None:
    """Refuse what belongs to one site, and batch scripts.

    Raises:
        RequestError: it names a batch script, or a login host.
        UsageError: it names a --site.
    """
    if options.site:
        raise click.UsageError("--site and --first exclude each other.")
    from slurmgen.submit.script import find_script

    if find_script(options.job, find_project(Path.cwd())[1], Path.cwd(), options.request):
        raise RequestError(
            f"{options.job} is a batch script, and --first is for jobs of slurmgen.toml or of options",
            "Name one --site; `slurmgen adopt` makes a job of slurmgen.toml from a script.",
        )
    refuse_one_host(sites, how.route_values)


def _show_first(job: FirstJob, logins: Logins, as_json: bool) -> None:
    """Show what would be submitted to the site of the earliest estimate."""

    def make(one: Option) -> tuple[str, Prepared]:
        name = f"{one.site} ({one.partition})" if one.partition else one.site
        return name, job.made("", one.site, one.partition)[0]

    made = of_each(sites_that_can_run(job, logins, say), make, say)
    count, sites = counted(len(made), "site"), listed([name for name, _ in made])
    say(f"would submit to {count}, of which the first to start would keep its job: {sites}")
    warn(made[0][1])
    show(made[0][1], as_json)


def _print_first(as_json: bool, race: Race, runner: Runner, others: Sequence[Loser]) -> None:
    """Print the id of the job that runs, or the object.

    Raises:
        SlurmgenError: it cannot be printed; the error names the job.
    """
    try:
        if as_json:
            values = submitted_values(runner.record) | {"earlier": runner.is_earlier, "race": race.key}
            print_json(SubmittedFirst(**values, others=list(others)))
        else:
            click.echo(runner.record.id)
    except OSError as error:
        raise SlurmgenError(
            f"{runner.name} runs the program, but its id could not be printed: {error.strerror}",
            "The same command prints it.",
        ) from None


INTERRUPTED = 130
"Exit code after ^C."


@click.command(
    "run",
    cls=JobCommand,
    examples={
        "slurmgen run train --time 00:10:00": "Run the job train here, for ten minutes at most",
        "slurmgen run train.py --gpus 2 -- --epochs 1": "Run your own script, with arguments",
    },
)
@request_options
@submission_options()
def run_command(options: JobOptions, how: How) -> int:
    """Run a job in this terminal: show its log, exit with its exit code, cancel it on ^C.

    It is a batch job that is submitted exactly once, as by `submit`: if the connection breaks, the job goes
    on, and its log is followed again. JOB is a job of slurmgen.toml; default: its only job.
    """
    job = announced(load_spec(options, Path.cwd()))
    refuse_example(job)
    printer = _Printer()
    # ^C cancels the job as soon as there is one, so its result is printed within `_followed`.
    with submit(ProjectJob(job), how, printer) as (outcome,):
        return _followed(printer.arrays[0], outcome)


class _Printer(Printer):
    def planned(self, *, is_array: bool) -> None:
        """See Observer."""
        if is_array:
            raise RequestError(
                "`slurmgen run` shows one log, and each task of an array has its own",
                "Use `slurmgen submit`; `slurmgen logs -f ID_TASK` follows one task.",
            )


def _followed(prepared: Prepared, outcome: "Outcome") -> int:
    route = prepared.route
    try:
        say_result(prepared, outcome)
        path = find_log(outcome.transport, outcome.record, job_id(outcome.record))
        say("^C cancels the job")
    except KeyboardInterrupt:
        _cancel(outcome.transport, outcome.record, route)
        return INTERRUPTED
    return _follow(outcome, route, path)


def _follow(outcome: "Outcome", route: "Route", path: str) -> int:
    job, write = job_id(outcome.record), LogOutput()
    try:
        states, transport = follow_through(
            outcome.transport,
            lambda: connect(route, interactive=False),
            [Followed(job, path, Shown(write))],
            report=say,
            resume_command=lambda: f"slurmgen logs -f {job} --site {route.site}",
            on_interrupt=lambda transport: _cancel(transport, outcome.record, route),
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        write.finish()
    with transport:
        return _ended(transport, Job.of(outcome.record, route), states[job])


def _cancel(transport: "Transport", record: "Record", route: "Route") -> None:
    job = Job.of(record, route)
    try:
        cancel_jobs(transport, [job], say)
    except (SlurmgenError, KeyboardInterrupt) as error:
        why = error.fact if isinstance(error, SlurmgenError) else "a second ^C"
        say(f"job {job.id} may not be cancelled: {why}. `slurmgen cancel {job.id}` tries again.")


def _ended(transport: "Transport", job: "Job", states: "tuple[JobState, ...]") -> int:
    report = end_of(transport, job, states)
    for line in lines(report):
        click.echo(visible(line), err=True)
    return report.code
