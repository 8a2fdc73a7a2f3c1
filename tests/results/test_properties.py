"""Any archive, into any folder: nothing outside the folder changes, and no link that is placed leads out."""

import stat
import tarfile
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from slurmgen.errors import SlurmgenError
from tests.support.archives import Fields, archive, contents, fetched, outside_links

PARTS = ["a", "b", "c", "A", "l", ".", "..", "", "é", "\udcff", "x" * 240, "n" * 256, ".git", ".GIT", "HEAD"]
COMMON = ["a", "b", "l", ".."]


def paths() -> st.SearchStrategy[str]:
    part = st.sampled_from(COMMON) | st.sampled_from(PARTS)
    relative = st.lists(part, min_size=1, max_size=6).map("/".join)
    return relative | relative.map("/{}".format) | st.just("../outside") | st.text(max_size=3)


KINDS = (
    *(tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE) * 3,
    *(tarfile.AREGTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z"),
)


def fields() -> st.SearchStrategy[Fields]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(KINDS), "linkname": paths()},
        optional={
            "mode": st.integers(0, 0o7777),
            "mtime": st.integers(-(1 << 40), 1 << 40) | st.floats(allow_nan=True),
        },
    )


MEMBERS = st.lists(st.tuples(paths(), fields() | st.just({})), max_size=12)
FORMATS = st.sampled_from([tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])


def packed(members: list[tuple[str, Fields]], form: int) -> bytes:
    """An archive of those members that tarfile can write in this format."""
    writable = []
    for member in members:
        try:
            archive(member, form=form)
        except (ValueError, UnicodeError, OverflowError, tarfile.TarError):
            continue
        writable.append(member)
    return archive(*writable, form=form)


def prepared(parent: Path) -> Path:
    """A folder of the user, with files and links, beside one that must not change."""
    to = parent / "to"
    (to / "a/b").mkdir(parents=True)
    (to / "a/mine").write_text("mine")
    (to / "l").symlink_to("..")
    (to / "inside").symlink_to("a/b")
    (to / "c").symlink_to("../outside")
    (parent / "outside/a").mkdir(parents=True)
    (parent / "outside/a/b").write_text("outside")
    return to


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MEMBERS, MEMBERS, FORMATS, st.booleans(), st.booleans())
def test_any_archives_stay_in_their_folder(
    one: list[tuple[str, Fields]], two: list[tuple[str, Fields]], form: int, is_new: bool, overwrite: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        parent = Path(name).resolve()
        to = prepared(parent)
        if is_new:
            to = parent / "new/to"
            to.mkdir(parents=True)
        before, own = contents(parent, without=to), set(outside_links(to))
        for members in (one, two):
            _fetch(packed(members, form), to, overwrite=overwrite)
            assert contents(parent, without=to) == before
            assert set(outside_links(to)) <= own
            assert not [path for path in to.rglob("*") if _is_dangerous(path)]
            assert not [path for path in to.iterdir() if path.name.startswith(".slurmgen")]


@settings(max_examples=200, deadline=None)
@given(MEMBERS, FORMATS, st.data())
def test_any_bytes_are_fetched_or_are_an_error(
    members: list[tuple[str, Fields]], form: int, data: st.DataObject
) -> None:
    whole = bytearray(packed([("a", {}), *members], form))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        new = data.draw(st.binary(min_size=1, max_size=3))
        whole[at : at + data.draw(st.sampled_from([len(new)] * 9 + [0, 512]))] = new
    with tempfile.TemporaryDirectory() as name:
        parent = Path(name).resolve()
        to = prepared(parent)
        before, own, mine = contents(parent, without=to), set(outside_links(to)), contents(to)
        if not _fetch(_summed(bytes(whole)), to, overwrite=False):
            assert contents(to) == mine
        assert contents(parent, without=to) == before
        assert set(outside_links(to)) <= own
        assert mine.items() <= contents(to).items()


def _is_dangerous(path: Path) -> bool:
    mode = path.lstat().st_mode
    return (
        path.name.casefold() == ".git"
        or (path.name.casefold() == "head" and not stat.S_ISDIR(mode))
        or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode))
        or (stat.S_ISREG(mode) and bool(mode & 0o7022))
    )


def _fetch(data: bytes, to: Path, *, overwrite: bool) -> bool:
    try:
        result = fetched(data, to, overwrite=overwrite, max_size=1 << 20)
    except SlurmgenError as error:
        event(f"{type(error).__name__}: {error.fact.rpartition(': ')[2][:30]}")
        return False
    event(f"placed: {bool(result.new)}, refused: {bool(result.refused)}")
    return True


def _summed(data: bytes) -> bytes:
    """The same blocks, each that looks like a header with a correct checksum."""
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    return b"".join(_with_checksum(block) if block[257:262] == b"ustar" else block for block in blocks)


def _with_checksum(block: bytes) -> bytes:
    total = sum(block[:148]) + sum(b" " * 8) + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]
