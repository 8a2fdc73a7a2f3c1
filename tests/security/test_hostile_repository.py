"""No command, run in a repository made by an attacker, does what the attacker wants.

Each runs under strace. It may start, change and connect to what `commands.py` grants it, and nothing else.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import slurmgen
from slurmgen.cli import cli
from tests.security.commands import CASES, FROM_BELOW, SLURM, TWIN, Case, case
from tests.security.ground import SECRET, Ground, remove
from tests.security.lurking import LURKING
from tests.security.stopping import STOPPING, Trap
from tests.security.watcher import Event, Watched, watch
from tests.support.twins import Testbed, twin

SLURMGEN = Path(sys.executable).with_name("slurmgen")
SYSTEM = ("/usr/", "/opt/", "/bin/", "/sbin/", sys.prefix, sys.base_prefix)
INSTALLED = (sys.prefix, str(Path(slurmgen.__file__).parent))
SOCKETS = ("/run/nscd/", "/var/run/nscd/", "/run/systemd/userdb/", "/run/dbus/", "/var/run/dbus/")
"Of the system, where the C library looks for users and hosts."
MAX_CPU_SECONDS = 10
MAX_MEMORY = 600 << 20
"Bytes."
ANOTHER_USER = 65534
MUST_NOT_SHOW = {
    "a secret": re.compile(SECRET.encode()),
    "control characters": re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]"),
    # As the traps have them; those of slurmgen itself name a file.
    "a workflow command": re.compile(rb"^\s*::[a-z-]+::|##\[", re.MULTILINE),
}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@dataclass(frozen=True)
class Place:
    """A hostile repository, with a user and a cluster."""

    ground: Ground
    environ: dict[str, str]
    own: tuple[Path, ...]
    "The folders of the user and of the twin, where slurmgen keeps what it keeps."

    def run(self, one: Case, job: str, cwd: Path | None = None) -> Watched:
        argv = [str(SLURMGEN), *self._words(one.words.format(job=job))]
        if one.then:
            after = shlex.join([str(SLURMGEN), *one.then.split()])
            argv = ["sh", "-c", f"{shlex.join(argv)}; status=$?; {after}; exit $status"]
        return watch(argv, cwd or self.ground.project, self.environ, one.seconds)

    def _words(self, text: str) -> list[str]:
        return [name for word in text.split() for name in (self._matching(word) if "*" in word else [word])]

    def _matching(self, pattern: str) -> list[str]:
        folder = self.ground.project
        return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


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
        words = ["submit", "--via", "twin", "--framework", "python", "--script", "train.py", "--name", "a"]
        done = subprocess.run(
            [SLURMGEN, *words], cwd=project, env=user(testbed), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert testbed.wait(done.stdout.strip()) == "COMPLETED"
        yield testbed, done.stdout.strip()


def user(testbed: Testbed) -> dict[str, str]:
    folders = {"HOME": testbed.folder / "home", "TMPDIR": testbed.folder / "tmp"}
    for folder in folders.values():
        folder.mkdir(exist_ok=True, mode=0o700)
    return testbed.environ | {name: str(path) for name, path in folders.items()} | {"MY_SECRET": SECRET}


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hostile-")).resolve()
    yield folder
    remove(folder)


@pytest.fixture
def place(root: Path, cluster: tuple[Testbed, str]) -> Iterator[Place]:
    testbed, _ = cluster
    ground = Ground(root / "project", root / "outside")
    ground.project.mkdir()
    ground.outside.mkdir()
    (ground.outside / "secret").write_text(f"secret = '{SECRET}'\n")
    (ground.outside / "dos.sbatch").write_bytes(b"#!/bin/bash\r\nsrun hostname\r\n")
    yield Place(ground, user(testbed), (testbed.folder.resolve(), testbed.twin.run, testbed.twin.folder))
    remove(ground.project)
    remove(ground.outside)


@pytest.fixture(scope="module")
def repository(root: Path) -> Path:
    """A repository of all traps that let a command go on."""
    ground = Ground(root / "repository", root / "outside")
    for build in LURKING:
        build(ground)
    return ground.project


@pytest.fixture
def lurking(place: Place, repository: Path) -> Place:
    subprocess.run(["cp", "-a", f"{repository}/.", place.ground.project], check=True)
    return place


def problems(ran: Watched, one: Case, place: Place) -> Iterator[str]:
    """What a command did that it must not do."""
    yield from out_of_bounds(ran, one)
    yield from (f"must not start: {event}" for event in ran.started if not may_start(event, one))
    yield from (f"must not change: {event}" for event in ran.changed if not may_change(event, one, place))
    yield from (f"must not connect: {event}" for event in ran.connected if not may_connect(event, one, place))
    yield from (f"a trap left its mark: {path}" for path in marks(place.ground))
    for name, text in {"stdout": ran.out, "stderr": ran.err}.items():
        for what, pattern in MUST_NOT_SHOW.items():
            if found := pattern.search(text):
                yield f"{name} has {what}: {text[max(found.start() - 40, 0) : found.end() + 40]!r}"


def out_of_bounds(ran: Watched, one: Case) -> Iterator[str]:
    if ran.exit_code is None:
        yield f"did not end within {one.seconds:g} s"
    elif ran.exit_code not in (0, 1, 2, 3):
        yield f"ended with {ran.exit_code}"
    if ran.cpu_seconds > MAX_CPU_SECONDS:
        yield f"took {ran.cpu_seconds:.1f} s of CPU time"
    if ran.memory > MAX_MEMORY:
        yield f"took {ran.memory >> 20} MiB of memory"


def may_start(event: Event, one: Case) -> bool:
    program = Path(event.target)
    is_allowed = program.name in one.programs or program == Path(os.path.realpath(sys.executable))
    return program == SLURMGEN or (is_allowed and event.target.startswith(SYSTEM))


def may_change(event: Event, one: Case, place: Place) -> bool:
    if "/__pycache__" in event.target and event.target.startswith(INSTALLED):  # Python's own
        return True
    project = f"{place.ground.project}/"
    if event.target.startswith(project):
        return event.target.removeprefix(project).startswith(one.writes)
    return event.target.startswith(one.writes) or event.target.startswith(
        ("/dev/null", "/dev/tty", *(f"{folder}/" for folder in place.own))
    )


def may_connect(event: Event, one: Case, place: Place) -> bool:
    """Slurm's own programs reach the twin on this machine; slurmgen itself goes nowhere."""
    family, _, address = event.target.partition(" ")
    if family == "AF_UNIX":
        return address.startswith((*SOCKETS, *one.writes, *map(str, place.own)))
    return Path(event.program).name in SLURM | TWIN and address == "127.0.0.1"


