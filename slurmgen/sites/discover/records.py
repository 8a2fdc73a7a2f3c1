"""Readers of Slurm's own output formats."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=")
_DIGITS = 9
_FREE_TEXT = frozenset(("Reason", "Comment", "Extra"))
_ABSENT = frozenset(("", "(null)", "N/A", "NONE", "UNLIMITED", "INFINITE"))


class Gres(NamedTuple):
    """GPUs of one type on a node; the type is empty where they have none."""

    type: str
    number: int


def records(text: str) -> Iterator[dict[str, str]]:
    """The lines of `scontrol --oneliner`, each as its keys and values. A value may contain blanks."""
    for line in text.splitlines():
        marks = _marks(line)
        ends = [mark.start() for mark in marks[1:]] + [len(line)]
        if marks:
            pairs = [(mark[1], line[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=True)]
            yield dict(reversed(pairs))


def _marks(line: str) -> list[re.Match[str]]:
    """The keys of a line, up to the first with free text, which may look like further keys."""
    found = list(_PAIR.finditer(line))
    end = next((index for index, mark in enumerate(found) if mark[1] in _FREE_TEXT), len(found))
    return found[: end + 1]


def settings(text: str) -> dict[str, str]:
    """The lines `Key = value` of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def number(text: str | None) -> int | None:
    """A whole number; None if the text is not one, or is absurdly long."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def known(value: str | None) -> str | None:
    """A value that Slurm sets; None for its words for no value or no limit."""
    return None if value is None or value.strip() in _ABSENT else value.strip()


def gpus(gres: str | None) -> tuple[Gres, ...]:
    """The GPUs in a node's list of generic resources.

    >>> gpus("gpu:h100:4(S:0-1),nvme:1"), gpus("gpu:4")
    ((Gres(type='h100', number=4),), (Gres(type='', number=4),))
    >>> gpus("gpu:a100_1g.5gb:7,gpu:a100:2")
    (Gres(type='a100_1g.5gb', number=7), Gres(type='a100', number=2))
    """
    found = []
    for entry in re.sub(r"\([^)]*\)", "", gres or "").split(","):
        name, *rest = entry.split(":")
        if name == "gpu":
            count = number(rest[-1]) if rest else None
            kind = next((word for word in rest if not word.isdigit() and word != "no_consume"), "")
            found.append(Gres(kind, 1 if count is None else count))
    return tuple(found)


def tres(text: str) -> dict[str, int]:
    """The whole numbers in a list of trackable resources.

    >>> tres("cpu=128,gres/gpu=8,mem=4G,node=2")
    {'cpu': 128, 'gres/gpu': 8, 'node': 2}
    """
    pairs = (entry.partition("=") for entry in text.split(","))
    return {name: count for name, _, value in pairs if (count := number(value)) is not None}
