"""`slurmgen submit`: send the project, submit the job, print its id."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, structs

from slurmgen.cli.options import (
    JobCommand,
    Sending,
    after_option,
    cache_dir,
    complete_sites,
    connect_in_background,
    json_option,
    request_options,
    route_of,
    route_options,
    sending_options,
    shown,
)
from slurmgen.cli.output import print_json, say
from slurmgen.cli.submit_output import (
    LinePrinter,
    announced,
    check_follow,
    follow_log,
    notes_of,
    prepared_job,
    print_ids,
    refuse_example,
    say_result,
    show,
    submit_arrays,
    submitted_values,
    unsent_notes,
    warn,
    with_command,
)
from slurmgen.cli.submit_output import test_only as check_only
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
from slurmgen.errors import RequestError, SlurmgenError, UnknownJob
from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.units import is_of_task
from slurmgen.submit.first import Logins
from slurmgen.text import counted, listed

if TYPE_CHECKING:
    from slurmgen.cli.job_objects import SubmittedFirst
    from slurmgen.config.user import Personal
    from slurmgen.ledger.races import Race
    from slurmgen.lint.finding import Report
    from slurmgen.remote.route import BackgroundLogin, Route
    from slurmgen.sites.model import Site
    from slurmgen.slurm.dependencies import After
    from slurmgen.submit.first import FirstJob
    from slurmgen.submit.prepare import Prepared
    from slurmgen.submit.race import Won
    from slurmgen.submit.script import BatchScript
    from slurmgen.submit.where import Option


class FileJob:
    """A batch script that a command names, in its project and at its site."""

    def __init__(self, path: Path, options: JobOptions, project_dir: Path, project: Project) -> None:
        self.path, self.project_dir = path, project_dir
        from slurmgen.submit.script import refuse_others

        refuse_others(options.request, options.replace_args, str(options.job))
        self.asked = options.request
        self.site: Site = load_site(
            options.site or site_of_script(path, project, project_dir) or DEFAULT_SITE, project_dir
        )
        self.personal: Personal = load_personal(self.site.name)

    def read(self, *, lint: bool) -> "BatchScript":
        """The script, with the options that override its header; prints what the linter finds in it.

        Raises:
            RequestError: it cannot be submitted as it is; with `lint`, also if it has an error.
        """
        from slurmgen.submit.script import left_in, read_script, refuse_errors, with_options

        script = read_script(self.path, self.project_dir)
        if Path.cwd().resolve() != self.project_dir.resolve():
            say(f"the job starts in its copy of {self.project_dir}, not of the current folder")
        made = with_options(script, self.asked, self.site, check=lint)
        if lint:
            found = left_in(made, _findings(script, self.site), self.site)
            _print_file(script, found)
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
        from slurmgen.submit.script import prepare_script

        upload = sending.upload(self.personal.remote_dir)
        return prepare_script(script, self.site, route, self.project_dir, upload)


def find_file_job(options: JobOptions) -> FileJob | None:
    """The batch script that the argument names; None if it names a job."""
    project_dir, project = find_project(Path.cwd())
    if options.job is None or options.job in project.job:
        return None
    from slurmgen.submit.script import find_script  # slow to import, and jobs have names

    path = find_script(options.job, project, Path.cwd(), options.request)
    return FileJob(path, options, project_dir, project) if path else None


def _findings(script: "BatchScript", site: "Site") -> "tuple[Report, ...]":
    from slurmgen.lint import lint_text
    from slurmgen.lint.settings import lint_settings

    codes, _ = lint_settings(Path.cwd(), None)
    return script.without_made(lint_text(script.text, site, script.path, codes))


def _print_file(script: "BatchScript", found: "tuple[Report, ...]") -> None:
    from slurmgen.lint.reports import Linted, report

    if found:
        text = report("text", [Linted(shown(script.path), script.text, found)])
        click.echo(text, nl=False, err=True)


Made = tuple["Prepared", tuple[str, ...]]
"A submission, and what to know about it."


class Choices(Struct, frozen=True, kw_only=True):
    """What the user chose, besides the job and the site."""

    sending: Sending
    after: tuple[str, ...]
    again: bool
    no_lint: bool
    test_only: bool
    dry_run: bool
    follow: bool
    as_json: bool


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
@route_options
@sending_options()
@click.option(
    "--all",
    "several",
    is_flag=True,
    help="Submit all jobs of slurmgen.toml as one group; with JOB, that one and those it depends on.",
)
@after_option()
@click.option(
    "--again", is_flag=True, help="Submit a new job even if the outcome of an earlier submission is unknown."
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
def command(
    options: JobOptions,
    several: bool,
    first: tuple[str, ...],
    test_only: bool,
    dry_run: bool,
    follow: bool,
    as_json: bool,
    **values: Any,
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
    own = {key: values.pop(key) for key in ("sending", "after", "again", "no_lint")}
    choices = Choices(**own, test_only=test_only, dry_run=dry_run, follow=follow, as_json=as_json)
    if several:
        _submit_all(options, choices, values, first)
    elif first:
        _submit_first(options, choices, values, first)
    else:
        _submit_one(options, choices, values)


def _submit_all(
    options: JobOptions, choices: Choices, route_values: dict[str, Any], first: tuple[str, ...]
) -> None:
    """Submit the jobs of slurmgen.toml as one group."""
    dry_run, as_json = choices.dry_run, choices.as_json
    others = {"--after": choices.after, "--test-only": choices.test_only, "--follow": choices.follow}
    check_all(options, others | {"--first": first, "--dry-run --json": dry_run and as_json})
    specs, sending = load_all(options), choices.sending
    route = route_of(specs[0], route_values, connects=not dry_run)
    with connect_in_background(route, starts=not dry_run) as connecting:
        specs = [sending.on_good_nodes(one, route.via) for one in specs]
        made = partial(_of_job, route=route, choices=choices)
        submit_all(connecting, specs, made, again=choices.again, dry_run=dry_run, as_json=as_json)


def _submit_one(options: JobOptions, choices: Choices, route_values: dict[str, Any]) -> None:
    """Submit one job, or show or check what would be submitted."""
    job = find_file_job(options) or _load(options)
    route = route_of(job, route_values, connects=not choices.dry_run)
    # The login proceeds while the plan and the project are read.
    with connect_in_background(route, starts=not choices.dry_run) as connecting:
        if isinstance(job, FileJob):
            prepared, notes = _of_file(job, route, choices)
        else:
            job = choices.sending.on_good_nodes(job, route.via)
            prepared, notes = _of_job(job, route, choices)
            prepared = _dependent(prepared, job.after(choices.after), choices)
        if choices.test_only:
            check_only(connecting, prepared, choices.as_json)
        elif choices.dry_run:
            warn(prepared, notes)
            show(prepared, choices.as_json)
        else:
            again, follow, as_json = choices.again, choices.follow, choices.as_json
            submit_arrays(connecting, _arrays(job, prepared), notes, again, follow, as_json)


def _submit_first(
    options: JobOptions, choices: Choices, route_values: dict[str, Any], sites: tuple[str, ...]
) -> None:
    """Submit the job to several sites, of which one runs it."""

    for option, is_given in {"--after": choices.after, "--test-only": choices.test_only}.items():
        if is_given:
            raise click.UsageError(f"{option} and --first exclude each other.")
    submit_first(
        options,
        tuple(dict.fromkeys(sites)),
        route_values,
        choices.sending,
        again=choices.again,
        dry_run=choices.dry_run,
        follow=choices.follow,
        as_json=choices.as_json,
    )


def _of_file(job: FileJob, route: "Route", choices: Choices) -> Made:
    """The submission of a batch script as it is."""
    script = job.read(lint=not choices.no_lint)
    check_follow(choices.follow, is_array=script.is_array)
    prepared = with_command(job.prepare(script, route, choices.sending))
    return _dependent(prepared, job.after(script, choices.after), choices), ()


def _of_job(job: JobSpec, route: "Route", choices: Choices) -> Made:
    """The submission of a job."""
    refuse_example(job)
    plan = job.plan()
    check_follow(choices.follow, is_array=is_of_task(plan.output))
    prepared = prepared_job(job, plan, route, choices.sending)
    return with_command(prepared), (*notes_of(plan, job), *unsent_notes(job, prepared))


def _load(options: JobOptions) -> JobSpec:
    """The job; the error for a submitted one names `slurmgen resubmit`."""
    try:
        return announced(load_spec(options, Path.cwd()))
    except UnknownJob as error:
        from slurmgen.status.lookup import earlier

        if found := earlier(str(options.job)):
            hint = f"`slurmgen resubmit {found.id}` submits job {found.id} ({found.name}) again."
            raise UnknownJob(error.fact, hint) from None
        raise


def _dependent(prepared: "Prepared", afters: "tuple[After, ...]", choices: Choices) -> "Prepared":
    from slurmgen.submit.prepare import dependent

    return prepared if choices.test_only else dependent(prepared, afters)


def _arrays(job: JobSpec | FileJob, prepared: "Prepared") -> "list[Prepared]":
    """What is submitted: more than one only for a sweep beyond the site's array size."""
    if isinstance(job, FileJob) or not prepared.record.tasks:
        return [prepared]
    from slurmgen.submit.submission import arrays_of

    return arrays_of(prepared, job.plan(), lambda plan: job.render(plan, cache_dir()))


