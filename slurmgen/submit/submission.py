"""Submit what is prepared, and record each step in the ledger."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import Self

from msgspec import Struct, json, structs

from slurmgen.errors import CommandFailed, ConfigError, RemoteError, SlurmgenError, TransferFailed
from slurmgen.ledger.bad_nodes import BadNode
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import Recorded, text_of
from slurmgen.remote.route import BackgroundLogin, Route, open_route
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.transport import Transport
from slurmgen.slurm.dependencies import option
from slurmgen.status.job import Dependency, Job
from slurmgen.submit import exactly_once
from slurmgen.submit.dependencies import NeverMet, needed
from slurmgen.submit.exactly_once import Closed, Count, Refused, Submitted, close
from slurmgen.submit.prepare import Prepared, new_key, now
from slurmgen.submit.secrets import NO_SECRETS, Questions, find_values

Sending = Callable[[], AbstractContextManager[Count | None]]
"Returns a context of the transfer, which may yield a function for the bytes of each part."


class Outcome(Struct, frozen=True):
    """A job that Slurm accepted, and the connection to it, which is open."""

    record: Record
    submitted: Submitted
    transport: Transport
    waits: tuple[Dependency, ...] = ()
    "The jobs that it still waits for."


def make_job(
    transport: Transport, prepared: Prepared, entry: Record, ledger: Ledger, sending: Sending
) -> Outcome:
    """Make the job of an entry that was claimed, or find the one that an earlier try made.

    Raises:
        NeverMet: a job that it depends on has failed, and no earlier try made one.
        RemoteError: as `exactly_once.submit` says. The entry stays while there may be a job.
    """
    try:
        waits = _waits(transport, prepared, entry, ledger)
    except NeverMet as error:
        waits, submitted = (), _earlier(transport, entry, ledger, error)
    else:
        with sending() as count:
            entry, submitted = _send(transport, prepared, waits, entry, ledger, count)
    return Outcome(_settled(prepared, entry, submitted), submitted, transport, waits)


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


def _send(
    transport: Transport,
    prepared: Prepared,
    waits: tuple[Dependency, ...],
    entry: Record,
    ledger: Ledger,
    count: Count | None,
) -> tuple[Record, Submitted]:
    """Make the job of a claimed entry; if its key is closed, of a new entry."""
    text = json.encode(structs.replace(prepared.record, key=entry.key)).decode() + "\n"
    dependency = option((one.type, one.job.id) for one in waits)
    keyed = structs.replace(prepared.submission, key=entry.key, record=text, dependency=dependency)
    try:
        return entry, exactly_once.submit(transport, keyed, prepared.sent, count=count, parcel=prepared.first)
    except Closed:  # by another terminal, or by this submission if the reply was lost
        ledger.drop(entry.key)
        if prepared.one_key:
            raise
        entry = ledger.claim(structs.replace(prepared.record, key=new_key()))
        check_site(prepared, entry)
        return _send(transport, prepared, waits, entry, ledger, count)
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
    return submitted.settled(
        entry,
        submitted=entry.submitted if submitted.earlier else now(),
        commit=source.commit,
        dirty=source.dirty,
        request=_with_after(entry.request, prepared.after),
    )


def _with_after(text: str, afters: Sequence[Dependency]) -> str:
    """The text for `Record.request` of a job that starts after others."""
    words = tuple(f"{one.type}:{one.job.id.number}" for one in afters)
    if not text or not words:
        return text
    return text_of(structs.replace(json.decode(text, type=Recorded), after=words))


_log = logging.getLogger(__name__)
_NEW_GROUP = "The other jobs are not submitted. Correct the cause; the same command then starts a new group."


class Login:
    """The connections of a submission: one to its site, made in the background, and others when needed."""

    def __init__(self, route: Route, prompt: Prompt | None = None, *, starts: bool = True) -> None:
        self._route, self._prompt = route, prompt
        self._pending = BackgroundLogin(route, prompt, starts=starts)
        self._open: dict[Route, Transport] = {}

    def transport(self) -> Transport:
        """The connection to the site of the job; raises what the login raises."""
        return self._to(self._route)

    def use(self, route: Route) -> AbstractContextManager[Transport]:
        """A connection, which stays open after the block."""
        return nullcontext(self._to(route))

    def _to(self, route: Route) -> Transport:
        if route not in self._open:
            is_own = route == self._route
            self._open[route] = self._pending.transport() if is_own else open_route(route, self._prompt)
        return self._open[route]

    def __enter__(self) -> Self:
        self._pending.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for transport in self._open.values():
            transport.close()
        self._pending.__exit__(kind, error, trace)


class Observer:
    """Receives the events of a submission. The methods of this class show none but a warning in the log."""

    def questions(self) -> Questions | None:
        """Asks for secrets and for consent; None, as here, asks nothing."""
        return None

    def login(self, route: Route, *, starts: bool) -> "Login":
        """Called for the connection; with `starts`, it is made while the job is prepared."""
        return Login(route, starts=starts)

    def excluded(self, nodes: Sequence[BadNode]) -> None:
        """Called with the remembered bad nodes that the job leaves out."""

    def planned(self, *, is_array: bool) -> None:
        """Called with the plan, before the project is read; an error ends the submission."""

    def prepared(self, arrays: Sequence[Prepared]) -> None:
        """Called with what is submitted; several for a group, or for a sweep beyond the site's array size."""

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


