"""The part of a project that is sent, given the snapshots that the remote host has."""

import os

from msgspec import Struct

from slurmgen.sync.manifest import Manifest, Sent


class Parcel(Struct, frozen=True):
    """The part of a project that is sent."""

    base: str
    """The remote snapshot that it is based on; `-` for none, `?` to send nothing and list the snapshots."""
    gone: tuple[str, ...] = ()
    "Names in the base that the project does not have, or has with another content."
    names: tuple[str, ...] = ()
    "Of the files that are sent."


def expected(content: Manifest, sent: Sent) -> Parcel:
    """The parcel to send first, by the earlier submissions from this machine.

    If the remote host has the snapshot already, it reads none of the parcel.
    """
    known = sent.names()
    return Parcel("?") if content.hash in known else difference(content, sent, known)


def difference(content: Manifest, sent: Sent, snapshots: list[str]) -> Parcel:
    """The parcel that is based on the nearest of these remote snapshots."""
    best = sent.best(content, snapshots)
    if best is None:
        return Parcel("-", names=tuple(content.entries))
    name, base = best
    changed = content.changed_since(base)
    # Changed files are removed first: snapshots share files, so none is ever written in place.
    gone = base.entries.keys() & changed | set(content.gone_since(base))
    return Parcel(name, tuple(sorted(gone, key=os.fsencode)), tuple(changed))
