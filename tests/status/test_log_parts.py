"""A log in parts: whole lines, each with the byte after it, so that a reader can stop and go on anywhere."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurmgen.remote.local import LocalTransport
from slurmgen.status.logs import LONGEST, Lines, read_part

LOGS = st.lists(
    st.sampled_from([b"\n", b"a", b" 0: ", b"[rank1]: ", "é€😀".encode(), b"x" * LONGEST, b"\xff", b"\r"]),
    max_size=12,
).map(b"".join)


def cut(log: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(log) + 1) for place in places} | {len(log)})
    return [log[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(LOGS, st.lists(st.integers(0, 200_000), max_size=5))
def test_how_a_log_arrives_does_not_change_its_lines(log: bytes, places: list[int]) -> None:
    whole, parted = Lines(), Lines()
    expected = whole(log)
    assert [line for part in cut(log, places) for line in parted(part)] == expected
    assert (parted.offset, parted.unfinished) == (whole.offset, whole.unfinished)
    assert b"".join(expected) + whole.unfinished == log.replace(b"\n", b"")


@given(LOGS, st.integers(0, 200_000))
def test_a_reader_that_goes_on_at_the_last_line_loses_and_repeats_nothing(log: bytes, place: int) -> None:
    first = Lines()
    lines = first(log[: place % (len(log) + 1)])
    second = Lines(first.offset)
    assert [*lines, *second(log[second.reached :])] == Lines()(log)


@given(st.text(alphabet="aé€😀", min_size=1, max_size=9).map(lambda text: text * LONGEST))
def test_a_long_line_is_not_cut_within_a_character(text: str) -> None:
    for piece in Lines()(f"{text}\n".encode()):
        assert len(piece) <= LONGEST
        piece.decode()


def test_the_rest_of_a_long_line_is_of_the_rank_of_its_beginning() -> None:
    lines = Lines(rank=1)
    found = lines(b"[rank0]: a\n[rank1]: " + b"x" * 2 * LONGEST + b"\n[rank10]: b\n")
    assert b"".join(found) == b"[rank1]: " + b"x" * 2 * LONGEST
    assert (lines.unfinished, lines(b"[rank1]: c"), lines.unfinished) == (b"", [], b"[rank1]: c")


def test_a_part_has_at_most_so_many_bytes_and_the_size_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "a b.out"
    with LocalTransport({}) as transport:
        assert read_part(transport, str(log), 0).size is None
        log.write_bytes(b"0123456789")
        part = read_part(transport, str(log), 3, 4)
        assert (part.content, part.size) == (b"3456", 10)
        assert read_part(transport, str(log), 10).content == b""
