import json
import tomllib

import pytest

from slurmgen.text import annotation, visible, visible_json, visible_strings


@pytest.mark.parametrize(
    "code", [0, 7, 9, 10, 27, 0x7F, 0x80, 0x9B, 0x9F, 0x2028, *range(0x202A, 0x202F), 0xDC80]
)
def test_characters_that_control_a_terminal_are_escaped(code: int) -> None:
    assert visible(f"a{chr(code)}b") == f"a{chr(code).encode('unicode_escape').decode()}b"


def test_every_control_of_direction_is_escaped() -> None:
    assert visible("".join(map(chr, range(0x2066, 0x206A)))) == r"\u2066\u2067\u2068\u2069"


def test_ordinary_text_stays() -> None:
    assert visible("naïve ☃ 日本 a\\b") == "naïve ☃ 日本 a\\b"


def test_characters_to_keep_are_kept() -> None:
    assert visible("a\n\tb\r", keep="\n\t") == "a\n\tb\\r"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error file=a::b", r"\x3a:error file=a::b"),
        (" \t::stop-commands::x", " \t\\x3a:stop-commands::x"),
        ("a\n::debug::x", "a\n\\x3a:debug::x"),
        ("a ##[add-mask]x ##vso[task.complete]", r"a \x23#[add-mask]x \x23#vso[task.complete]"),
    ],
)
def test_a_command_to_a_ci_service_is_escaped(text: str, shown: str) -> None:
    assert visible(text, keep="\n\t") == shown


@pytest.mark.parametrize("text", ["::1", "host ::1", "std::a::b", "## a [b]", "#[a]"])
def test_text_that_is_not_a_command_to_a_ci_service_stays(text: str) -> None:
    assert visible(text) == text


HOSTILE = ["\x1b]0;x\x07", "\x7f\x9b", "##[add-mask]x", "é\U000e0001\n"]


def test_visible_json_has_the_same_value() -> None:
    text = visible_json(HOSTILE)
    assert json.loads(text) == HOSTILE
    assert text.removesuffix("\n").isprintable()
    assert "##[" not in text


def test_visible_toml_has_the_same_value() -> None:
    text = visible_strings(f"a = {json.dumps(HOSTILE, ensure_ascii=False)}")
    assert tomllib.loads(text) == {"a": HOSTILE}
    assert text.isprintable()
    assert "##[" not in text


def test_no_character_ends_an_annotation_early() -> None:
    assert annotation("error", "a\r\n::b\x1b", file="a,b:c%.sh", line=1) == (
        "::error file=a%2Cb%3Ac%25.sh,line=1::a%0D%0A::b\\x1b\n"
    )