@contextmanager
def submissions(
    prepared: Sequence[Prepared],
    connect: Callable[[], Transport],
    *,
    again: bool = False,
    observer: Observer | None = None,
    claimed: Sequence[Record] = (),
) -> Iterator[list[Outcome]]:
    """Submit a job, the arrays of a sweep, or jobs that depend on each other, each exactly once.

    The connection stays open within the block. Several are one group, which is recorded at its end: if that
    is not reached, the same call finds those that were submitted by their entries, which are still pending.

    Args:
        prepared: the arrays or jobs, in an order in which each comes after those that it needs.
        again: submit new jobs even if an earlier submission is unsettled.
        claimed: their entries of the ledger, if these are claimed already.

    Raises:
        RequestError: a secret has no value, or the user does not agree to send it; nothing was sent.
        RemoteError: as `exactly_once.submit` says; of several, it says which are submitted. An entry stays
            while there may be a job.
    """
    ledger, observer, outcomes = Ledger(), observer or Observer(), list[Outcome]()
    try:
        prepared = [with_secrets(one, observer) for one in prepared]
    except (SlurmgenError, KeyboardInterrupt):
        _release(ledger, claimed)
        raise
    entries = claimed or [ledger.claim(one.record, again=again) for one in prepared]
    with _connected(ledger, entries, connect) as transport:
        observer.connected(transport.where, entries[0])
        try:
            for one, entry in zip(prepared, entries, strict=True):
                following = _following(one, outcomes)
                outcomes.append(make_job(transport, following, entry, ledger, observer.sending))
        except (RemoteError, NeverMet) as error:
            _release(ledger, entries[len(outcomes) + 1 :])
            if isinstance(error, NeverMet):  # the others are never submitted in this group
                _settle(ledger, [outcome.record for outcome in _grouped(outcomes)], observer)
                raise NeverMet(error.fact, _NEW_GROUP if outcomes else error.hint) from error
            raise _partly(error, outcomes, len(prepared)) from error
        outcomes = _grouped(outcomes) if len(outcomes) > 1 else outcomes
        _announce(ledger, outcomes, observer)
        yield outcomes


def with_secrets(prepared: Prepared, observer: Observer) -> Prepared:
    """The submission with the values of its secrets; the user is asked before anything is sent.

    Raises:
        RequestError: a secret has no value, or the user does not agree to send it.
    """
    if not prepared.secrets.names:
        return prepared
    values = find_values(prepared.secrets, prepared.route, observer.questions())
    submission = structs.replace(prepared.submission, secrets=values)
    return structs.replace(prepared, submission=submission, secrets=NO_SECRETS)


def _following(prepared: Prepared, outcomes: Sequence[Outcome]) -> Prepared:
    jobs = [Job.of(one.record, prepared.route) for one in outcomes]
    within = tuple(Dependency(jobs[place], kind) for place, kind in prepared.needs)
    return structs.replace(prepared, after=(*prepared.after, *within))


def _grouped(outcomes: list[Outcome]) -> list[Outcome]:
    group = outcomes[0].record.key if outcomes else ""
    return [structs.replace(one, record=structs.replace(one.record, part_of=group)) for one in outcomes]


def _partly(error: RemoteError, done: Sequence[Outcome], count: int) -> RemoteError:
    """The error of one job, with the jobs of those before it."""
    if done:
        jobs = ", ".join(one.record.id for one in done)
        there = f"{len(done)} of {count} jobs are submitted: {jobs}. The same command submits the others."
        return type(error)(error.fact, f"{error.hint} {there}".strip())
    return error


def _connected(ledger: Ledger, entries: Sequence[Record], connect: Callable[[], Transport]) -> Transport:
    """Connect; if that fails, the entries are released, since nothing was sent."""
    try:
        return connect()
    except (SlurmgenError, KeyboardInterrupt):
        _release(ledger, entries)
        raise


def _release(ledger: Ledger, entries: Sequence[Record]) -> None:
    with suppress(ConfigError):  # what ended the submission is reported; the same command uses them again
        for entry in entries:
            ledger.release(entry.key)


def _announce(ledger: Ledger, outcomes: Sequence[Outcome], observer: Observer) -> None:
    records = [outcome.record for outcome in outcomes]
    try:
        observer.submitted(outcomes)
    except SlurmgenError:  # it names the jobs
        _settle(ledger, records, observer)
        raise
    _settle(ledger, records, observer)


def _settle(ledger: Ledger, records: Sequence[Record], observer: Observer) -> None:
    """Record jobs; they are submitted even if that fails."""
    try:
        ledger.settle_all(records)
    except ConfigError as error:
        for record in records:
            observer.not_recorded(record, error)
