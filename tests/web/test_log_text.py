"""Lines of a log as a browser shows them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from slurmgen.web.jobs.log import runs


def test_colours_are_names_of_classes() -> None:
    assert runs(b"\x1b[1;31mE\x1b[22m1\x1b[0m ok\x1b[92m!") == [
        ("E", "bold c1"),
        ("1", "c1"),
        (" ok", ""),
        ("!", "c2"),
    ]
    assert runs(b"\x1b[38;5;1mmany\x1b[mplain") == [("many", ""), ("plain", "")]


def test_a_progress_bar_shows_what_a_terminal_would() -> None:
    assert runs(b"10 %\r\x1b[K 50 %\r") == [(" 50 %", "")]
    assert runs(b"windows\r") == [("windows", "")]


@given(st.binary(max_size=100) | st.text(max_size=60).map(lambda text: text.encode(errors="surrogatepass")))
def test_every_line_is_printable_text_with_known_classes(line: bytes) -> None:
    for text, style in runs(line):
        assert text.replace("\t", "").isprintable()
        assert re.fullmatch(r"(bold)? ?(c[0-7])?", style)
