"""`slurmgen resubmit`: submit a job again, with changes."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import click
from msgspec import structs

from slurmgen.cli.job_objects import ResubmitDryRun, Resubmitted
from slurmgen.cli.options import (
    JobCommand,
    changes_options,
    json_option,
    site_route,
    submission_options,
    typed,
)
from slurmgen.cli.output import can_answer, print_json, print_script, say
from slurmgen.cli.submit_output import Printer, as_object, print_ids, printed, say_options
from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.job_spec import JobOptions
from slurmgen.request.model import Request
from slurmgen.slurm.sbatch_options import given
from slurmgen.status.job import Borrow
from slurmgen.status.query import query_and_save, recall, unreached
from slurmgen.status.report import Report
from slurmgen.submit.again import (
    Original,
    Resubmission,
    find_original,
    original_script,
    proposed,
    require_stored,
    script_diff,
    target_of,
)
from slurmgen.submit.how import How
from slurmgen.submit.job import ready
from slurmgen.submit.prepare import Prepared
from slurmgen.submit.proposal import Proposal
from slurmgen.submit.script import refuse_others
from slurmgen.submit.submission import Login, Outcome

Files = Literal["present", "snapshot"]


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
@submission_options("with --present-files: ", "default: those that ID waited for", "resubmission")
@click.option(
    "--present-files", is_flag=True, help="Send the project as it is now; default: the files that ID ran."
)
@click.option(
    "--as-proposed", is_flag=True, help="After OUT_OF_MEMORY or TIMEOUT, ask for as much as is proposed."
)
@click.option("--failed", is_flag=True, help="Of a sweep: only the tasks that failed.")
@click.option("--unchanged", is_flag=True, help="Do not propose more memory or time.")
@click.option("--dry-run", is_flag=True, help="Print how the script differs from that of ID; submit nothing.")
@json_option
def command(
    options: JobOptions,
    how: How,
    present_files: bool,
    as_proposed: bool,
    unchanged: bool,
    failed: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Submit a job again, with changes.

    The new job is what ID asked for, with the options of this command on top. ID is a job id, a job name, of
    which the last submitted counts, or `last`; of a sweep also some tasks, as 12_3 or train[lr=1e-3]. The new
    job runs the files that ID ran, which the cluster keeps, or with --present-files the project as it is now.
    At another site, the options of ID count on top of the present slurmgen.toml.

    After OUT_OF_MEMORY or TIMEOUT, more memory or time is proposed, and a terminal asks whether to use it.
    After a failure, repeat the command: it finds the new job, or submits it if there is none. It never
    submits a second one. SCRIPT ARGS replace those of ID. Of a batch script that was submitted as it is,
    options such as --time override the header, and others are refused.
    """
    if as_proposed and unchanged:
        raise click.UsageError("--as-proposed and --unchanged exclude each other.")
    target, values = target_of(str(options.job)), how.route_values
    if failed and target.names_tasks:
        raise click.UsageError("--failed selects tasks of a whole sweep: name the sweep.")
    original = find_original(target.job, options.site, values, partial(site_route, values))
    wanted = Resubmission(
        original=original,
        changes=options.request,
        site=options.site,
        present_files=present_files,
        tasks=target,
        failed=failed,
        propose=None if unchanged else partial(_proposed, as_proposed),
    )
    if original.kept.batch_script:
        _refuse_changes(wanted, options.replace_args)
    files: Files = "present" if present_files and not original.kept.batch_script else "snapshot"
    if dry_run:
        with ready(wanted, how, _Printer(original, files, as_json=False), connects=False) as (
            (prepared, *_),
            login,
        ):
            _show(prepared, login, original, files, as_json=as_json)
        return
    with printed(wanted, how, _Printer(original, files, as_json=as_json)):
        pass


class _Printer(Printer):
    def __init__(self, original: Original, files: Files, *, as_json: bool) -> None:
        def as_again(outcome: Outcome) -> Resubmitted:
            return Resubmitted(
                **structs.asdict(as_object(outcome)), resubmits=original.record.id, files=files
            )

        super().__init__(partial(print_ids, as_json=as_json, make=as_again))
        self._original, self._files = original, files

    def prepared(self, arrays: Sequence[Prepared]) -> None:
        """Print which job is submitted again, and which files it runs."""
        super().prepared(arrays)
        record = self._original.record
        files = f"the project as it is now, {self._original.kept.project}"
        if self._files == "snapshot":
            commit = f", commit {record.commit[:12]}{' with changes' * record.dirty}" if record.commit else ""
            files = f"the files that it ran, snapshot {record.snapshot[:12]}{commit}"
        say(f"job {record.id} ({record.name}) of {record.submitted} again, with {files}")


