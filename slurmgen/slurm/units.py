"""Slurm's notations: times, sizes, node lists and log names."""

import re
from functools import lru_cache

from slurmgen.text import counted

_FORMS = re.compile(
    r"(?P<days>\d+)-(?P<h>\d+)(?::(?P<m>\d+)(?::(?P<s>\d+))?)?"
    r"|(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)"
    r"|(?P<only_minutes>\d+)(?::(?P<only_seconds>\d+))?",
    re.ASCII,
)

_NO_LIMIT = ("UNLIMITED", "INFINITE")


@lru_cache(maxsize=1024)
def seconds(text: str) -> int:
    """Seconds of a Slurm time limit.

    Raises:
        ValueError: the text has none of Slurm's forms.

    >>> seconds("24:00"), seconds("24:00:00"), seconds("1-0")
    (1440, 86400, 86400)
    """
    match = _FORMS.fullmatch(text)
    if not match:
        raise ValueError(text)
    part = {name: int(digits or 0) for name, digits in match.groupdict().items()}
    return (
        part["days"] * 86400
        + (part["h"] + part["hours"]) * 3600
        + (part["m"] + part["minutes"] + part["only_minutes"]) * 60
        + (part["s"] + part["seconds"] + part["only_seconds"])
    )


def time_limit(text: str | None) -> int | None:
    """Seconds of a limit; None for no limit, which Slurm writes as UNLIMITED or INFINITE.

    Raises:
        ValueError: the text is neither of these words and has none of Slurm's forms.

    >>> limit("infinite"), limit("30")
    (None, 1800)
    """
    return None if text is None or text.upper() in _NO_LIMIT else seconds(text)


@lru_cache(maxsize=1024)
def canonical_time(total: int) -> str:
    """A time limit as slurmgen writes it: `HH:MM:SS`, from a day on `D-HH:MM:SS`.

    >>> canonical(5400), canonical(7 * 86400)
    ('01:30:00', '7-00:00:00')
    """
    minutes, second = divmod(total, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock


_WHOLE_DAYS = re.compile("(24|48|72|96|120|144|168):00|(24|48|72|96|168)", re.ASCII)


def hours_as_minutes(text: str) -> str:
    """The hours that a time probably means, although Slurm reads it as minutes; empty for any other time.

    >>> hours_as_minutes("48"), hours_as_minutes("24:00"), hours_as_minutes("30")
    ('48', '24', '')
    """
    match = _WHOLE_DAYS.fullmatch(text)
    return str(match[1] or match[2]) if match else ""


LOG_PATTERN = re.compile(r"%(\d*)([xjJAa%])", re.ASCII)
"The patterns that need no more than a job's id and name, each with the width to which Slurm pads a number."


def is_of_task(output: str) -> bool:
    """Whether each task of an array has a log of its own.

    >>> is_of_task("%x-%A_%4a.out"), is_of_task("50%%a-%A.out")
    (True, False)
    """
    return any(match[2] == "a" for match in LOG_PATTERN.finditer(output))


_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_SPAN = r"[0-9]{1,18}(?:-[0-9]{1,18})?"
_RANGES = re.compile(rf"\[({_SPAN}(?:,{_SPAN})*)\]")
_MOST_RANGES = 4
"Brackets in one name: Slurm has no more dimensions, and each makes the search longer."


def node_list_contains(nodes: str, name: str) -> bool:
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


_KIBIBYTES = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}
_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.ASCII | re.IGNORECASE)


@lru_cache(maxsize=1024)
def kibibytes(text: str) -> int:
    """KiB of a Slurm size, which is in MiB without a unit.

    Raises:
        ValueError: the text is not a size.

    >>> kibibytes("10K"), kibibytes("1")
    (10, 1024)
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(text)
    return int(match[1]) * _KIBIBYTES[match[2].upper()]


def megabytes(text: str) -> int:
    """MiB of a Slurm size, rounded up.

    Raises:
        ValueError: the text is not a size.

    >>> megabytes("64G"), megabytes("500")
    (65536, 500)
    """
    return -(-kibibytes(text) // 1024)


LEAST_MEMORY = 100
"MiB; no job with GPUs runs in less, and Slurm reads a number without a unit as MiB."


@lru_cache(maxsize=1024)
def canonical_size(mebibytes: int) -> str:
    """A size as slurmgen writes it: in G if it is a whole number, else in M.

    >>> canonical(65536), canonical(500)
    ('64G', '500M')
    """
    gibibytes, rest = divmod(mebibytes, 1024)
    return f"{mebibytes}M" if rest or not gibibytes else f"{gibibytes}G"


def readable_size(size: int) -> str:
    """A number of bytes in the same units, with at most one decimal, rounded up.

    >>> of_bytes(100 << 20), of_bytes((100 << 20) + 1), of_bytes(1536), of_bytes(317)
    ('100M', '100.1M', '1.5K', '317 bytes')
    """
    mebibytes, rest = divmod(size, 1 << 20)
    if mebibytes and not rest:
        return canonical_size(mebibytes)
    for unit, kibibytes in (("T", 1 << 30), ("G", 1 << 20), ("M", 1 << 10), ("K", 1)):
        if size >= kibibytes << 10:
            tenths = -(-size * 10 // (kibibytes << 10))
            return f"{tenths / 10:g}{unit}" if tenths % 10 == 0 else f"{tenths / 10:.1f}{unit}"
    return counted(size, "byte")
