"""Preparing the submission of a job of slurmgen.toml, or of options, without a connection."""

from pathlib import Path

from slurmgen.job_spec import JobSpec
from slurmgen.jobs.prepare import Prepared, prepare
from slurmgen.jobs.project_content import Upload
from slurmgen.jobs.recorded_request import with_request
from slurmgen.plan import Plan
from slurmgen.remote.route import Route


def prepare_job(
    job: JobSpec, plan: Plan, route: Route, upload: Upload, cache_dir: Path | None = None
) -> Prepared:
    """`prepare` for the plan of a job; the entry for the ledger keeps what was asked for.

    Args:
        job: the job.
        plan: its plan.
        route: how to reach the site.
        upload: what is sent of the project, and where to.
        cache_dir: a private folder for compiled templates.

    Raises:
        ConfigError: a template of the project is wrong.
        RequestError: the project cannot be sent so.
        TransferFailed: a file cannot be read.
    """
    script, identity = job.render(plan, cache_dir), job.identity(cache_dir)
    upload = upload.by_default_to(job.personal.remote_dir)
    prepared = prepare(plan, script, route, job.project_dir, upload, identity)
    return with_request(prepared, job, upload.send)
