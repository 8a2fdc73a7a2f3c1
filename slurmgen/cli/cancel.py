"""`slurmgen cancel`: end jobs."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import tell
from slurmgen.cli.route_options import find_jobs, jobs_options, reach

if TYPE_CHECKING:
    from slurmgen.jobs.status import Answer, Named
    from slurmgen.remote.transport import Transport

UNKNOWN_THERE = 3


@click.command(
    "cancel",
    cls=Command,
    examples={
        "slurmgen cancel 1234567": "Cancel a job",
        "slurmgen cancel last": "Cancel the job that was submitted last",
    },
)
@jobs_options
def command(job_ids: tuple[str, ...], site: str | None, as_json: bool, **said: Any) -> int:
    """Cancel jobs, and show their state.

    ID is a job id, ID_TASK in an array, a job name, or `last`. A job that has ended is left as it is. Exits
    with 3 if Slurm does not know a job.
    """
    from slurmgen.jobs.status import by_way, remember

    jobs = find_jobs(job_ids, site, **said)
    answers: list[Answer] = []
    for way, some in by_way(jobs).items():
        with reach(way) as far:
            answers += cancel_jobs(far, some)
    remember(answers)
    tell(answers, as_json=as_json, several=len(job_ids) > 1)
    return UNKNOWN_THERE if any(not one.states for one in answers) else 0


def cancel_jobs(far: "Transport", jobs: "list[Named]") -> "list[Answer]":
    """Cancel the jobs of one site that have not ended, and return what became of all."""
    from slurmgen.jobs.slurm_client import cancel, ended
    from slurmgen.jobs.status import answers_of

    before = answers_of(far, jobs, explain=False)
    living = [one.named for one in before if one.states and not ended(one.states)]
    if living:
        cancel(far, *(one.job for one in living))
        for one in living:
            click.echo(f"asked Slurm to cancel job {one.job}", err=True)
    for answer in before:
        if answer.states and answer.named not in living:
            click.echo(f"job {answer.named.job} has ended already", err=True)
    after = {one.named: one for one in (answers_of(far, living, explain=False) if living else [])}
    return [_after(one, after.get(one.named, one)) for one in before]


def _after(before: "Answer", after: "Answer") -> "Answer":
    """What became of a job. Slurm keeps no record of a task of an array that is cancelled while it waits."""
    from msgspec import structs

    from slurmgen.jobs.status import answer

    if after.states or not before.states:
        return after
    states = tuple(one if one.ended else structs.replace(one, state="CANCELLED") for one in before.states)
    return answer(before.named, states)
