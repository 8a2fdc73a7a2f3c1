"""Lists of nodes as Slurm writes them, such as `gpu[07-10,12],login1`.

Nothing is expanded, because a list may be huge.
"""

import re

_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_SPAN = r"[0-9]{1,18}(?:-[0-9]{1,18})?"
_RANGES = re.compile(rf"\[({_SPAN}(?:,{_SPAN})*)\]")
_MOST_RANGES = 4
"Brackets in one name: Slurm has no more dimensions, and each makes the search longer."


def contains(nodes: str, name: str) -> bool:
    """Whether a node is in a list.

    >>> contains("gpu[07-10,12],login1", "gpu09"), contains("gpu[07-10]", "gpu9")
    (True, False)
    """
    return any(_matches(part, name) for part in _PART.findall(nodes))


def _matches(part: str, name: str) -> bool:
    pieces = _RANGES.split(part)
    ranges = pieces[1::2]
    if len(ranges) > _MOST_RANGES:
        return False
    match = re.fullmatch("([0-9]+)".join(map(re.escape, pieces[::2])), name)
    return match is not None and all(map(_is_within, match.groups(), ranges))


def _is_within(number: str, ranges: str) -> bool:
    spans = [span.partition("-") for span in ranges.split(",")]
    return any(
        int(low) <= int(number) <= int(high or low) and number == str(int(number)).zfill(len(low))
        for low, _, high in spans
    )
