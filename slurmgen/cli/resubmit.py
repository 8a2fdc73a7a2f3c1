"""`slurmgen resubmit`: submit a job again, with changes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import structs

from slurmgen.cli.bad_nodes_option import bad_nodes_option, without_bad_nodes
from slurmgen.cli.job_output import print_json, print_script, say
from slurmgen.cli.options import JobCommand, changes_options, project_size_option, send_option
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.resubmit_proposal import Connection, proposed
from slurmgen.cli.route_options import connect_in_background, json_option, route_options
from slurmgen.job_spec import JobOptions, JobSpec
from slurmgen.request import Request, merge
from slurmgen.slurm.commands import JobId
from slurmgen.sweep import Sweep

if TYPE_CHECKING:
    from slurmgen.jobs.one_job import Outcome
    from slurmgen.jobs.resubmit import Again, Original
    from slurmgen.jobs.sweep_again import Target
    from slurmgen.remote.route import Route


@click.command(
    "resubmit",
    cls=JobCommand,
    examples={
        "slurmgen resubmit 1234567": "Submit a job again, as it was",
        "slurmgen resubmit last --as-proposed": "The last one, with the memory or time that it lacked",
        "slurmgen resubmit train --failed": "The failed tasks of a sweep, as a new array",
        "slurmgen resubmit train --gpus 8 --present-files": "With more GPUs, and the files as they are now",
        "slurmgen resubmit train --site olivia --present-files": "At another site",
    },
)
@changes_options
@route_options
@click.option(
    "--present-files", is_flag=True, help="Send the project as it is now; default: the files that ID ran."
)
@click.option(
    "--as-proposed", is_flag=True, help="After OUT_OF_MEMORY or TIMEOUT, ask for as much as is proposed."
)
@click.option("--failed", is_flag=True, help="Of a sweep: only the tasks that failed.")
@click.option("--unchanged", is_flag=True, help="Do not propose more memory or time.")
@click.option(
    "--remote-dir",
    metavar="FOLDER",
    help="With --present-files: folder on the cluster for submissions; default: ~/slurmgen.",
)
@project_size_option
@send_option
@bad_nodes_option(default=True)
@click.option(
    "--again",
    is_flag=True,
    help="Submit a new job even if the outcome of an earlier resubmission is unknown.",
)
@click.option("--dry-run", is_flag=True, help="Print how the script differs from that of ID; submit nothing.")
@json_option
def command(
    options: JobOptions,
    present_files: bool,
    as_proposed: bool,
    unchanged: bool,
    failed: bool,
    exclude_bad_nodes: bool,
    again: bool,
    dry_run: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Submit a job again, with changes.

    The new job is what ID asked for, with the options of this command on top. ID is a job id, a job name, of
    which the last submitted counts, or `last`; of a sweep also some tasks, as 12_3 or train[lr=1e-3]. The new
    job runs the files that ID ran, which the cluster keeps, or with --present-files the project as it is now.
    At another site, the options of ID count on top of the present slurmgen.toml.

    After OUT_OF_MEMORY or TIMEOUT, more memory or time is proposed, and a terminal asks whether to use it.
    After a failure, repeat the command: it finds the new job, or submits it if there is none. It never
    submits a second one. SCRIPT ARGS replace those of ID.
    """
    from slurmgen.jobs import resubmit
    from slurmgen.jobs.sweep_again import target_of

    if as_proposed and unchanged:
        raise click.UsageError("--as-proposed and --unchanged exclude each other.")
    own = {key: values.pop(key) for key in ("remote_dir", "max_size", "send")}
    target = target_of(str(options.job))
    original = _find(target.job, options.site, values)
    spec = resubmit.again(original, options.request, options.site)
    route = _route(original, spec, values)
    with connect_in_background(route, starts=not dry_run) as login, Connection(login, route) as connection:
        changes = merge(options.request, _only_some(original, target, connection, failed=failed))
        spec = resubmit.again(original, changes, options.site)
        more = None if unchanged else proposed(original, spec, changes, connection, as_proposed=as_proposed)
        if more:
            spec = resubmit.again(original, merge(changes, more), options.site)
        if exclude_bad_nodes:
            spec = without_bad_nodes(spec, twin=route.via == "twin")
        made = resubmit.prepare_again(
            original, spec, route, present_files=present_files, cache_dir=cache_dir(), **own
        )
        say(_origin(original, made))
        if dry_run:
            _show(connection, original, made, as_json=as_json)
        else:
            _submit(connection, original, made, again=again, as_json=as_json)