Prepare = Callable[[JobSpec], "tuple[Prepared, tuple[str, ...]]"]


def check_all(options: JobOptions, others: dict[str, object]) -> None:
    """Refuse what belongs to one job.

    Args:
        options: those of the jobs.
        others: whether further options are given, by their names.

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


def load_all(options: JobOptions) -> list[JobSpec]:
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


def submit_all(
    connecting: "BackgroundLogin",
    specs: Sequence[JobSpec],
    prepare: Prepare,
    *,
    again: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Submit the jobs as one group, or show what would be submitted."""
    from slurmgen.cli.submit_output import Printer
    from slurmgen.submit.prepare import group
    from slurmgen.submit.submission import submissions

    made = {str(spec.name): prepare(spec) for spec in specs}
    prepared = group({name: one for name, (one, _) in made.items()}, specs[0].project)
    all_notes = [notes for _, notes in made.values()]
    if dry_run:
        _show_all(prepared, list(made), all_notes)
        return
    notes = tuple(dict.fromkeys(note for notes in all_notes for note in notes))
    printer = Printer(prepared[0], notes, lambda outcomes: print_ids(outcomes, as_json))
    with submissions(prepared, connecting.transport, again=again, observer=printer) as outcomes:
        for one, outcome in zip(prepared, outcomes, strict=True):
            say_result(one, outcome)
        key = outcomes[0].record.part_of
        say(f"these jobs are the group {key}, which status, wait and cancel take like an id")


