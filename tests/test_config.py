"""The line of a key in a TOML file."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.toml_lines import line_of

PLAIN = [
    "{key} = 1",
    "'{key}' = [\n  1, # {other} = 2\n\n  2,\n]",
    '"{key}" = """\n[t]\n{other} = 2\n"""',
    "{key} = {{ a = 1, b = {{ c = 2 }} }}",
    "{key} . x.y = 1",
    "{key} = 1 # {other} = 2",
]
NOISE = ["", "# {other} = 1", "   "]
statements = st.lists(st.sampled_from([*PLAIN, *NOISE, "[{key}]", "[ {key} . x ]"]), max_size=12)


@given(statements)
def test_the_line_is_that_of_the_statement_in_any_form(forms: list[str]) -> None:
    """Each statement makes a key of its own; comments and strings name that of the next."""
    lines: list[str] = []
    table: list[str] = []
    made: dict[tuple[str, ...], int] = {}
    for number, form in enumerate(forms):
        key = f"k{number}"
        if form.startswith("["):
            table = [key, "x"] if "." in form else [key]
            made[(key,)] = len(lines) + 1
        elif form in PLAIN:
            made[(*table, key)] = len(lines) + 1
        lines += form.format(key=key, other=f"k{number + 1}").split("\n")
    text = "\n".join(lines)
    tomllib.loads(text)
    assert {keys: line_of(text, keys) for keys in made} == made


@pytest.mark.parametrize("text", ["", "a = 1", "[a]\nc = 1", "a = 'b'", "a = ['b']"])
def test_a_key_that_is_not_there_has_no_line(text: str) -> None:
    assert line_of(text, ["a", "b"]) is None
