"""A new entry of the ledger, for a submission that has no job yet."""

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from msgspec import structs

from slurmgen.jobs.exactly_once import Submission
from slurmgen.jobs.ledger import Record
from slurmgen.remote.route import Route
from slurmgen.sync.revision import Revision


def pending_record(
    submission: Submission, route: Route, project_dir: Path, commit: Revision, identity: str
) -> Record:
    """The entry of a submission.

    Args:
        submission: what is sent.
        route: how to reach its site.
        project_dir: the folder of its project.
        commit: the commit of its files.
        identity: the text by which a repeated submission is found.
    """
    return Record(
        id="",
        cluster=submission.clusters,
        name=submission.name,
        folder=submission.folder,
        output=submission.output,
        submitted=now(),
        key=submission.key,
        fingerprint=hash_of(
            *(route.site, route.via, route.host or "", submission.parent),
            *(str(project_dir.resolve()), identity),
        ),
        state="pending",
        snapshot=submission.content.hash,
        commit=commit.commit,
        dirty=commit.dirty,
        **structs.asdict(route),
    )


def new_key() -> str:
    """A key that no other submission has."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(4)}"


def now() -> str:
    """The time for the ledger."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def hash_of(*texts: str) -> str:
    """A hash of texts, which differs if any of them does."""
    return sha256(b"".join(text.encode(errors="surrogateescape") + b"\0" for text in texts)).hexdigest()
