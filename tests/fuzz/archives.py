"""Archives of results as a hostile login node could send them."""

import tarfile
from typing import NamedTuple

from hypothesis import strategies as st

PARTS = [
    "a",
    "b",
    "link",
    "..",
    ".",
    ".git",
    ".GIT",
    "config",
    "n" * 250,
    "\x1b[2J",
    "new\nline",
    "\udcff",
    "",
]
KINDS = [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]
KINDS += [tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE, b"Z"]


class Member(NamedTuple):
    """A member of an archive, whether it could be one or not."""

    name: str
    kind: bytes
    target: str
    content: bytes
    mode: int
    copies: int


class Archive(NamedTuple):
    """Members, with bytes that are changed after packing, and an end that may come early."""

    members: list[Member]
    changes: list[tuple[int, int]]
    end: int | None

    @property
    def content(self) -> bytes:
        packed = bytearray(b"".join(part for one in self.members for part in _packed(one)) + bytes(1024))
        for place, byte in self.changes:
            packed[place % len(packed)] = byte
        return bytes(packed[: self.end])


def _packed(one: Member) -> list[bytes]:
    info = tarfile.TarInfo(one.name or "x")
    info.type, info.linkname, info.mode, info.size = one.kind, one.target, one.mode, len(one.content)
    header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return [header, one.content, bytes(-len(one.content) % 512)] * one.copies


_paths = st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map("/".join)
_members = st.builds(
    Member,
    name=_paths,
    kind=st.one_of(st.just(tarfile.REGTYPE), st.sampled_from(KINDS)),
    target=_paths,
    content=st.one_of(st.just(b""), st.binary(max_size=600)),
    mode=st.sampled_from([0o644, 0o755, 0o6777, 0]),
    copies=st.sampled_from([1, 1, 1, 1, 2, 300]),
)
archives = st.builds(
    Archive,
    members=st.lists(_members, max_size=8),
    changes=st.one_of(
        st.just([]), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6)
    ),
    end=st.one_of(st.none(), st.none(), st.integers(0, 4096)),
)
