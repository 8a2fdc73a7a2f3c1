"""Where a command is run, and what it must not do there."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import slurmgen
from tests.security.commands import SLURM, TWIN, Case
from tests.security.ground import SECRET, Ground
from tests.security.watcher import Event, Watched, watch

SLURMGEN = Path(sys.executable).with_name("slurmgen")
SYSTEM = ("/usr/", "/opt/", "/bin/", "/sbin/", sys.prefix, sys.base_prefix)
INSTALLED = (sys.prefix, str(Path(slurmgen.__file__).parent))
SOCKETS = ("/run/nscd/", "/var/run/nscd/", "/run/systemd/userdb/", "/run/dbus/", "/var/run/dbus/")
"Of the system, where the C library looks for users and hosts."
TEMPORARY = re.compile(r"\.[0-9a-f]{16}")
"A file that is renamed once it is whole."
MAX_CPU_SECONDS = 20
MAX_MEMORY = 600 << 20
"Bytes."
MUST_NOT_SHOW = {
    "a secret": re.compile(SECRET.encode()),
    "control characters": re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]"),
    # As the traps have them; those of slurmgen itself name a file.
    "a workflow command": re.compile(rb"^\s*::[a-z-]+::|##\[", re.MULTILINE),
}


@dataclass(frozen=True)
class Place:
    """A hostile repository, with a user and a cluster."""

    ground: Ground
    environ: dict[str, str]
    own: tuple[Path, ...]
    "The folders of the user and of the twin, where slurmgen keeps what it keeps."

    def run(self, one: Case, job: str = "", cwd: Path | None = None, **environ: str) -> Watched:
        argv = [str(SLURMGEN), *self._words(one.words.format(job=job))]
        if one.then:
            after = shlex.join([str(SLURMGEN), *one.then.split()])
            argv = ["sh", "-c", f"{shlex.join(argv)}; status=$?; {after}; exit $status"]
        return watch(argv, cwd or self.ground.project, self.environ | environ, one.seconds)

    def _words(self, text: str) -> list[str]:
        return [name for word in text.split() for name in (self._matching(word) if "*" in word else [word])]

    def _matching(self, pattern: str) -> list[str]:
        folder = self.ground.project
        return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


def problems(ran: Watched, one: Case, place: Place) -> Iterator[str]:
    """The forbidden actions of a command."""
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
        name = event.target.removeprefix(project)
        return name.startswith(one.writes) or (bool(one.writes) and TEMPORARY.fullmatch(name) is not None)
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
    """The files that were made or changed outside the project."""
    found = {path.name for path in ground.outside.iterdir()} - {"secret.toml", "dos.sbatch"}
    if (ground.outside / "dos.sbatch").read_bytes().count(b"\r\n") != 2:
        found.add("dos.sbatch")
    return sorted(found)
