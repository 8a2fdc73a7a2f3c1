"""The probe job of `sites discover`: a one-minute job that reports what Slurm cannot know of a node."""

from collections.abc import Callable, Sequence

from slurmgen.errors import CommandFailed, Interrupted, RequestError
from slurmgen.files import cache_folder, make_private
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.plan import Plan, resolve
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.request.model import Request
from slurmgen.sites.discover.probe import MAX_LOG, SCRIPT_NAME, is_complete, report, script
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Place, gpu_partitions, place_of
from slurmgen.slurm import units
from slurmgen.slurm.replies import GONE, JobState
from slurmgen.status.job import job_id, recorded_log, states_text
from slurmgen.status.logs import Shown, follow, read
from slurmgen.status.slurm import ended, job_states
from slurmgen.submit.how import How
from slurmgen.submit.prepare import Prepared, prepare
from slurmgen.submit.submission import submissions

NAME = "slurmgen-probe"
_SECONDS = 60
Lines = tuple[tuple[str, str], ...]
_PROBES = 100
"Records of probes that are read, the last ones."


def probe_plan(
    site: Site,
    account: str | None = None,
    partition: str | None = None,
    *,
    qos: str | None = None,
    gpu_type: str | None = None,
) -> Plan:
    """The job: two tasks with a GPU each on one node, or whole nodes where the site allocates no less.

    Raises:
        RequestError: the site cannot run it, for instance because it has no GPUs.
    """
    partition = partition or _partition(site)
    place = place_of(site, partition, gpu_type, qos)
    gpus = place.node.gpus
    if not gpus:
        raise RequestError(f"no node with GPUs is known on {site.name}", "Name a --partition that has some.")
    is_whole = partition in site.partitions and site.partitions[partition].whole_nodes
    request = Request(
        framework="lightning",
        gpus=gpus if is_whole else min(gpus, 2),
        time=_time(place),
        account=account,
        partition=partition,
        qos=qos,
        gpu_type=gpu_type,
        script=SCRIPT_NAME,
        container="none",
        python_env="none",
        modules=(),
        requeue=False,
        name=NAME,
    )
    return resolve(request, site)


def batch_script(plan: Plan) -> str:
    """The batch script: the directives of any job on the site, and the script for the node and its tasks."""
    directives = "".join(f"#SBATCH --{key}{f'={value}' if value else ''}\n" for key, value in plan.directives)
    srun = " ".join(plan.step.lines[0])
    return f"#!/bin/sh\n{directives}\nsh {SCRIPT_NAME} node\n{srun} sh {SCRIPT_NAME} task\n"


def prepare_probe(plan: Plan, route: Route, remote_dir: str | None = None) -> Prepared:
    """Make all that the submission needs. Its project is a folder of the cache with the script alone."""
    folder = make_private(cache_folder() / NAME)
    (folder / SCRIPT_NAME).write_text(script(), encoding="ascii")
    return prepare(plan, batch_script, route, folder, How(remote_dir=remote_dir))[0]


def unread(transport: Transport, route: Route) -> Record | None:
    """The last probe of this route if its report was not read yet, and still can be."""
    named = Ledger().recent(_PROBES, route.site, NAME)
    records = [record for record in named if (record.via, record.host) == (route.via, route.host)]
    if not records or records[-1].final or records[-1].pending:
        return None
    record = records[-1]
    has_ended = ended(job_states(transport, job_id(record)))
    return None if has_ended and not is_complete(_report(transport, record)) else record


def submit_probe(transport: Transport, prepared: Prepared, waiting: Callable[[Record], None]) -> Lines:
    """Submit the job exactly once, wait for its end, and read its report. The connection is closed.

    Args:
        waiting: is called with the job, before the wait.

    Raises:
        RemoteError: as `submissions` and `read_report` say.
    """
    with submissions([prepared], lambda: transport) as (outcome,):
        return read_report(transport, outcome.record, waiting)


def read_report(transport: Transport, record: Record, waiting: Callable[[Record], None]) -> Lines:
    """Wait for the end of the job, and read its report; `waiting` is called before.

    Raises:
        Interrupted: ^C; the job goes on.
        CommandFailed: the job ended without a complete report.
    """
    log = bytearray()
    try:
        waiting(record)
        states = follow(transport, job_id(record), recorded_log(record, record.id), Shown(_bounded(log)))
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; job {record.id} goes on", "The same command again reads its report."
        ) from None
    Ledger().save_final_states({record: (states_text(states), "", "")})
    lines = report(bytes(log))
    if not is_complete(lines):
        raise CommandFailed(
            f"the probe job {record.id} ended as {_state(states)} without a complete report",
            f"See its log: slurmgen logs {record.id}",
        )
    return lines


def _partition(site: Site) -> str | None:
    with_gpus = gpu_partitions(site)
    default = site.default_partition
    return default if default in with_gpus else next(iter(with_gpus), None)


def _time(place: Place) -> str:
    """A minute, or the shortest time that the site accepts."""
    least = [units.time_limit(limits.min_time) or 0 for limits in place.limits.values()]
    return units.canonical_time(max([_SECONDS, *least]))


def _report(transport: Transport, record: Record) -> Lines:
    log = bytearray()
    keep = _bounded(log)
    for chunk in read(transport, recorded_log(record, record.id)):
        keep(chunk)
    return report(bytes(log))


def _bounded(log: bytearray) -> Callable[[bytes], None]:
    def keep(chunk: bytes) -> None:
        log.extend(chunk[: MAX_LOG - len(log)])

    return keep


def _state(states: Sequence[JobState]) -> str:
    return states[0].state if states else GONE
