"""Submitting a plan exactly once: claim an entry of the ledger, connect, send, settle the entry."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from msgspec import Struct, json, structs

from slurmgen.errors import (
    CommandFailed,
    ConfigError,
    RemoteError,
    RequestError,
    SlurmgenError,
    TransferFailed,
)
from slurmgen.job_spec import JobSpec, spec_of
from slurmgen.jobs import exactly_once
from slurmgen.jobs.closing import close
from slurmgen.jobs.dependencies import Dependency, NeverMet, as_option, needed
from slurmgen.jobs.exactly_once import Closed, Count, Refused, Submitted
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.prepare import MAX_SIZE, Prepared, dependent, new_key, now, prepare
from slurmgen.jobs.recorded_request import with_request
from slurmgen.jobs.reported_nodes import excluding, nodes_to_exclude, place_of
from slurmgen.jobs.secret_values import Questions, find_values
from slurmgen.jobs.sweep_arrays import arrays_of
from slurmgen.plan import Plan
from slurmgen.remote.background import BackgroundLogin
from slurmgen.remote.route import SshClient, Via, find_route
from slurmgen.remote.transport import Transport

_log = logging.getLogger(__name__)


class Outcome(Struct, frozen=True):
    """A job that Slurm accepted, and the connection to it, which is open."""

    record: Record
    submitted: Submitted
    transport: Transport
    waits: tuple[Dependency, ...] = ()
    "The jobs that it still waits for."


class Observer:
    """Receives the events of a submission. The methods of this class show none but a warning in the log."""

    def questions(self) -> Questions | None:
        """Asks for secrets and for consent; None, as here, asks nothing."""
        return None

    def connected(self, where: str, entry: Record) -> None:
        """Called when the host `where` is reached; `entry` may be an earlier unsettled one of this job."""

    def sending(self) -> AbstractContextManager[Count | None]:
        """Called for a context of the transfer, which may yield a function for the bytes of each part."""
        return nullcontext()

    def submitted(self, outcomes: Sequence[Outcome]) -> None:
        """Called with the jobs before the ledger settles their entries: what is printed here is not lost."""

    def not_recorded(self, record: Record, error: ConfigError) -> None:
        """Called if the job is submitted, but the ledger cannot be written."""
        _log.warning("job %s is submitted, in %s, but not recorded: %s", record.id, record.folder, error)


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
            spec = excluding(spec, nodes_to_exclude(spec, place_of(route)))
        plan = spec.plan() if isinstance(job, JobSpec) else job
        folder = remote_dir or spec.personal.remote_dir
        prepared = prepare(
            *(plan, spec.render(plan), route, spec.project_dir, folder, max_size, send), spec.identity()
        )
        prepared = dependent(prepared, spec.after(after))
        prepared = with_request(prepared, spec, send)
        arrays = arrays_of(prepared, plan, spec.render)
        if len(arrays) > 1:
            with submissions(arrays, connecting.transport, again=again, observer=observer) as outcomes:
                return outcomes[0].record
        with submission(prepared, connecting.transport, again=again, observer=observer) as outcome:
            return outcome.record


@contextmanager
def submission(
    prepared: Prepared,
    connect: Callable[[], Transport],
    *,
    again: bool = False,
    observer: Observer | None = None,
    entry: Record | None = None,
) -> Iterator[Outcome]:
    """Submit a job exactly once; the connection stays open within the block.

    Args:
        prepared: the job.
        connect: connects to its route.
        again: submit a new job even if an earlier submission is unsettled.
        observer: is called as the submission proceeds.
        entry: the entry of the ledger, if it is claimed already.

    Raises:
        RequestError: a secret has no value, or the user does not agree to send it; nothing was sent.
        RemoteError: as `exactly_once.submit` says. The entry stays while there may be a job.
    """
    ledger, observer = Ledger(), observer or Observer()
    prepared = _with_secrets(prepared, observer)
    entry = entry or ledger.claim(prepared.record, again=again)
    with _connected(ledger, [entry], connect) as transport:
        observer.connected(transport.where, entry)
        outcome = _made(transport, prepared, entry, ledger, observer)
        _settle(ledger, [outcome], observer)
        yield outcome


@contextmanager
def submissions(
    prepared: Sequence[Prepared],
    connect: Callable[[], Transport],
    *,
    again: bool = False,
    observer: Observer | None = None,
) -> Iterator[list[Outcome]]:
    """Submit the arrays of a sweep, each exactly once, as one group of the ledger.

    They are recorded together at the end: if that is not reached, the same call finds those that were
    submitted by their entries, which are still pending.

    Args:
        prepared: the arrays, in order.
        connect: connects to their route.
        again: submit new jobs even if an earlier submission is unsettled.
        observer: is called as the submission proceeds.

    Raises:
        RemoteError: as for `submission`; it says which arrays are submitted.
    """
    ledger, observer, outcomes = Ledger(), observer or Observer(), list[Outcome]()
    prepared = [_with_secrets(one, observer) for one in prepared]
    entries = [ledger.claim(one.record, again=again) for one in prepared]
    with _connected(ledger, entries, connect) as transport:
        observer.connected(transport.where, entries[0])
        try:
            for one, entry in zip(prepared, entries, strict=True):
                outcomes.append(_made(transport, one, entry, ledger, observer))
        except RemoteError as error:
            _release(ledger, entries[len(outcomes) + 1 :])
            raise _partly(error, outcomes, len(prepared)) from error
        outcomes = _grouped(outcomes)
        _settle(ledger, outcomes, observer)
        yield outcomes


def _with_secrets(prepared: Prepared, observer: Observer) -> Prepared:
    """The submission with the values of its secrets; the user is asked before anything is sent."""
    if not prepared.secrets.names:
        return prepared
    values = find_values(prepared.secrets, prepared.route, observer.questions())
    return structs.replace(prepared, submission=structs.replace(prepared.submission, secrets=values))


def _made(
    transport: Transport, prepared: Prepared, entry: Record, ledger: Ledger, observer: Observer
) -> Outcome:
    """The job of an entry that was claimed."""
    try:
        waits = _waits(transport, prepared, entry, ledger)
    except NeverMet as error:
        waits, submitted = (), _earlier(transport, entry, ledger, error)
    else:
        with observer.sending() as count:
            entry, submitted = _send(transport, _after(prepared, waits), entry, ledger, count)
    return Outcome(_settled(prepared, entry, submitted), submitted, transport, waits)


def _grouped(outcomes: list[Outcome]) -> list[Outcome]:
    group = outcomes[0].record.key
    return [structs.replace(one, record=structs.replace(one.record, part_of=group)) for one in outcomes]


def _partly(error: RemoteError, done: Sequence[Outcome], count: int) -> RemoteError:
    """The error of one array, with the jobs of those before it."""
    if done:
        jobs = ", ".join(one.record.id for one in done)
        there = f"{len(done)} of {count} arrays are submitted: {jobs}. The same command submits the others."
        return type(error)(error.fact, f"{error.hint} {there}".strip())
    return error


def _release(ledger: Ledger, entries: Sequence[Record]) -> None:
    for entry in entries:
        ledger.release(entry.key)


def _settle(ledger: Ledger, outcomes: Sequence[Outcome], observer: Observer) -> None:
    """Announce jobs, then record them: if a client is killed before, the same command finds them again."""
    records = [outcome.record for outcome in outcomes]
    try:
        observer.submitted(outcomes)
    except SlurmgenError:  # it names the jobs
        _record(ledger, records, observer)
        raise
    _record(ledger, records, observer)


def _record(ledger: Ledger, records: Sequence[Record], observer: Observer) -> None:
    """Record jobs; they are submitted even if that fails."""
    try:
        ledger.settle_all(records)
    except ConfigError as error:
        for record in records:
            observer.not_recorded(record, error)


def _connected(ledger: Ledger, entries: Sequence[Record], connect: Callable[[], Transport]) -> Transport:
    """Connect; if that fails, the entries are released, since nothing was sent."""
    try:
        return connect()
    except (SlurmgenError, KeyboardInterrupt):
        _release(ledger, entries)
        raise


def _waits(transport: Transport, prepared: Prepared, entry: Record, ledger: Ledger) -> tuple[Dependency, ...]:
    """The jobs that this one still waits for; if Slurm does not reply, the entry is released."""
    try:
        return needed(transport, prepared.after)
    except NeverMet:
        raise
    except (SlurmgenError, KeyboardInterrupt):
        ledger.release(entry.key)
        raise


def _earlier(transport: Transport, entry: Record, ledger: Ledger, error: NeverMet) -> Submitted:
    """The job that an earlier try made, if there is one; otherwise there will be none.

    Raises:
        NeverMet: there is none.
    """
    submitted = close(transport, entry)
    if submitted is None:
        ledger.drop(entry.key)
        raise error
    return submitted


def _after(prepared: Prepared, waits: Sequence[Dependency]) -> Prepared:
    """The same job, which Slurm starts after these."""
    waiting = structs.replace(prepared.submission, dependency=as_option(waits))
    return structs.replace(prepared, submission=waiting)


def _send(
    transport: Transport, prepared: Prepared, entry: Record, ledger: Ledger, count: Count | None
) -> tuple[Record, Submitted]:
    """Make the job of an entry that was claimed, or of a new entry if the key of that one is closed."""
    text = json.encode(structs.replace(prepared.record, key=entry.key)).decode() + "\n"
    keyed = structs.replace(prepared.submission, key=entry.key, record=text)
    try:
        return entry, exactly_once.submit(transport, keyed, prepared.sent, count=count, parcel=prepared.first)
    except Closed:  # by another terminal, or by this submission if the reply was lost
        ledger.drop(entry.key)
        entry = ledger.claim(structs.replace(prepared.record, key=new_key()))
        check_site(prepared, entry)
        return _send(transport, prepared, entry, ledger, count)
    except Refused as error:
        ledger.drop(entry.key)
        raise advised(error, prepared) from error
    except TransferFailed:
        ledger.release(entry.key)
        raise


def check_site(prepared: Prepared, entry: Record) -> None:
    """Refuse to send a submission to a site that its entry is not for."""
    route = prepared.route
    if (entry.site, entry.via) != (route.site, route.via):
        raise CommandFailed(
            f"another process submits the same job to {entry.site}, and not to {route.site}",
            "Repeat the command, which continues there.",
        )


def advised(error: CommandFailed, prepared: Prepared) -> Refused:
    """A refusal, with what to do about it for this job at this site."""
    advice = (text for part, text in prepared.refusals.items() if part in error.fact)
    return Refused(error.fact, next(advice, error.hint))


def _settled(prepared: Prepared, entry: Record, submitted: Submitted) -> Record:
    """The entry with its job, which may run what an earlier submission sent."""
    is_current = submitted.snapshot == prepared.submission.content.hash
    source = prepared.record if is_current else entry
    return structs.replace(
        entry,
        id=submitted.job.number,
        cluster=submitted.job.cluster,
        folder=submitted.folder,
        state="submitted",
        submitted=entry.submitted if submitted.earlier else now(),
        snapshot=submitted.snapshot,
        commit=source.commit,
        dirty=source.dirty,
    )
