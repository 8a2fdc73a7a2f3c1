"""`--help`: groups of options, examples that work, and 80 columns."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from slurmgen.cli import COMMANDS, cli
from slurmgen.cli.output import GROUPS, grouped
from tests.conftest import Run

OFFLINE = {"init", "render", "explain", "check", "lint", "sites"}
"Commands whose examples can run anywhere."


def commands(
    group: click.Group = cli, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    """The context of every command, by its path."""
    ctx = click.Context(group, parent, "slurmgen" if parent is None else group.name)
    yield ctx.command_path, ctx
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command
        if isinstance(command, click.Group):
            yield from commands(command, ctx)
        else:
            child = click.Context(command, ctx, name)
            yield child.command_path, child


ALL = dict(commands())
EXAMPLES = [example for ctx in ALL.values() for example in getattr(ctx.command, "examples", ())]


def options(ctx: click.Context) -> list[click.Option]:
    return [param for param in ctx.command.get_params(ctx) if isinstance(param, click.Option)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurmgen: Run) -> Path:
    """A project with every file that an example names."""
    (tmp_path / "slurmgen.toml").write_text(
        'site = "daic"\n[defaults]\naccount = "ewi-insy-prb"\n[job.train]\nscript = "train.py"\n'
    )
    (tmp_path / "train.py").write_text("")
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles" / "mine.toml").write_text(
        'extends = "generic"\nname = "mine"\ntitle = "mine"\n'
    )
    (tmp_path / "job.sbatch").write_text(
        "#!/bin/bash\n#SBATCH --time=01:00:00\n#SBATCH --account=ewi-insy-prb\nsrun hostname\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expanded(example: str, folder: Path) -> list[str]:
    """The words of a command line, as a shell expands them in a folder."""
    words = []
    for word in shlex.split(example):
        files = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
        words += files or [word]
    return words


@pytest.mark.parametrize("path", ALL)
def test_help_fits_80_columns(path: str, slurmgen: Run) -> None:
    result = slurmgen(*path.split()[1:], "--help", env={**os.environ, "COLUMNS": "80"})
    assert result.returncode == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert not re.search(r"^  \S.*\S {3,}\S", result.stdout.partition("Options:")[0], re.MULTILINE)


@pytest.mark.parametrize("path", ALL)
def test_every_option_is_shown_once_with_a_description(path: str) -> None:
    rows = [row for group in grouped(ALL[path].command, ALL[path]).values() for row in group]
    assert all(text for _, text in rows)
    assert sorted(rows) == sorted(
        record for option in options(ALL[path]) if (record := option.get_help_record(ALL[path]))
    )


def test_every_name_in_the_table_of_groups_is_an_option() -> None:
    known = {option.name for ctx in ALL.values() for option in options(ctx)}
    assert {name for names in GROUPS.values() for name in names.split()} <= known


@pytest.mark.parametrize("name", ["submit", "render", "run", "resubmit", "where", "doctor", "explain"])
def test_the_first_page_has_examples_and_the_options_of_a_first_day(name: str, slurmgen: Run) -> None:
    first, whole = slurmgen(name, "--help").stdout, slurmgen(name, "--help-all").stdout
    assert first.index("Examples:") < first.index("--gpus N")
    assert len(re.findall(r"^  -", first, re.MULTILINE)) <= 19
    assert "--rendezvous" not in first
    assert f"slurmgen {name} --help-all` shows all options" in first
    shown = {word for word in whole.split() if word.startswith("--")}
    assert all(option.opts[-1] in whole for option in options(ALL[f"slurmgen {name}"]))
    assert {word for word in first.split() if word.startswith("--")} <= shown | {"--help-all`"}


def test_options_are_in_groups_after_those_of_the_command(slurmgen: Run) -> None:
    headings = [
        line
        for line in slurmgen("submit", "--help-all").stdout.splitlines()
        if line[:1].strip() and line[-1:] == ":"
    ]
    assert headings == [
        "Options:",
        "Job:",
        "Resources:",
        "Software:",
        "Site and connection:",
        "Files:",
        "Examples:",
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_of_itself(name: str) -> None:
    examples = getattr(ALL[f"slurmgen {name}"].command, "examples", {})
    assert any(shlex.split(example)[1] == name for example in examples)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_a_valid_command_line(example: str, project: Path, slurmgen: Run) -> None:
    slurmgen("render", "--all", "--write")
    program, *words = expanded(example, project)
    ctx, command = click.Context(cli), cli
    while isinstance(command, click.Group) and words:
        ctx = click.Context(command, ctx)
        _, command, words = command.resolve_command(ctx, words)
    assert program == "slurmgen"
    assert command.make_context("", words, parent=ctx)


ANSWERS = "\n\n\n\n4\n"
"To the questions of `sites new`: nothing is known but the GPUs of a node."


@pytest.mark.parametrize(
    "example", [line for line in EXAMPLES if shlex.split(line)[1] in OFFLINE and "discover" not in line]
)
def test_an_example_works(example: str, project: Path, slurmgen: Run) -> None:
    slurmgen("render", "--all", "--write")
    words = expanded(example, project)
    if words[1] == "init":
        (project / "slurmgen.toml").unlink()
    result = slurmgen(*words[1:], input="" if "--gpus-per-node" in words else ANSWERS)
    assert (result.returncode, result.stderr.startswith("error")) == (0, False), result.stderr