def _show_all(
    prepared: "Sequence[Prepared]", names: Sequence[str], all_notes: Sequence[tuple[str, ...]]
) -> None:
    for one, notes in zip(prepared, all_notes, strict=True):
        warn(one, notes)
        show(one, as_json=False)
        for place, kind in one.needs:
            say(f"would depend on {names[place]} ({kind})")


def submit_first(
    options: JobOptions,
    sites: tuple[str, ...],
    route_values: dict[str, Any],
    sending: Sending,
    *,
    again: bool,
    dry_run: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Submit the job to all sites that could run it, and print the id of the one that starts first.

    Raises:
        RequestError, ConfigError: the request, or a profile, is wrong.
        CommandFailed: no site could run the job, or none has.
    """
    from slurmgen.remote.ssh.prompt import terminal_prompt
    from slurmgen.submit.first import FirstJob, enter
    from slurmgen.submit.race import run

    _check(options, sites, route_values)
    refuse_example(announced(load_spec(structs.replace(options, site=sites[0]), Path.cwd())))
    job = FirstJob(
        options=options,
        folder=Path.cwd(),
        sites=sites,
        route_values=route_values,
        remote_dir=sending.remote_dir,
        prepare=partial(_observed, sending, follow),
        ask=terminal_prompt(),
    )
    with Logins(connect_without_prompt) as logins:
        if dry_run:
            _show_first(job, sending, logins, as_json)
            return
        race, entrants = enter(job, logins, say, again=again)
        with run(race, entrants, logins.take, say, partial(_print_first, race, as_json)) as won:
            if follow:
                runner = won.runner
                follow_log(runner.connected(), runner.record, runner.job.id, runner.route)


def _check(options: JobOptions, sites: tuple[str, ...], route_values: dict[str, Any]) -> None:
    """Refuse what belongs to one site, and batch scripts.

    Raises:
        RequestError: it names a batch script, or a login host.
        UsageError: it names a --site.
    """
    from slurmgen.submit.where import refuse_one_host

    if options.site:
        raise click.UsageError("--site and --first exclude each other.")
    if _names_batch_script(options):
        raise RequestError(
            f"{options.job} is a batch script, and --first is for jobs of slurmgen.toml or of options",
            "Name one --site; `slurmgen adopt` makes a job of slurmgen.toml from a script.",
        )
    refuse_one_host(sites, route_values)


def _names_batch_script(options: JobOptions) -> bool:
    from slurmgen.submit.script import find_script

    _, project = find_project(Path.cwd())
    return find_script(options.job, project, Path.cwd(), options.request) is not None


def _prepared(sending: Sending, job: JobSpec, route: "Route") -> "tuple[Prepared, tuple[str, ...]]":
    """The submission to a site, with a gate, and what to know about the job there."""
    from slurmgen.submit.first import gated

    job = sending.on_good_nodes(job, route.via)
    plan = gated(job)
    return with_command(prepared_job(job, plan, route, sending)), tuple(notes_of(plan, job))


def _observed(sending: Sending, follow: bool, job: JobSpec, route: "Route") -> "tuple[Prepared, LinePrinter]":
    """The submission to a site, and what prints how it proceeds."""
    prepared, notes = _prepared(sending, job, route)
    check_follow(follow, is_array=is_of_task(prepared.submission.output))
    return prepared, LinePrinter(prepared, notes)


def _show_first(job: "FirstJob", sending: Sending, logins: Logins, as_json: bool) -> None:
    """Show what would be submitted to the site of the earliest estimate."""
    from slurmgen.submit.first import of_each, sites_that_can_run

    def make(one: "Option") -> "tuple[str, Prepared, tuple[str, ...]]":
        name = f"{one.site} ({one.partition})" if one.partition else one.site
        return name, *_prepared(sending, *job.at(one.site, one.partition))

    made = of_each(sites_that_can_run(job, logins, say), make, say)
    count, sites = counted(len(made), "site"), listed([name for name, _, _ in made])
    say(f"would submit to {count}, of which the first to start would keep its job: {sites}")
    _, prepared, notes = made[0]
    warn(prepared, notes)
    show(prepared, as_json)


def _print_first(race: "Race", as_json: bool, won: "Won") -> None:
    """Print the id of the job that runs, or the object.

    Raises:
        SlurmgenError: it cannot be printed; the error names the job.
    """
    try:
        print_json(_object(race, won)) if as_json else click.echo(won.runner.record.id)
    except OSError as error:
        raise SlurmgenError(
            f"{won.runner.name} runs the program, but its id could not be printed: {error.strerror}",
            "The same command prints it.",
        ) from None


def _object(race: "Race", won: "Won") -> "SubmittedFirst":
    from slurmgen.cli.job_objects import SubmittedFirst

    values, others = submitted_values(won.runner.record), list(won.losers)
    return SubmittedFirst(**values, earlier=won.runner.is_earlier, race=race.key, others=others)
