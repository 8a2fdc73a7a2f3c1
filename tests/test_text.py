import json
import tomllib

import pytest

from slurmgen.text import annotation, visible, visible_json, visible_strings


@pytest.mark.parametrize(
    "code", [0, 7, 9, 10, 27, 0x7F, 0x80, 0x9B, 0x9F, 0x2028, *range(0x202A, 0x202F), 0xDC80]
)
def test_terminal_control_sequences_are_escaped(code: int) -> None:
    assert visible(f"a{chr(code)}b") == f"a{chr(code).encode('unicode_escape').decode()}b"


def test_bidirectional_controls_are_escaped() -> None:
    assert visible("".join(map(chr, range(0x2066, 0x206A)))) == r"\u2066\u2067\u2068\u2069"


def test_ordinary_text_is_unchanged() -> None:
    assert visible("naïve ☃ 日本 a\\b") == "naïve ☃ 日本 a\\b"


def test_allowed_controls_are_kept() -> None:
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
def test_other_text_for_a_ci_service_is_unchanged(text: str) -> None:
    assert visible(text) == text


HOSTILE = ["\x1b]0;x\x07", "\x7f\x9b", "##[add-mask]x", "é\U000e0001\n"]


def test_json_escapes_invisible_characters_without_loss() -> None:
    text = visible_json(HOSTILE)
    assert json.loads(text) == HOSTILE
    assert text.removesuffix("\n").isprintable()
    assert "##[" not in text


def test_toml_escapes_invisible_characters_without_loss() -> None:
    text = visible_strings(f"a = {json.dumps(HOSTILE, ensure_ascii=False)}")
    assert tomllib.loads(text) == {"a": HOSTILE}
    assert text.isprintable()
    assert "##[" not in text


def test_annotation_values_are_escaped() -> None:
    assert annotation("error", "a\r\n::b\x1b", file="a,b:c%.sh", line=1) == (
        "::error file=a%2Cb%3Ac%25.sh,line=1::a%0D%0A::b\\x1b\n"
    )
