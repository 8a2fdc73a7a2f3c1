"""Slurm's memory sizes: a whole number with K, M, G or T, powers of 1024; without one, M."""

import re
from functools import lru_cache

_KIBIBYTES = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}
_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.ASCII | re.IGNORECASE)


@lru_cache(maxsize=1024)
def megabytes(text: str) -> int:
    """MiB of a Slurm size, rounded up.

    Raises:
        ValueError: the text is no such size.

    >>> megabytes("64G"), megabytes("500")
    (65536, 500)
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(text)
    return -(-int(match[1]) * _KIBIBYTES[match[2].upper()] // 1024)


@lru_cache(maxsize=1024)
def canonical(mebibytes: int) -> str:
    """The shortest way to write a size: `64G` where it is whole, else `M`.

    >>> canonical(65536), canonical(500)
    ('64G', '500M')
    """
    gibibytes, rest = divmod(mebibytes, 1024)
    return f"{mebibytes}M" if rest or not gibibytes else f"{gibibytes}G"