def _proposed(as_proposed: bool, wanted: Resubmission, use: Borrow) -> Request | None:
    """The proposed memory or time, if the user wants it; None without a proposal.

    Args:
        wanted: the resubmission without a proposal.
        use: lends the connection to query the end of the original, if the ledger does not have it.

    Raises:
        RequestError: the user has to decide and there is no terminal, or there is nothing to propose.
        SnapshotGone: the cluster no longer has the files that the job ran.
    """
    original = wanted.original
    report = _report(original, use)
    found = proposed(wanted, report, use)
    if found and found.request and _names(wanted.changes, found.request):
        found = None
    if found and found.request:
        if not wanted.present_files:
            with use(original.job.route) as transport:
                require_stored(transport, original.record)
        return _decided(original.record.id, found, as_proposed=as_proposed)
    if found or as_proposed:
        why = found.why if found else f"it is {report.state}"
        fact = f"nothing is proposed for job {original.record.id}: {why}"
        if as_proposed:
            raise RequestError(fact, "Leave out --as-proposed, or name what the job needs.")
        say(fact)
    return None


def _names(changes: Request, wanted: Request) -> bool:
    """Whether the user has decided what would be proposed."""
    own = given(changes.sbatch)
    if wanted.time:
        return bool(changes.time or "time" in own)
    return bool(changes.mem or own.keys() & {"mem", "mem-per-cpu", "mem-per-gpu"})


def _report(original: Original, use: Borrow) -> Report:
    """How the original ended: from the ledger, else from its site."""
    job = original.job
    if not job.needs_query and (known := recall(job, "")):
        return known
    try:
        with use(job.route) as transport:
            (report,) = query_and_save(transport, [job])
    except SlurmgenError as error:
        say(f"how job {job.id} ended is not known: {error.fact}")
        return unreached(job, error)
    if report.states and not report.ended:
        say(f"warning: job {job.id} is {report.state}; this is a second one")
    return report


def _decided(job: str, found: Proposal, *, as_proposed: bool) -> Request | None:
    """The proposal, if the option or the user at the terminal accepts it."""
    say(f"job {job}: {found.why}; proposed: {found.words} (an estimate)")
    if as_proposed:
        return found.request
    if can_answer():
        return found.request if _accepted(found.words) else None
    accept, repeat = _command("--as-proposed"), _command("--unchanged")
    raise RequestError(
        f"the same request is likely to fail again: {found.why}",
        f"Use the proposal: `{accept}`; or repeat it as it was: `{repeat}`.",
    )


def _accepted(words: str) -> bool:
    """Whether the user at the terminal accepts a proposal, or wants the job as it was.

    Raises:
        Abort: the user wants neither.
    """
    say(f"y: submit it with {words}; n: submit it as it was; cancel: submit nothing")
    answers = click.Choice(["y", "n", "cancel"], case_sensitive=False)
    answer = click.prompt(f"Use {words}? [y/n/cancel]", type=answers, show_choices=False, err=True)
    if answer == "cancel":
        say("nothing was submitted")
        raise click.Abort
    return bool(answer == "y")


def _command(option: str) -> str:
    """This command line with an option."""
    return typed(click.get_current_context()).replace(" resubmit ", f" resubmit {option} ", 1)


def _refuse_changes(wanted: Resubmission, replace_args: bool) -> None:
    """Refuse what a batch script does not have.

    Raises:
        RequestError: an option has no effect.
    """
    kept = wanted.original.kept
    file, site = kept.batch_script, wanted.site
    refuse_others(wanted.changes, replace_args, file)
    others = {
        "--present-files": wanted.present_files,
        "--failed": wanted.failed,
        f"--site {site}": site not in (None, kept.site),
        "a task": wanted.tasks is not None and wanted.tasks.names_tasks,
    }
    for option in [name for name, is_given in others.items() if is_given]:
        raise RequestError(
            f"{file} is submitted again from the same files, which excludes {option}",
            f"`slurmgen submit {file}` submits the present script and files.",
        )


def _show(prepared: Prepared, login: Login, original: Original, files: Files, *, as_json: bool) -> None:
    """Print how the script differs from that of the original."""
    script, options = prepared.submission.script, prepared.submission.sbatch_options
    with login.use(original.job.route) as transport:
        before = original_script(transport, original)
    diff = script_diff(before, script)
    if as_json:
        print_json(
            ResubmitDryRun(
                resubmits=original.record.id,
                files=files,
                snapshot=prepared.record.snapshot,
                script=script,
                diff=diff if before else None,
                sbatch_options=list(options),
            )
        )
        return
    for one in prepared.after:
        say(f"would depend on another job: it {one.text}")
    if not before:
        say(f"the run folder of job {original.record.id} is gone; this is the whole script")
    print_script(diff if before else script)
    if not diff:
        say("the script is the same")
    say_options(options)
