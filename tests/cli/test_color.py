"""Colours and widths of `lint`, `check` and `doctor` on a terminal and in a pipe."""

import re
from pathlib import Path

import pytest

from tests.cli.test_status import on_a_terminal
from tests.conftest import Run

RED, BOLD_RED, GREEN = "\x1b[31m", "\x1b[31m\x1b[1m", "\x1b[32m"
COMMANDS = {
    "lint": (["lint", "bad.sbatch"], f"{BOLD_RED}error SG110"),
    "lint --diff": (["lint", "--diff", "--unsafe-fixes", "bad.sbatch"], f"{GREEN}+#SBATCH --time=24:00:00"),
    "check": (["check"], f"{RED}out of date"),
    "doctor": (["doctor", "--via", "twin"], f"{RED}failed"),
}
SETTINGS = [
    ([], {}, True),
    (["--color", "never"], {}, False),
    ([], {"NO_COLOR": "1"}, False),
    ([], {"NO_COLOR": ""}, True),
    (["--color=always"], {"NO_COLOR": "1"}, True),
    ([], {"TERM": "dumb"}, False),
]
LONG = "#SBATCH --comment=" + "x" * 60 + " --time=24:00\n"


@pytest.fixture
def project(tmp_path: Path, slurmgen: Run) -> Path:
    """A project in which each command has something to report."""
    (tmp_path / "slurmgen.toml").write_text('[job.train]\nscript = "train.py"\ngpus = 1\n')
    (tmp_path / "train.py").write_text("")
    (tmp_path / "bad.sbatch").write_text("#!/bin/bash\n#SBATCH --time=24:00\nsrun hostname\n")
    assert slurmgen("render", "--all", "--write").returncode == 0
    (tmp_path / "slurmgen.toml").write_text('[job.train]\nscript = "train.py"\ngpus = 2\n')
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("more_args", "more", "is_colored"), SETTINGS)
def test_a_terminal_gets_colours_unless_they_are_refused(
    name: str, more_args: list[str], more: dict[str, str], is_colored: bool, project: Path
) -> None:
    args, colored = COMMANDS[name]
    out = on_a_terminal(*args, *more_args, folder=project, **more)
    assert re.sub(r"\x1b\[\d+m", "", colored) in re.sub(r"\x1b\[\d+m", "", out)
    assert (colored in out, "\x1b" in out) == (is_colored, is_colored)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_gets_colours_only_on_request(
    name: str, project: Path, slurmgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, colored = COMMANDS[name]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in slurmgen(*args).stdout
    assert colored in slurmgen(*args, "--color", "always").stdout


def test_each_line_of_a_diff_ends_its_colour(project: Path, slurmgen: Run) -> None:
    lines = slurmgen("check", "--color", "always").stdout.splitlines()
    colored = [line for line in lines if "\x1b" in line]
    assert len(colored) > 4
    assert [line for line in colored if "\x1b[0m" not in line or line.startswith("\x1b[0m")] == []


@pytest.mark.parametrize("format_name", ["json", "sarif", "github"])
def test_formats_for_programs_have_no_colours(format_name: str, project: Path, slurmgen: Run) -> None:
    result = slurmgen("lint", "bad.sbatch", "--format", format_name, "--color", "always")
    assert (result.returncode, "\x1b" in result.stdout) == (1, False)


def test_doctor_fits_the_terminal(project: Path) -> None:
    lines = on_a_terminal("doctor", "--via", "twin", folder=project).splitlines()
    assert max(len(re.sub(r"\x1b\[\d+m", "", line)) for line in lines) <= 80
    hint = next(line for line in lines if "slurmgen twin up" in line)
    assert hint.startswith(" " * 30)


def test_an_excerpt_fits_the_terminal_with_the_fault_in_view(project: Path) -> None:
    (project / "bad.sbatch").write_text("#!/bin/bash\n" + LONG)
    lines = on_a_terminal("lint", "bad.sbatch", "--color", "never", folder=project).splitlines()
    at = next(number for number, line in enumerate(lines) if "SG110" in line)
    excerpt, carets = lines[at + 1 : at + 3]
    assert len(excerpt) <= 80
    assert excerpt.startswith("    2 | ...")
    assert excerpt.index("24:00") == carets.index("^^^^^")
