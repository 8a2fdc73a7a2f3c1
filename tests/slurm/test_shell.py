import pytest

from slurmgen.slurm.shell import visible


@pytest.mark.parametrize(
    "code", [0, 7, 9, 10, 27, 0x7F, 0x80, 0x9B, 0x9F, 0x2028, *range(0x202A, 0x202F), 0xDC80]
)
def test_what_could_steer_a_terminal_is_escaped(code: int) -> None:
    assert visible(f"a{chr(code)}b") == f"a{chr(code).encode('unicode_escape').decode()}b"


def test_every_control_of_direction_is_escaped() -> None:
    assert visible("".join(map(chr, range(0x2066, 0x206A)))) == r"\u2066\u2067\u2068\u2069"


def test_ordinary_text_stays() -> None:
    assert visible("naïve ☃ 日本 a\\b") == "naïve ☃ 日本 a\\b"


def test_what_is_meant_is_kept() -> None:
    assert visible("a\n\tb\r", keep="\n\t") == "a\n\tb\\r"
