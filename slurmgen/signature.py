"""Provenance: a script in a file ends with a hash of its text, so that an edit by hand is detected."""

import re
from hashlib import sha256

_MARK = b"# slurmgen: sha256:"
_SIGNED = re.compile(rb"(?s)(.*\n)" + _MARK + rb"([0-9a-f]{64})\n")


def signed(text: str) -> bytes:
    """The script as written to a file: with its hash on the last line."""
    body = (text if text.endswith("\n") else f"{text}\n").encode()
    return body + _MARK + _hash(body) + b"\n"


def as_written(data: bytes) -> bool:
    """Whether a file is unchanged since `signed` made it."""
    match = _SIGNED.fullmatch(data)
    return match is not None and match[2] == _hash(match[1])


def has_mark(data: bytes) -> bool:
    """Whether a file comes from `signed`, edited or not."""
    return _MARK in data


def unsigned(text: str) -> str:
    """The text of a script without the last line that `signed` added, if it has one."""
    body, mark, end = text.rpartition(_MARK.decode())
    return body if mark and end.count("\n") <= 1 else text


def _hash(body: bytes) -> bytes:
    return sha256(body).hexdigest().encode()
