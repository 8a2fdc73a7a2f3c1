"""What `slurmgen resubmit` prints, and its submission."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from slurmgen.cli.job_output import print_json, print_script, say

if TYPE_CHECKING:
    from slurmgen.cli.resubmit_proposal import Connection
    from slurmgen.jobs.one_job import Outcome
    from slurmgen.jobs.resubmission import Ready
    from slurmgen.jobs.resubmit import Original


def origin(original: "Original", made: "Ready") -> str:
    """Which job is submitted again, and which files it runs."""
    record = original.record
    files = f"the project as it is now, {made.project}"
    if not made.project:
        commit = f", commit {record.commit[:12]}{' with changes' * record.dirty}" if record.commit else ""
        files = f"the files that it ran, snapshot {record.snapshot[:12]}{commit}"
    return f"job {record.id} ({record.name}) of {record.submitted} again, with {files}"


def _files(made: "Ready") -> Literal["present", "snapshot"]:
    return "present" if made.project else "snapshot"


def show(connection: "Connection", original: "Original", made: "Ready", *, as_json: bool) -> None:
    """Print how the script differs from that of the original."""
    from slurmgen.cli.objects.jobs import ResubmitDryRun
    from slurmgen.cli.submit_output import say_options
    from slurmgen.jobs.resubmit import original_script, script_diff

    prepared = made.arrays[0]
    script = prepared.submission.script
    before = original_script(connection.to(original.job.route), original)
    diff = script_diff(before, script)
    options = prepared.submission.sbatch_options
    if as_json:
        print_json(
            ResubmitDryRun(
                resubmits=original.record.id,
                files=_files(made),
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


def submit(
    connection: "Connection", original: "Original", made: "Ready", *, again: bool, as_json: bool
) -> None:
    """Submit the job, and print its id."""
    from slurmgen.cli.objects.jobs import Resubmitted
    from slurmgen.cli.submit_output import as_object, notes_of, print_id, print_ids, say_result
    from slurmgen.cli.submit_progress import Printer
    from slurmgen.jobs.sweep_arrays import submit_arrays

    prepared, several = made.arrays[0], len(made.arrays) > 1

    def as_again(outcome: "Outcome") -> Resubmitted:
        done = structs.asdict(as_object(outcome))
        return Resubmitted(**done, resubmits=original.record.id, files=_files(made))

    def show_ids(outcomes: "Sequence[Outcome]") -> None:
        print_ids(outcomes, as_json) if several else print_id(outcomes[0], as_json, as_again)

    printer = Printer(prepared, notes_of(made.plan) if made.plan else (), show_ids)
    with submit_arrays(made.arrays, connection.transport, again=again, observer=printer) as outcomes:
        for outcome in outcomes:
            say_result(prepared, outcome)
