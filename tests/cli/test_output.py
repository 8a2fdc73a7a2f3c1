"""No output of a command can control a terminal, or the CI service that shows it."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen.cli import COMMANDS
from slurmgen.lint.reports import FORMATS
from tests.conftest import Run

OSC, CSI, TURN = "\x1b]0;owned\x07", "\x9b31m", "\u202e"
NAME = f"a{OSC}{CSI}{TURN}\n::error::b ##[add-mask]c"
KEY = "".join(f"\\u{ord(c):04x}" for c in NAME)
"The name, in TOML."
CI_COMMAND = re.compile(r"^\s*::.*::|##\w*\[", re.MULTILINE)


CIFAR = 'site = "generic"\n[job.cifar]\n'


def control_sequences(text: str) -> list[str]:
    odd = [c for c in text if not c.isprintable() and c not in "\n\t"]
    return odd + CI_COMMAND.findall(text)


@pytest.fixture
def project(tmp_path: Path, slurmgen: Run) -> Path:
    """A project whose folder, files, keys, values and templates have hostile names."""
    folder = tmp_path / NAME.replace("/", "")
    folder.mkdir()
    (folder / "slurmgen.toml").write_text(CIFAR)
    slurmgen("render", "--all", "--write", cwd=folder)
    (folder / f"{NAME}.sbatch").write_text(
        f"#!/bin/bash\n#SBATCH --time={NAME}\nsrun python 'x\n ::error::y'\n"
    )
    (folder / f"{NAME}.py").write_text("pass\n")
    (folder / "slurm" / f"{NAME}.sbatch").write_text("#!/bin/bash\n# Made by: slurmgen\n")
    script = folder / "slurm" / "cifar.generic.sbatch"
    script.write_text(script.read_text().replace("set -", f"# {NAME}\n ::stop-commands::x\nset -", 1))
    return folder


EVERY = {
    "init": [["--site", NAME], []],
    "render": [
        ["cifar"],
        [NAME],
        ["--site", NAME],
        ["cifar", "--name", NAME],
        ["--all", "--write"],
        ["cifar", "-o", f"{NAME}.out"],
        ["cifar", "-o", f"{NAME}/{NAME}"],
        [f"--{NAME}"],
    ],
    "diagnose": [["hello.py"], ["nothing.out"]],
    "explain": [["cifar"], ["cifar", "--json"], ["cifar", "--account", NAME], ["cifar", "--script", NAME]],
    "submit": [
        ["cifar", "--dry-run"],
        ["cifar", "--dry-run", "--json"],
        [NAME, "--dry-run"],
        [f"{NAME}.sbatch", "--dry-run"],
    ],
    "where": [["cifar", "--site", NAME], [NAME], ["cifar", "--via", "local", "--account", NAME]],
    "resubmit": [[NAME], ["1", "--site", NAME], [NAME, "--time", NAME, "--dry-run"]],
    "status": [[NAME], ["--site", NAME], []],
    "logs": [[NAME], ["1", "--site", NAME], [NAME, "--stderr"]],
    "run": [[NAME], ["cifar", "--via", "twin", "--account", NAME]],
    "shell": [[NAME], ["1", "--site", NAME], [NAME, "--", NAME]],
    "ssh": [[NAME], ["1", "--site", NAME]],
    "path": [[NAME], ["1", "--site", NAME]],
    "port": [[NAME, "1"], ["1", NAME], ["1", "6006", "--site", NAME]],
    "top": [[NAME], ["--once"], ["1", "--site", NAME]],
    "wait": [[NAME]],
    "cancel": [[NAME], ["1", "--site", NAME]],
    "forget": [[NAME], [NAME, "--force"]],
    "fetch": [[NAME], ["1", "--to", NAME]],
    "results": [[NAME], ["1", "--site", NAME, "--metric", NAME]],
    "snapshots": [["--site", NAME]],
    "nodes": [["--site", NAME], ["--site", "daic", "--add", NAME, "--because", NAME], ["--clear", NAME]],
    "preflight": [["--dry-run", "--via", "local", "--account", NAME], ["--site", NAME]],
    "doctor": [["cifar", "--via", "local"], ["cifar", "--via", "local", "--json"], ["--site", NAME]],
    "lint": [
        *([f"{NAME}.sbatch", "--format", form] for form in FORMATS if form != "github"),
        [f"{NAME}.sbatch", "--diff"],
        [NAME],
        ["--select", NAME, f"{NAME}.sbatch"],
        ["--explain", NAME],
    ],
    "lsp": [[], ["--site", NAME]],
    "web": [["--host", NAME], ["--public", "--host", NAME]],
    "adopt": [[f"{NAME}.sbatch", "--dry-run"], [f"{NAME}.sbatch", "--json"], [NAME], ["--name", NAME, "x"]],
    "check": [[], ["--format", "json"], [NAME], ["--format", NAME]],
    "sites": [
        [],
        ["list"],
        ["show", NAME],
        ["show", "daic"],
        ["validate", f"{NAME}.py"],
        ["test", NAME],
        ["new", NAME],
    ],
    "twin": [["status", "--site", NAME], ["down", "--site", NAME], ["up", "--site", NAME], [NAME]],
}


def test_every_command_is_in_the_table() -> None:
    assert EVERY.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", EVERY)
def test_a_hostile_name_is_escaped(command: str, project: Path, slurmgen: Run) -> None:
    for args in EVERY[command]:
        result = slurmgen(command, *args, cwd=project, input="")
        assert result.returncode in (0, 1, 2, 3), (args, result.stderr)
        assert control_sequences(result.stdout) == [], args
        assert control_sequences(result.stderr) == [], args


@pytest.mark.parametrize("command", ["check", "lint"])
def test_annotations_are_the_only_ci_commands(command: str, project: Path, slurmgen: Run) -> None:
    args = [] if command == "check" else [f"{NAME}.sbatch"]
    result = slurmgen(command, *args, "--format", "github", cwd=project)
    own = [line for line in result.stdout.splitlines() if re.match("::(error|warning) file=", line)]
    rest = "\n".join(line for line in result.stdout.splitlines() if line not in own)
    assert own
    assert control_sequences(rest) == []
    assert all(line.isprintable() for line in own)


@pytest.mark.parametrize(
    "toml",
    [
        f'"{KEY}" = 1\n',
        f'[job.cifar]\n"{KEY}" = 1\n',
        f'[job."{KEY}"]\n',
        f'[job.cifar]\nsites = ["{KEY}"]\n',
        f'[job.cifar]\nscript = "{KEY}"\n',
        f'[job.cifar]\ntime = "{KEY}"\n',
        f'[job.cifar]\nenv = {{ "{KEY}" = "{KEY}" }}\n',
        f'script_dir = "{KEY}"\n[job.cifar]\n',
        f'[lint]\nselect = ["{KEY}"]\n',
    ],
)
def test_a_hostile_slurmgen_toml_is_escaped(toml: str, tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text(toml)
    (tmp_path / "x.sbatch").write_text("#!/bin/bash\n")
    for args in (
        ["check"],
        ["check", "--format", "github"],
        ["render", "cifar"],
        ["render", "--all", "--write"],
        ["submit", "cifar", "--dry-run"],
        ["explain", "cifar"],
        ["lint", "x.sbatch"],
    ):
        result = slurmgen(*args, cwd=tmp_path)
        assert result.returncode in (0, 1, 2), (args, result.stderr)
        lines = [line for line in result.stdout.splitlines() if not line.startswith("::error file=")]
        assert control_sequences("\n".join(lines)) == [], args
        assert control_sequences(result.stderr) == [], args


def test_a_hostile_profile_is_escaped(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "site_profiles").mkdir()
    profile = 'extends = "generic"\nname = "lab"\ntitle = "##[add-mask]a"\n[env.notes]\nA = "::error::b"\n'
    (tmp_path / "site_profiles" / "lab.toml").write_text(profile)
    (tmp_path / "slurmgen.toml").write_text("")
    (tmp_path / "site_profiles" / "refused.toml").write_text(
        f'extends = "generic"\nname = "refused"\ntitle = "{KEY}"\n'
    )
    for args in (
        ["list"],
        ["show", "lab"],
        ["show", "lab", "--json"],
        ["validate", "site_profiles/lab.toml", "site_profiles/refused.toml"],
    ):
        result = slurmgen("sites", *args, cwd=tmp_path)
        assert control_sequences(result.stdout + result.stderr) == [], args
    shown = slurmgen("sites", "show", "lab", "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["title"] == "##[add-mask]a"


@pytest.fixture
def template(tmp_path: Path, slurmgen: Run) -> Path:
    """A project whose template writes control characters into the script."""
    (tmp_path / "slurmgen.toml").write_text(CIFAR)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "step.j2").write_bytes(f"echo {OSC}\n".encode())
    return tmp_path


def test_render_prints_the_exact_script_to_a_pipe(template: Path, slurmgen: Run) -> None:
    assert f"echo {OSC}\n" in slurmgen("render", "cifar", cwd=template).stdout


@pytest.mark.parametrize("args", [["render", "cifar"], ["submit", "cifar", "--dry-run"]])
def test_a_script_on_a_terminal_is_escaped(template: Path, args: list[str]) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "slurmgen", *args]
    with subprocess.Popen(command, cwd=template, stdout=follower, stderr=subprocess.DEVNULL) as process:
        os.close(follower)
        shown = b""
        while chunk := _read(leader):
            shown += chunk
    os.close(leader)
    assert process.returncode == 0
    assert rb"echo \x1b]0;owned\x07" in shown
    assert b"\x1b" not in shown


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # the other end is closed
        return b""
