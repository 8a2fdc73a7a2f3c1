"""Parcel: what of a project is sent, by what is there already."""

import os

from msgspec import Struct

from slurmgen.sync.manifest import Manifest, Sent


class Parcel(Struct, frozen=True):
    """What is sent of a project."""

    base: str
    """The snapshot over there that it goes onto; `-` for none, `?` only asks which are there."""
    gone: tuple[str, ...] = ()
    "Names that the base has and the project has not, or not so."
    names: tuple[str, ...] = ()
    "Of the files that go along."


def expected(content: Manifest, sent: Sent) -> Parcel:
    """What to send at first, by what was sent from here before.

    Where it turns out to be there already, the far side reads nothing of it.
    """
    known = sent.names()
    return Parcel("?") if content.hash in known else difference(content, sent, known)


def difference(content: Manifest, sent: Sent, there: list[str]) -> Parcel:
    """What to send onto the best of the snapshots that are there."""
    best = sent.best(content, there)
    if best is None:
        return Parcel("-", names=tuple(content.entries))
    name, base = best
    changed = content.changed_since(base)
    # What changed goes too: snapshots share files, and nothing is ever written into one that is there.
    gone = base.entries.keys() & changed | set(content.gone_since(base))
    return Parcel(name, tuple(sorted(gone, key=os.fsencode)), tuple(changed))
