"""Preparing the submission of a batch script of the user's own, as it is, without a connection."""

from functools import partial
from pathlib import Path

from msgspec import structs

from slurmgen.jobs.batch_script import BatchScript
from slurmgen.jobs.exactly_once import Submission
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.log_paths import logs_in
from slurmgen.jobs.new_entry import new_key, pending_record
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.project_content import ProjectContent, Upload, project_content, stored_content
from slurmgen.jobs.recorded_request import Recorded, with_recorded
from slurmgen.remote.route import Route
from slurmgen.sites.model import Site
from slurmgen.sync.needed_files import of_batch_script
from slurmgen.sync.project_files import project_files


def prepare_script(
    script: BatchScript, site: Site, route: Route, project_dir: Path, upload: Upload
) -> Prepared:
    """`prepare` for a batch script that is submitted as it is; it must be a file of the project.

    Args:
        script: the batch script.
        site: the cluster.
        route: how to reach it.
        project_dir: the folder to send.
        upload: what is sent of that folder, and where to.

    Raises:
        RequestError: the project cannot be sent so, or the script is not among its files.
        TransferFailed: a file cannot be read.
    """
    logs = logs_in(project_dir, Ledger().with_logs_elsewhere())
    find = partial(project_files, project_dir, [of_batch_script(script.file)], upload.send, logs)
    content = project_content(site, route, project_dir, upload, find)
    return _prepared(script, site, route, project_dir, content)


def prepare_script_again(
    script: BatchScript, site: Site, route: Route, project_dir: Path, earlier: Record
) -> Prepared:
    """The same for one that an earlier job ran, from the files of that job, which the cluster still has.

    Args:
        script: the batch script, as the snapshot of that job has it.
        site: the cluster.
        route: how to reach it.
        project_dir: the folder of the project, which is not read.
        earlier: that job.
    """
    return _prepared(script, site, route, project_dir, stored_content(earlier), earlier.key)


def _prepared(
    script: BatchScript,
    site: Site,
    route: Route,
    project_dir: Path,
    content: ProjectContent,
    resubmits: str = "",
) -> Prepared:
    made = _submission(script, content)
    again = ["resubmits", resubmits] if resubmits else []
    identity = "\0".join([script.file, script.text, *again, *script.options])
    record = pending_record(made, route, project_dir, content.commit, identity)
    record = structs.replace(record, stderr=script.option("error"))
    prepared = Prepared(made, route, record, content.sent, content.first, site.refusals)
    project = str(project_dir.resolve())
    kept = Recorded(
        site=site.name,
        project=project,
        options=script.asked,
        batch_script=script.file,
        resubmits=resubmits,
    )
    return with_recorded(prepared, kept)


def _submission(script: BatchScript, content: ProjectContent) -> Submission:
    return Submission(
        name=script.name,
        script=script.text,
        files=content.files,
        content=content.content,
        parent=content.parent,
        key=new_key(),
        output=script.output,
        comment=script.option("comment"),
        clusters=script.option("clusters"),
        sbatch_options=script.options,
        file=script.file,
        is_stored=content.is_stored,
    )
