"""Sizes in Slurm's units."""

import pytest

from slurmgen.slurm.units import readable_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1K"),
        (1536, "1.5K"),
        (100 << 20, "100M"),
        ((100 << 20) + 1, "100.1M"),
        (2 << 30, "2G"),
        (1025 << 20, "1025M"),
        ((1 << 40) * 3 // 2 + 1, "1.6T"),
    ],
)
def test_bytes_are_written_in_slurms_units_rounded_up(size: int, text: str) -> None:
    assert readable_size(size) == text
