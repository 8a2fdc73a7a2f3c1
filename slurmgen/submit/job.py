"""Submit a job: from what the user asks for to its entry in the ledger."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec, spec_of
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.places import route_of
from slurmgen.plan import Plan
from slurmgen.remote.route import BackgroundLogin, Route, SshClient, Via
from slurmgen.status.nodes import on_good_nodes
from slurmgen.submit.first import gated, submit_first
from slurmgen.submit.prepare import MAX_SIZE, Prepared, Upload, dependent, prepare_job
from slurmgen.submit.submission import Observer, arrays_of, submit_arrays


def submit(
    job: Plan | JobSpec,
    project_dir: Path | str | None = None,
    *,
    first: Sequence[str] = (),
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
        first: for a job of `load_job`, submit it to all of these sites, wait until one starts, let that one
            run the program, and cancel the others; a repeated call continues.
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
        The record of the job; of a sweep with several arrays, that of the first, whose `part_of` all share;
        with `first`, that of the job that runs the program.

    Raises:
        RequestError, ConfigError: the request or the project is invalid; nothing was sent.
        Unresolved: there may be a job; call it again.
        RemoteError: there is no job; with `first`, no job runs the program.
    """
    spec, upload = _spec(job, project_dir), Upload(remote_dir, max_size, tuple(send))
    on_good = on_good_nodes if spec is job and exclude_bad_nodes else _as_it_is
    route_values: dict[str, Any] = {
        "via": via,
        "host": host,
        "ssh_config": ssh_config,
        "ssh_client": ssh_client,
    }

    def gated_at(one: JobSpec, route: Route) -> Prepared:
        one = on_good(one, route)
        return prepare_job(one, gated(one), route, upload)

    if isinstance(first, str):
        first = (first,)
    if first:
        _check_first(job, after)
        return submit_first(
            spec,
            first,
            gated_at,
            remote_dir=remote_dir,
            route_values=route_values,
            again=again,
            observer=observer,
        )
    route = route_of(spec.site, spec.personal, spec.project_dir, **route_values)
    with BackgroundLogin(route) as connecting:
        spec = on_good(spec, route)
        plan = job if isinstance(job, Plan) else spec.plan()
        prepared = dependent(prepare_job(spec, plan, route, upload), spec.after(after))
        arrays = arrays_of(prepared, plan, spec.render)
        with submit_arrays(arrays, connecting.transport, again=again, observer=observer) as outcomes:
            return outcomes[0].record


def _spec(job: Plan | JobSpec, project_dir: Path | str | None) -> JobSpec:
    if isinstance(job, Plan):
        return spec_of(job, Path(project_dir or "."))
    if project_dir is not None:
        raise RequestError("the job has a project of its own", "Leave out project_dir; load_job takes it.")
    return job


def _as_it_is(job: JobSpec, _route: Route) -> JobSpec:
    return job


def _check_first(job: Plan | JobSpec, after: Sequence[str]) -> None:
    """Refuse what belongs to one site.

    Raises:
        RequestError: the job is a plan, or names a site or another job.
    """
    if not isinstance(job, JobSpec):
        raise RequestError("a plan is for one site, and `first` is for several", "Use what load_job returns.")
    if job.options.site:
        raise RequestError("the job names a site, and `first` others", "Leave out the site of load_job.")
    if after:
        raise RequestError("after and first exclude each other", "Submit the job to one site.")
