"""Where a job would start first: one login to each site, in parallel, and only estimates in return.

Each partition of a site is a candidate. The plan refuses those that cannot run the job; of the others,
`sbatch --test-only` estimates the start, and sinfo counts what is free. Nothing is submitted.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

from msgspec import Struct, structs

from slurmgen import remote_scripts
from slurmgen.errors import ConnectionFailed, RequestError, SlurmgenError
from slurmgen.job_spec import JobSpec
from slurmgen.plan import Plan
from slurmgen.plan.resources import charge
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.sites.nodes import cpu_partitions, gpu_partitions
from slurmgen.slurm import pending, replies
from slurmgen.slurm.pending import Free
from slurmgen.status.job import Borrow
from slurmgen.status.slurm import hint_for
from slurmgen.worker import in_thread

LIMIT = 5.0
"Seconds for each site, its login included."
_OF_LIMIT = 0.6
"The share of it that one of Slurm's commands may take."
_KILLED = "137"
_ZONE = re.compile(r"([+-])([0-9]{2})([0-9]{2})")
_COUNT = re.compile(r"\s*([0-9]{1,9}) (\S{1,256})")
NO_ANSWER = "it did not reply within {:g} seconds"


class Option(Struct, frozen=True, kw_only=True):
    """One partition of a site, or the site itself where nothing is known of its partitions."""

    site: str
    partition: str = ""
    "Empty for the default of Slurm."
    refused: str = ""
    "Why the job cannot run there; empty if it can."
    error: str = ""
    "Why Slurm was not asked: the site was not reached."
    start: str = ""
    "Slurm's estimate of the start, as ISO 8601 in UTC; empty if there is none."
    wait: int | None = None
    "The estimate in seconds from now."
    gpus: int = 0
    "GPUs of the job."
    gpu_type: str = ""
    free_gpus: int | None = None
    "Free GPUs of that type in the partition now; None for a job without GPUs, or if it is not known."
    free_cpus: int | None = None
    "Free CPUs in the partition now."
    pending: int | None = None
    "Jobs that wait in the partition."
    charge: str = ""
    "The price of the whole time limit in the site's unit; empty if the profile has none."

    @property
    def can_run(self) -> bool:
        """Whether Slurm would accept the job there."""
        return not (self.refused or self.error)


Candidate = tuple[Option, str]
"A partition that the plan accepts, and the script for it."


class Place(Struct, frozen=True):
    """A site with its candidates, and what was refused before Slurm is asked."""

    route: Route
    candidates: tuple[Candidate, ...]
    refused: tuple[Option, ...]


def refuse_one_host(names: Sequence[str], route_values: Mapping[str, Any]) -> None:
    """Refuse --host with several sites.

    Raises:
        RequestError: they would all have the same login host.
    """
    if len(names) > 1 and route_values.get("host"):
        raise RequestError(
            f"--host {route_values['host']} cannot be the login host of {len(names)} sites",
            "Name one --site with it, or write the hosts into personal.toml.",
        )


def place(job: JobSpec, route: Route) -> Place:
    """The candidates of a site: the partition that the request names, else all that fit its GPUs."""
    found = [_candidate(job, name) for name in _partitions(job)]
    return Place(
        route,
        tuple(one for one in found if isinstance(one, tuple)),
        tuple(one for one in found if isinstance(one, Option)),
    )


def _partitions(job: JobSpec) -> Sequence[str | None]:
    site, request = job.site, job.request
    if request.partition or not site.partitions:
        return [request.partition]
    return (cpu_partitions(site) if request.gpus == 0 else gpu_partitions(site)) or [*site.partitions]


def _candidate(job: JobSpec, partition: str | None) -> Candidate | Option:
    option = Option(site=job.site.name, partition=partition or "")
    here = structs.replace(job, request=structs.replace(job.request, partition=partition))
    try:
        plan = here.plan()
        return _of_plan(option, plan), here.render(plan)
    except RequestError as error:
        return structs.replace(option, refused=str(error))


def _of_plan(option: Option, plan: Plan) -> Option:
    return structs.replace(
        option,
        partition=option.partition or ",".join(plan.place.partitions),
        gpus=plan.ranks.layout.gpus,
        gpu_type=plan.place.gpu_type or "",
        charge=charge(plan) or "",
    )


def ask_all(places: Sequence[Place], connect: Borrow, limit: float = LIMIT) -> list[Option]:
    """Ask all sites at the same time; the options in order of their estimated start.

    Args:
        limit: seconds after which a site counts as unreachable.
    """
    deadline = time.monotonic() + limit
    waiting = [(one, in_thread(partial(_ask, one, connect, limit))) for one in places]
    options = [option for one, reply in waiting for option in _options(one, reply, deadline, limit)]
    return sorted(options, key=_rank)


def _ask(one: Place, connect: Borrow, limit: float) -> list[Option]:
    if not one.candidates:
        return []
    try:
        return _reply(one, connect, limit)
    except ConnectionFailed:  # once more, within the same limit
        return _reply(one, connect, limit)


def _reply(one: Place, connect: Borrow, limit: float) -> list[Option]:
    with connect(one.route) as transport:
        return ask(transport, one.candidates, limit)


def _options(one: Place, reply: "Future[list[Option]]", deadline: float, limit: float) -> Iterable[Option]:
    try:
        asked = reply.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        asked = _unreached(one, NO_ANSWER.format(limit))
    except SlurmgenError as error:
        asked = _unreached(one, str(error))
    return [*asked, *one.refused]


def _unreached(one: Place, error: str) -> list[Option]:
    return [structs.replace(option, error=error) for option, _ in one.candidates]


def _rank(option: Option) -> tuple[bool, bool, float, str, str]:
    soonest = option.wait if option.wait is not None else float("inf")
    return bool(option.refused), bool(option.error), soonest, option.site, option.partition


def ask(transport: Transport, candidates: Sequence[Candidate], limit: float = LIMIT) -> list[Option]:
    """What Slurm replies for the candidates of one site, by one command.

    Raises:
        CommandFailed: there is no reply.
    """
    scripts = [script.encode(errors="surrogateescape") for _, script in candidates]
    args = [f"{limit * _OF_LIMIT:g}", pending.FREE_NODES_FORMAT, *(str(len(script)) for script in scripts)]
    now, zone, nodes, waiting, *texts = remote_scripts.run(
        transport, "where", args, b"".join(scripts), timeout=limit
    )
    frees, queue = pending.free_nodes(nodes), _pending(waiting)
    pairs = zip(texts[::2], texts[1::2], strict=False)
    return [
        _replied(option, status, text, _seconds(now), _zone(zone), frees, queue)
        for (option, _), (status, text) in zip(candidates, pairs, strict=False)
    ]


def _replied(
    option: Option,
    status: str,
    text: str,
    now: float,
    zone: timezone,
    frees: dict[str, Free],
    queue: dict[str, int],
) -> Option:
    if status.strip() == _KILLED:
        return structs.replace(option, error="sbatch did not reply in time")
    if status.strip() != "0":
        message = replies.complaint(text, "sbatch")
        return structs.replace(option, refused=f"Slurm: {message}. {hint_for(message)}".strip())
    printed, partition = replies.trial_start(text)
    option = structs.replace(option, partition=option.partition or partition)
    start = _start(printed, zone)
    known = [frees[name] for name in option.partition.split(",") if name in frees]
    return structs.replace(
        option,
        start=start.isoformat(timespec="seconds") if start else "",
        wait=max(0, round(start.timestamp() - now)) if start else None,
        free_gpus=sum(one.of_type(option.gpu_type) for one in known) if option.gpus and known else None,
        free_cpus=sum(one.cpus for one in known) if known else None,
        pending=sum(queue.get(name, 0) for name in option.partition.split(",")) if queue or known else None,
    )


def _start(text: str, zone: timezone) -> datetime | None:
    """The estimated start in UTC; Slurm prints the local time of the site."""
    try:
        local = datetime.fromisoformat(text)
        return local.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(text: str) -> timezone:
    match = _ZONE.fullmatch(text.strip())
    if not match or int(match[2]) > 14 or int(match[3]) > 59:
        return UTC
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch("[0-9]{1,11}", text.strip()) else time.time()


def _pending(text: str) -> dict[str, int]:
    """The pending jobs of each partition, from `uniq -c`; a job may name several."""
    queue: dict[str, int] = {}
    for count, names in _COUNT.findall(text):
        for name in names.split(","):
            queue[name] = queue.get(name, 0) + int(count)
    return queue
