"""Which jobs of the ledger wait for which others."""

from collections.abc import Iterator

from slurmgen.errors import RequestError
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.recorded_request import kept_of

_PLACE = ("site", "via", "host", "cluster")


def waits_for(record: Record) -> Iterator[tuple[str, Record]]:
    """The jobs that must end before a job starts, each with the type of the dependency: ok, notok or any."""
    for kind, number in _afters(record):
        same = Ledger().with_id(number.partition("_")[0])
        before = [one for one in same if _is_near(one, record) and one.submitted <= record.submitted]
        yield from ((kind, one) for one in before[-1:])


def waited_for_by(record: Record) -> list[Record]:
    """The jobs that were submitted to start after a job or one of its tasks."""
    found = Ledger().that_mention(record.site, record.id) if record.id else ()
    return [one for one in found if _is_near(one, record) and record.key != one.key and _names(one, record)]


def _names(other: Record, record: Record) -> bool:
    return any(number.partition("_")[0] == record.id for _, number in _afters(other))


def _is_near(other: Record, record: Record) -> bool:
    return all(getattr(other, field) == getattr(record, field) for field in _PLACE)


def _afters(record: Record) -> list[tuple[str, str]]:
    """The types and ids of the jobs that a job was submitted to wait for."""
    try:
        words = kept_of(record).after
    except RequestError:
        return []
    parts = [word.partition(":") for word in words]
    return [(kind, number) for kind, _, number in parts]
