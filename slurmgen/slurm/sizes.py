"""Sizes as Slurm writes them: a number with K, M, G or T, which are powers of 1024; M if there is no unit."""

import re
from functools import lru_cache

from slurmgen.text import counted

_KIBIBYTES = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}
_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.ASCII | re.IGNORECASE)


@lru_cache(maxsize=1024)
def megabytes(text: str) -> int:
    """MiB of a Slurm size, rounded up.

    Raises:
        ValueError: the text is not a size.

    >>> megabytes("64G"), megabytes("500")
    (65536, 500)
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(text)
    return -(-int(match[1]) * _KIBIBYTES[match[2].upper()] // 1024)


@lru_cache(maxsize=1024)
def canonical(mebibytes: int) -> str:
    """A size as slurmgen writes it: in G if it is a whole number, else in M.

    >>> canonical(65536), canonical(500)
    ('64G', '500M')
    """
    gibibytes, rest = divmod(mebibytes, 1024)
    return f"{mebibytes}M" if rest or not gibibytes else f"{gibibytes}G"


def of_bytes(size: int) -> str:
    """A number of bytes in the same units, with at most one decimal, rounded up.

    >>> of_bytes(100 << 20), of_bytes((100 << 20) + 1), of_bytes(1536), of_bytes(317)
    ('100M', '100.1M', '1.5K', '317 bytes')
    """
    mebibytes, rest = divmod(size, 1 << 20)
    if mebibytes and not rest:
        return canonical(mebibytes)
    for unit, kibibytes in (("T", 1 << 30), ("G", 1 << 20), ("M", 1 << 10), ("K", 1)):
        if size >= kibibytes << 10:
            tenths = -(-size * 10 // (kibibytes << 10))
            return f"{tenths / 10:g}{unit}" if tenths % 10 == 0 else f"{tenths / 10:.1f}{unit}"
    return counted(size, "byte")
