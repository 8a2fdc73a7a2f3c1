"""Removing the secrets of jobs that have ended; a job whose script ended by itself has removed its own."""

from collections.abc import Iterable
from contextlib import suppress

from msgspec import DecodeError, Struct, json

from slurmgen.errors import SlurmgenError
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Record
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport

_REMOVE = 'for folder do rm -rf -- "$folder/.slurmgen"; done'


class _Request(Struct, frozen=True):
    secrets: tuple[str, ...] = ()


class _Recorded(Struct, frozen=True):
    request: _Request = _Request()


def remove_secrets(transport: Transport, jobs: Iterable[Job]) -> None:
    """Remove the secrets of jobs that never run again; if that fails, the next query or prune does it."""
    records = (job.record for job in jobs if job.is_recorded)
    if folders := [record.folder for record in records if record and _has_secrets(record)]:
        with suppress(SlurmgenError):
            transport.run(["sh", "-c", _REMOVE, "slurmgen", *folders], timeout=COMMAND_TIMEOUT)


def _has_secrets(record: Record) -> bool:
    with suppress(DecodeError):
        return bool(record.request and json.decode(record.request, type=_Recorded).request.secrets)
    return False
