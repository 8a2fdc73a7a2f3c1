"""`slurmgen run`: a job in this terminal, with the plan and the checks of `submit`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmgen.cli.log_output import LogOutput
from slurmgen.cli.options import JobCommand, connect, request_options, submission_options
from slurmgen.cli.output import say
from slurmgen.cli.submit_output import Printer, announced, refuse_example, say_result
from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.job_spec import JobOptions, load_spec
from slurmgen.submit.how import How
from slurmgen.submit.job import ProjectJob, submit
from slurmgen.submit.prepare import Prepared
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.ledger.ledger import Record
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.replies import JobState
    from slurmgen.status.job import Job
    from slurmgen.submit.submission import Outcome

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
def command(options: JobOptions, how: How) -> int:
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
    from slurmgen.status.job import find_log, job_id

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
    from slurmgen.status.follow import follow_through
    from slurmgen.status.job import Job, job_id
    from slurmgen.status.logs import Followed, Shown

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
    from slurmgen.status.job import Job
    from slurmgen.submit.cancel import cancel_jobs

    job = Job.of(record, route)
    try:
        cancel_jobs(transport, [job], say)
    except (SlurmgenError, KeyboardInterrupt) as error:
        why = error.fact if isinstance(error, SlurmgenError) else "a second ^C"
        say(f"job {job.id} may not be cancelled: {why}. `slurmgen cancel {job.id}` tries again.")


def _ended(transport: "Transport", job: "Job", states: "tuple[JobState, ...]") -> int:
    from slurmgen.status.query import end_of
    from slurmgen.status.report_text import lines

    report = end_of(transport, job, states)
    for line in lines(report):
        click.echo(visible(line), err=True)
    return report.code
