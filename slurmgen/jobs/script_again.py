"""Submitting a batch script again that was submitted as it is, from the snapshot that its job ran."""

from collections.abc import Sequence
from pathlib import Path

from slurmgen.jobs.batch_script import BatchScript, parsed
from slurmgen.jobs.changed_options import changed
from slurmgen.jobs.prepare import Prepared, dependent
from slurmgen.jobs.prepare_script import prepare_script_again
from slurmgen.jobs.project_content import parent_of
from slurmgen.jobs.resubmit import Original, text_of
from slurmgen.jobs.script_options import with_options
from slurmgen.jobs.submission_errors import SnapshotGone
from slurmgen.remote.transport import Transport
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.dependencies import check_alone, given


def prepare_stored_script(
    transport: Transport, original: Original, after: Sequence[str], changes: Request
) -> Prepared:
    """Make all that the submission needs.

    Args:
        transport: the connection to the site of the original.
        original: the job that is submitted again.
        after: the jobs that must end first, each `[TYPE:]JOB`; default: those that the original waited for.
        changes: options that override the header, on top of those of the original.

    Raises:
        RequestError: the options contradict the script, it has dependencies twice, or a job cannot be
            waited for.
        SnapshotGone: the cluster no longer has the script.
        CommandFailed: it cannot be read.
    """
    kept = original.kept
    afters = given(after or kept.after)
    script, site = script_again(transport, original, changes)
    check_alone(afters, script.option("dependency"))
    route, project_dir = original.job.route, Path(kept.project)
    return dependent(prepare_script_again(script, site, route, project_dir, original.record), afters)


def script_again(transport: Transport, original: Original, changes: Request) -> tuple[BatchScript, Site]:
    """The script with the options of its job and changes, and the site; raises as `prepare_stored_script`."""
    kept = original.kept
    project_dir = Path(kept.project)
    script = parsed(_stored(transport, original), project_dir / kept.batch_script, kept.batch_script)
    site = load_site(kept.site, project_dir)
    return with_options(script, changed(kept.options, changes), site, accepted=kept.options), site


def _stored(transport: Transport, original: Original) -> bytes:
    """The script in the snapshot or, before that is made (soon after a submission), in the run folder."""
    record, file = original.record, original.kept.batch_script
    for folder in (f"{parent_of(record)}/snapshots/{record.snapshot}", record.folder):
        if text := text_of(transport, f"{folder}/{file}"):
            return text
    raise SnapshotGone(
        f"{transport.where} no longer has the files that job {record.id} ran, nor its script",
        f"`slurmgen submit {file}` submits the present script and files.",
    )