def _only_some(original: "Original", target: "Target", connection: Connection, *, failed: bool) -> Request:
    """The change of the request that selects tasks of a sweep; none for a whole job."""
    from slurmgen.jobs.status import query_site, save_final_states
    from slurmgen.jobs.sweep_again import arrays_of_record, failed_tasks, named_tasks
    from slurmgen.jobs.sweep_report import joined

    if failed and target.names_tasks:
        raise click.UsageError("--failed selects tasks of a whole sweep: name the sweep.")
    if target.names_tasks:
        return Request(sweep=Sweep(tasks=named_tasks(original.record, target)))
    if not failed:
        return Request()
    jobs = [
        structs.replace(original.job, id=JobId(one.id, one.cluster), record=one)
        for one in arrays_of_record(original.record)
    ]
    reports = query_site(connection.to(original.job.route), jobs, explain=False)
    save_final_states(reports)
    (report,) = joined(reports)
    return Request(sweep=Sweep(tasks=failed_tasks(report)))


def _find(name: str, site: str | None, route_values: dict[str, Any]) -> "Original":
    from slurmgen.jobs.lookup import site_route
    from slurmgen.jobs.resubmit import find_original

    def route_to(site: str) -> "Route":
        return site_route(site, Path.cwd(), route_values)

    return find_original(name, site, route_values, route_to)


def _route(original: "Original", spec: JobSpec, route_values: dict[str, Any]) -> "Route":
    """The route of the original, or to the site that the user names."""
    from slurmgen.remote.route import find_route

    route = original.job.route
    return route if spec.site.name == route.site else find_route(spec.site, spec.personal, **route_values)


def _origin(original: "Original", made: "Again") -> str:
    """Which job is submitted again, and which files it runs."""
    record = original.record
    files = f"the project as it is now, {made.spec.project_dir}"
    if not made.present_files:
        commit = f", commit {record.commit[:12]}{' with changes' * record.dirty}" if record.commit else ""
        files = f"the files that it ran, snapshot {record.snapshot[:12]}{commit}"
    return f"job {record.id} ({record.name}) of {record.submitted} again, with {files}"


def _show(connection: Connection, original: "Original", made: "Again", *, as_json: bool) -> None:
    """Print how the script differs from that of the original."""
    from slurmgen.cli.objects.jobs import ResubmitDryRun
    from slurmgen.jobs.resubmit import original_script, script_diff

    script = made.prepared.submission.script
    before = original_script(connection.to(original.job.route), original)
    diff = script_diff(before, script)
    if as_json:
        print_json(
            ResubmitDryRun(
                resubmits=original.record.id,
                files="present" if made.present_files else "snapshot",
                snapshot=made.prepared.record.snapshot,
                script=script,
                diff=diff if before else None,
            )
        )
        return
    if not before:
        say(f"the run folder of job {original.record.id} is gone; this is the whole script")
    print_script(diff if before else script)
    if not diff:
        say("the script is the same")


def _submit(
    connection: Connection, original: "Original", made: "Again", *, again: bool, as_json: bool
) -> None:
    from slurmgen.cli.objects.jobs import Resubmitted
    from slurmgen.cli.submit_job import with_command
    from slurmgen.cli.submit_output import as_object, notes_of, print_id, print_ids, say_result
    from slurmgen.cli.submit_progress import Printer
    from slurmgen.jobs.submission import submission, submissions
    from slurmgen.jobs.sweep_arrays import arrays_of

    prepared, plan = with_command(made.prepared), made.spec.plan()

    def as_again(outcome: "Outcome") -> Resubmitted:
        files: Literal["present", "snapshot"] = "present" if made.present_files else "snapshot"
        return Resubmitted(**structs.asdict(as_object(outcome)), resubmits=original.record.id, files=files)

    arrays = arrays_of(prepared, plan, lambda one: made.spec.render(one, cache_dir()))
    several = len(arrays) > 1

    def show_ids(outcomes: "Sequence[Outcome]") -> None:
        print_ids(outcomes, as_json) if several else print_id(outcomes[0], as_json, as_again)

    printer = Printer(prepared, notes_of(plan), show_ids)
    if several:
        with submissions(arrays, connection.transport, again=again, observer=printer) as outcomes:
            for outcome in outcomes:
                say_result(prepared, outcome)
        return
    with submission(prepared, connection.transport, again=again, observer=printer) as outcome:
        say_result(prepared, outcome)