def marks(ground: Ground) -> list[str]:
    """What was made or changed outside of the project."""
    found = {path.name for path in ground.outside.iterdir()} - {"secret", "dos.sbatch"}
    if (ground.outside / "dos.sbatch").read_bytes().count(b"\r\n") != 2:
        found.add("dos.sbatch")
    return sorted(found)


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
def test_a_command_falls_into_no_trap(one: Case, lurking: Place, cluster: tuple[Testbed, str]) -> None:
    job = cluster[1]
    lurking.ground.link(f"a-{job}", lurking.ground.outside)
    ran = lurking.run(one, job)
    assert not [*problems(ran, one, lurking)]
    assert ran.exit_code == one.exit_code, (ran.out + ran.err).decode()


@pytest.mark.parametrize("words", FROM_BELOW)
def test_a_command_falls_into_no_trap_in_a_bare_repository_within(
    words: str, lurking: Place, cluster: tuple[Testbed, str]
) -> None:
    ran = lurking.run(case(words), cluster[1], lurking.ground.project / "exp")
    assert not [*problems(ran, case(words), lurking)]


@as_root
@pytest.mark.parametrize("words", FROM_BELOW)
def test_a_command_falls_into_no_trap_of_another_user_above(
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


@pytest.mark.parametrize(
    ("trap", "words"),
    [pytest.param(trap, words, id=f"{words}: {trap.name}") for trap in STOPPING for words in trap.commands],
)
def test_a_trap_stops_a_command_at_most(
    trap: Trap, words: str, place: Place, cluster: tuple[Testbed, str]
) -> None:
    trap.build(place.ground)
    ran = place.run(case(words), cluster[1])
    assert not [*problems(ran, case(words), place)], (ran.out + ran.err).decode(errors="replace")[-2000:]
