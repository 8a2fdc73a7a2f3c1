"""Submitting a project and its job, as `slurmgen submit` does, for Python."""

from collections.abc import Sequence
from pathlib import Path

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec, spec_of
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.prepare import dependent, prepare
from slurmgen.jobs.project_content import MAX_SIZE
from slurmgen.jobs.recorded_request import with_request
from slurmgen.jobs.reported_nodes import on_good_nodes
from slurmgen.jobs.submission import Observer
from slurmgen.jobs.sweep_arrays import arrays_of, submit_arrays
from slurmgen.plan import Plan
from slurmgen.remote.background import BackgroundLogin
from slurmgen.remote.route import SshClient, Via, find_route


def submit(
    job: Plan | JobSpec,
    project_dir: Path | str | None = None,
    *,
    remote_dir: str | None = None,
    again: bool = False,
    send: Sequence[str] = (),
    max_size: int = MAX_SIZE,
    exclude_bad_nodes: bool = True,
    after: Sequence[str] = (),
    via: Via | None = None,
    host: str | None = None,
    ssh_config: str | None = None,
    ssh_client: SshClient | None = None,
    observer: Observer | None = None,
) -> Record:
    """Send a project and submit its job, exactly once, as `slurmgen submit` does.

    If it fails, the same call finds the job, or submits it if there is none. It never prompts: the login
    needs a key, an agent, or a shared connection of OpenSSH.

    Args:
        job: what `load_job` or `resolve` returned.
        project_dir: for a plan, the folder of its project or one below it; default: the current folder.
        remote_dir: the remote folder for submissions; default: that of personal.toml, else ~/slurmgen.
        again: submit a new job even if an earlier submission is unsettled.
        send: files to send although they may hold secrets or are ignored.
        max_size: bytes of the project, above which nothing is sent.
        exclude_bad_nodes: for a job of `load_job`, exclude the nodes that are remembered as bad.
        after: the jobs that must end first, each `[TYPE:]JOB`; default: those of slurmgen.toml.
        via: how to reach the site; default: ssh if it has a login host, else local.
        host: login host, as `[USER@]HOST`; default: that of personal.toml, else of the profile.
        ssh_config: OpenSSH configuration; default: ~/.ssh/config.
        ssh_client: SSH client; default: paramiko.
        observer: is called as the submission proceeds.

    Returns:
        The record of the job; of a sweep with several arrays, that of the first, whose `part_of` all share.

    Raises:
        RequestError, ConfigError: the request or the project is invalid; nothing was sent.
        Unresolved: there may be a job; call it again.
        RemoteError: there is no job.
    """
    spec = job if isinstance(job, JobSpec) else spec_of(job, Path(project_dir or "."))
    if spec is job and project_dir is not None:
        raise RequestError("the job has a project of its own", "Leave out project_dir; load_job takes it.")
    route = find_route(
        spec.site, spec.personal, via=via, host=host, ssh_config=ssh_config, ssh_client=ssh_client
    )
    with BackgroundLogin(route) as connecting:
        if spec is job and exclude_bad_nodes:
            spec = on_good_nodes(spec, route)
        plan = spec.plan() if isinstance(job, JobSpec) else job
        folder = remote_dir or spec.personal.remote_dir
        prepared = prepare(
            *(plan, spec.render(plan), route, spec.project_dir, folder, max_size, send), spec.identity()
        )
        prepared = with_request(prepared, spec, send)
        prepared = dependent(prepared, spec.after(after))
        arrays = arrays_of(prepared, plan, spec.render)
        with submit_arrays(arrays, connecting.transport, again=again, observer=observer) as outcomes:
            return outcomes[0].record
