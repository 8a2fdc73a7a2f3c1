"""The console lines of the pages are commands of slurmgen, and the README shows what they print."""

import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext

import click
import pytest

from slurmgen.cli import cli
from tests.conftest import REPOSITORY, Run

from .pages import shown_output
from .running import python

DOCS = REPOSITORY / "docs"
README = (REPOSITORY / "README.md").read_text()
PAGES = [*DOCS.glob("guide/*.md"), *DOCS.glob("launchers/*.md")]
PAGES += [DOCS / f"{name}.md" for name in ("index", "first-job", "recipes", "run", "fix", "serve", "others")]


def commands() -> Iterator[str]:
    """The lines of console blocks that start slurmgen, and such code in tables."""
    for page in PAGES:
        text = page.read_text()
        found = [
            line for block in re.findall(r"```console\n(.*?)```", text, re.S) for line in block.splitlines()
        ]
        yield from (line[2:] for line in found if line.startswith("$ slurmgen "))
        yield from re.findall(r"`(slurmgen [^`]+)`", text)


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_a_command_and_its_options_exist(line: str) -> None:
    words = shlex.split(re.split(r" [<|&;] | </|&& ", line)[0].removesuffix(" &"), comments=True)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found, words[0]
        command, words = found, words[1:]
    # A name of a file, or an option without its value, may be part of a sentence.
    allowed = pytest.raises(click.UsageError, match=r"does not exist|requires an argument")
    with allowed if re.search(r"lint (FILE|job)|--mem$", line) else nullcontext():
        if words:
            command.make_context(line, words)


@pytest.mark.parametrize(
    ("page", "arguments"), [("parallelism", ["--parameters", "7e9", "--ranks", "8"]), ("sampler", [])]
)
def test_the_page_shows_what_the_script_prints(page: str, arguments: list[str]) -> None:
    command = " ".join([f"python examples/guide/{page}.py", *arguments])
    assert python(f"{page}.py", *arguments).out == shown_output(page, command)


def test_the_linter_prints_what_the_readme_shows(slurmgen: Run) -> None:
    (shown,) = re.findall(r"\$ slurmgen lint (\S+)\n(.*?)```", README, re.S)[:1]
    printed = slurmgen("lint", shown[0], cwd=REPOSITORY).stdout
    assert shown[1] in printed


def test_the_sidebar_is_short_and_the_guide_lists_each_of_its_pages() -> None:
    entries = re.findall(r"```{toctree}\n(.*?)```", (DOCS / "index.md").read_text(), re.S)
    assert len([line for block in entries for line in block.splitlines() if re.match(r"\w", line)]) <= 22
    listed = re.findall(r"^([a-z-]+)$", (DOCS / "guide" / "index.md").read_text(), re.M)
    assert sorted(listed) == sorted(path.stem for path in DOCS.glob("guide/*.md") if path.stem != "index")
