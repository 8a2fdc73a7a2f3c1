"""Slurm's time limits.

sbatch(1), --time, accepts these forms: minutes, minutes:seconds, hours:minutes:seconds,
days-hours, days-hours:minutes and days-hours:minutes:seconds.
"""

import re
from functools import lru_cache

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


def limit(text: str | None) -> int | None:
    """Seconds of a limit; None for no limit, which Slurm writes as UNLIMITED or INFINITE.

    Raises:
        ValueError: the text is neither of these words and has none of Slurm's forms.

    >>> limit("infinite"), limit("30")
    (None, 1800)
    """
    return None if text is None or text.upper() in _NO_LIMIT else seconds(text)


@lru_cache(maxsize=1024)
def canonical(total: int) -> str:
    """A time limit as slurmgen writes it: `HH:MM:SS`, from a day on `D-HH:MM:SS`.

    >>> canonical(5400), canonical(7 * 86400)
    ('01:30:00', '7-00:00:00')
    """
    minutes, second = divmod(total, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock
