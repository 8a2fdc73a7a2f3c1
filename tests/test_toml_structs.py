"""TOML files: the line of a key, and input that is rejected quickly."""

import os
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.config.project import Project, load_project
from slurmgen.errors import ConfigError
from slurmgen.sites.model import Site
from slurmgen.toml import convert, line_of, read_toml

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
def test_the_line_of_a_key_is_found_in_any_syntax(forms: list[str]) -> None:
    """Each statement defines a key; comments and strings contain the key of the next one."""
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
def test_a_missing_key_has_no_line(text: str) -> None:
    assert line_of(text, ["a", "b"]) is None


def refused(text: str, path: Path) -> str:
    """The error for a slurmgen.toml; checks that it takes little time."""
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(ConfigError) as error:
        load_project(path)
    assert time.process_time() - start < 5
    assert len(str(error.value)) < 1000
    return str(error.value)


MEGABYTE = 999_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("site = 'x'\na = [\n" + "1,\n" * (MEGABYTE // 3) + "]", ":2: unknown key a."),
        ("\n" * MEGABYTE + "a = 1", f":{MEGABYTE + 1}: unknown key a."),
        ("[defaults.env]\n" + "".join(f"a{n} = '1'\n" for n in range(70_000)) + "z = 1", ":70002: defaults"),
        ("".join(f"[job.a{n}]\n" for n in range(70_000)) + "[job.b]\nx = 1", ":70002: unknown key job.b.x."),
        (".".join("a" * (MEGABYTE // 2)) + " = 1", "a key has more than 16 parts"),
        ("[" + ".".join("a" * 5000) + "]\n" + "a = 1\n" * 50_000, "a key has more than 16 parts"),
        ("a = { " + ".".join(["'b,'"] * 100_000) + " = 1 }", "a key has more than 16 parts"),
        ("a = " + "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("a = { " * 100_000, "nested too deeply"),
        ('"' + "a" * MEGABYTE + '" = 1', ":1: unknown key aaa"),
    ],
    ids=lambda text: text[:20],
)
def test_any_megabyte_of_toml_is_rejected_within_seconds(text: str, message: str, tmp_path: Path) -> None:
    assert message in refused(text, tmp_path / "slurmgen.toml")


@pytest.mark.parametrize("number", ["1" * 5000, "1" * 100, "0x" + "f" * 5000, "-" + "9" * 19])
def test_a_number_of_more_than_64_bits_is_rejected(number: str, tmp_path: Path) -> None:
    assert "more than 64 bits" in refused(f"[defaults]\ngpus = {number}", tmp_path / "slurmgen.toml")


@pytest.mark.parametrize("key", ["x` - at `$.nope", "x` - at `$.job[...].gpus", "x` - at `key` in `$.job"])
def test_a_key_that_looks_like_a_location_is_an_error(key: str, tmp_path: Path) -> None:
    assert "x`" in refused(f"'{key}' = 1", tmp_path / "slurmgen.toml").replace("unknown key x", "x`")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_only_regular_files_are_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "slurmgen.toml"
    make(path)
    with pytest.raises(ConfigError, match=r"slurmgen\.toml cannot be read: it is not a regular file"):
        load_project(path)


def test_a_file_over_a_megabyte_is_not_read(tmp_path: Path) -> None:
    assert "it is larger than 1,000,000 bytes" in refused("#" * 1_000_001, tmp_path / "slurmgen.toml")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('[job."x\\n"]', Project),
        ('sites = ["daic\\n"]', Project),
        ('[job.x.site."daic\\n"]', Project),
        ('[defaults]\nenv = { "A\\n" = "1" }', Project),
        ('name = "x\\n"', Site),
        ('name = "x"\nextends = "y\\n"', Site),
        ('name = "x"\n[partitions."p\\n"]', Site),
        ('name = "x"\n[env.always]\n"A\\n" = "1"', Site),
        ('name = "x"\n[container]\nmulti_node_library_path = ["/x\\n"]', Site),
    ],
)
def test_names_must_not_end_in_a_newline(text: str, kind: type, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(text.replace("\\n", ""))
    convert(read_toml(tmp_path / "x.toml"), kind, tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError, match="is not"):
        convert(read_toml(tmp_path / "x.toml"), kind, tmp_path / "x.toml")
