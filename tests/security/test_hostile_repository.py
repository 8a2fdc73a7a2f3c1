"""No command, run in a repository made by an attacker, does what the attacker wants.

Each runs under strace. It may start, change and connect to what `commands.py` grants it, and nothing else.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

from slurmgen.cli import cli
from tests.security.commands import CASES, COMPLETED, FROM_BELOW, Case, case
from tests.security.conftest import folders
from tests.security.ground import Ground
from tests.security.lurking import LURKING
from tests.security.place import SLURMGEN, Place, problems
from tests.support.twins import Testbed, twin

ANOTHER_USER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Testbed, str]]:
    """A twin, and the id of a job that has ended there and made a file and a folder."""
    with twin("generic", nodes=1) as testbed:
        project = testbed.folder / "harmless"
        project.mkdir()
        (project / "train.py").write_text(
            "import pathlib\n"
            "pathlib.Path('made.txt').write_text('x')\n"
            "pathlib.Path('folder').mkdir()\n"
            "pathlib.Path('folder/made.txt').write_text('x')\n"
        )
        (project / "tune.py").write_text(
            "import os, pathlib\n"
            """pathlib.Path(os.environ['RUN_DIR'], 'summary.json').write_text('{"loss": 1.5}')\n"""
        )
        _ended(testbed, project, "tune.py", "tuned", "--sweep", "lr=1,2")
        yield testbed, _ended(testbed, project, "train.py", "a")


def _ended(testbed: Testbed, project: Path, script: str, name: str, *words: str) -> str:
    """The id of a job that has ended."""
    python = ["--framework", "python", "--python-env", f"venv:{sys.prefix}", "--script", script]
    job = _printed(testbed, project, "submit", "--via", "twin", "--name", name, *python, *words)
    _printed(testbed, project, "wait", job)
    return job


def _printed(testbed: Testbed, project: Path, *words: str) -> str:
    environ = testbed.environ | folders(testbed.folder)
    done = subprocess.run([SLURMGEN, *words], cwd=project, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(root: Path) -> Path:
    """A repository of all traps that let a command go on."""
    ground = Ground(root / "repository", root / "outside")
    for build in LURKING:
        build(ground)
    return ground.project


@pytest.fixture
def lurking(place: Place, repository: Path, cluster: tuple[Testbed, str]) -> Place:
    """That repository, with the cluster."""
    testbed, _ = cluster
    subprocess.run(["cp", "-a", f"{repository}/.", place.ground.project], check=True)
    own = (testbed.folder.resolve(), testbed.twin.run, testbed.twin.folder)
    return replace(place, environ=testbed.environ | folders(testbed.folder), own=own)


def commands(command: click.Command, *above: str) -> Iterator[str]:
    """The names of all commands that are no groups."""
    if not isinstance(command, click.Group):
        yield " ".join(above)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if child := command.get_command(context, name):
            yield from commands(child, *above, name)


def test_every_command_is_run_in_the_hostile_repository() -> None:
    assert set(CASES) == set(commands(cli))


@pytest.mark.parametrize("one", [one for cases in CASES.values() for one in cases], ids=lambda one: one.words)
def test_no_command_triggers_a_trap(one: Case, lurking: Place, cluster: tuple[Testbed, str]) -> None:
    job = cluster[1]
    lurking.ground.link(f"a-{job}", lurking.ground.outside)
    ran = lurking.run(one, job)
    assert not [*problems(ran, one, lurking)]
    assert ran.exit_code == one.exit_code, (ran.out + ran.err).decode()


@pytest.mark.parametrize("words", COMPLETED)
def test_completion_triggers_no_trap(words: str, lurking: Place) -> None:
    count = str(len(words.split(" ")))
    shell = {"_SLURMGEN_COMPLETE": "bash_complete", "COMP_WORDS": f"slurmgen {words}", "COMP_CWORD": count}
    ran = lurking.run(Case(""), **shell)
    assert not [*problems(ran, Case(words), lurking)]
    assert ran.out


@pytest.mark.parametrize("words", FROM_BELOW)
def test_no_command_triggers_a_trap_in_a_bare_repository_within(
    words: str, lurking: Place, cluster: tuple[Testbed, str]
) -> None:
    ran = lurking.run(case(words), cluster[1], lurking.ground.project / "exp")
    assert not [*problems(ran, case(words), lurking)]


@as_root
@pytest.mark.parametrize("words", FROM_BELOW)
def test_no_command_triggers_a_trap_of_another_user_above(
    words: str, lurking: Place, cluster: tuple[Testbed, str]
) -> None:
    shared = lurking.ground.project
    subprocess.run(["chown", "-hR", str(ANOTHER_USER), shared], check=True)
    shared.chmod(0o1777)
    own = shared / "mine" / "experiment"
    own.mkdir(parents=True)
    ran = lurking.run(case(words), cluster[1], own)
    assert not [*problems(ran, case(words), lurking)]
    read = {event.target for event in ran.read if event.target.startswith(f"{shared}/")}
    assert {path for path in read if not path.startswith(f"{own}")} == set()
