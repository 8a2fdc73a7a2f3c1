"""Sparse files in a tar archive: which parts of a file are stored, in the formats gnu and pax."""

import re
import tarfile
from collections.abc import Iterator, Sequence

from slurmgen.jobs.results.byte_stream import BadArchive, ByteStream

MAX_LIST = 1 << 20
"Bytes of the list of parts."

Extents = tuple[tuple[int, int], ...]
"The parts of a file that are stored: offset and size of each."

_DECIMAL = re.compile(rb"\d{1,19}")
_OCTAL = re.compile(rb" *([0-7]{1,12})[ \0]*")
_FIELD = 12
"Bytes of a number in a header; a part has two."


def decimal(text: bytes) -> int:
    """A number of a pax header.

    Raises:
        BadArchive: it is not a number, or larger than a file can be.
    """
    if not _DECIMAL.fullmatch(text):
        raise BadArchive(f"{text[:40]!r} is not a size")
    return int(text)


def gnu(header: bytes, stream: ByteStream, stored: int) -> tuple[int, Extents]:
    """Size and parts of a file whose parts are listed in the header and in blocks behind it.

    Raises:
        BadArchive: the list is malformed, or does not add up to the bytes that are stored.
    """
    size, parts = _number(header[483:495]), [*_parts(header[386:482])]
    more, length = header[482], 0
    while more:
        length = _longer(length)
        block = stream.read(tarfile.BLOCKSIZE)
        parts += _parts(block[:504])
        more = block[504]
    return size, _checked(parts, size, stored)


def pax(size: int, stream: ByteStream, stored: int) -> Extents:
    """The parts of a file whose content begins with their list, one number a line (GNU.sparse 1.0).

    Raises:
        BadArchive: the list is malformed, or does not add up to the bytes that are stored.
    """
    lines: list[bytes] = []
    rest, length, wanted = b"", 0, 1
    while len(lines) < wanted:
        length = _longer(length)
        *whole, rest = (rest + stream.read(tarfile.BLOCKSIZE)).split(b"\n")
        lines += whole
        wanted = 1 + 2 * decimal(lines[0]) if lines else 1
    numbers = [decimal(line) for line in lines[1:wanted]]
    return _checked([*zip(numbers[::2], numbers[1::2], strict=True)], size, stored - length)


def _longer(length: int) -> int:
    if length + tarfile.BLOCKSIZE > MAX_LIST:
        raise BadArchive("a sparse file has too many parts")
    return length + tarfile.BLOCKSIZE


def _parts(fields: bytes) -> Iterator[tuple[int, int]]:
    for at in range(0, len(fields), 2 * _FIELD):
        offset, size = fields[at : at + _FIELD], fields[at + _FIELD : at + 2 * _FIELD]
        if not size[0]:
            return
        yield _number(offset), _number(size)


def _number(field: bytes) -> int:
    """A number of a header: octal digits, or binary after a byte 0x80."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if not (digits := _OCTAL.fullmatch(field)):
        raise BadArchive("a number of a sparse file is malformed")
    return int(digits[1], 8)


def _checked(parts: Sequence[tuple[int, int]], size: int, stored: int) -> Extents:
    ends = [0, *(offset + length for offset, length in parts)]
    is_ordered = all(end <= offset for end, (offset, _) in zip(ends[:-1], parts, strict=True))
    if not is_ordered or ends[-1] > size or sum(length for _, length in parts) != stored:
        raise BadArchive("the parts of a sparse file do not fit together")
    return tuple(parts)
