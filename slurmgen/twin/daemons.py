"""The processes of a twin: start and stop them."""

import os
import signal
import socket
import stat
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import TwinError
from slurmgen.twin.layout import Layout

START_TIMEOUT = 120.0
GRACE = 5.0
LOG_LINES = 8


class Daemon(Struct, frozen=True, kw_only=True):
    """One daemon. `mark` is a path that only its own command line has."""

    name: str
    argv: tuple[str, ...]
    mark: str
    pid_file: str
    log_file: str
    environ: dict[str, str] = {}
    "Variables of its own."

    @property
    def pid(self) -> int | None:
        """The id from the pid file, if that process is still this daemon."""
        with suppress(OSError, ValueError):
            pid = int(Path(self.pid_file).read_text())
            return pid if self.mark in command_line(pid) else None
        return None


def munged(layout: Layout, program: str) -> Daemon:
    """The authentication daemon of Slurm, for this user only.

    munged requires a folder that every user may enter, but this one is private, hence --force: another user
    must not get a credential with which to send jobs to the twin.
    """
    run = layout.run
    files = {name: f"{run}/munge.{name}" for name in ("socket", "key", "seed", "log", "pid")}
    flags = {"key-file": "key", "socket": "socket", "seed-file": "seed", "pid-file": "pid", "log-file": "log"}
    return Daemon(
        name="munged",
        argv=(program, "--force", *(f"--{flag}={files[kind]}" for flag, kind in flags.items())),
        mark=files["socket"],
        pid_file=files["pid"],
        log_file=files["log"],
    )


def slurm(layout: Layout, slurmctld: str, slurmd: str) -> tuple[Daemon, ...]:
    """The controller, then one slurmd per node."""
    conf = str(layout.daemons_conf)
    # slurmd would look for slurmstepd where Debian installs it.
    step = ("-d", str(layout.slurm.bin / "slurmstepd")) if layout.slurm.bin else ()
    argv: dict[str, tuple[str, ...]] = {"slurmctld": (slurmctld,)}
    argv |= {f"slurmd-{node}": (slurmd, "-N", node, *step) for node in layout.nodes}
    return tuple(
        Daemon(
            name=name,
            argv=(*start, "-f", conf),
            mark=conf,
            pid_file=f"{layout.run}/{name}.pid",
            log_file=str(layout.folder / f"{name}.log"),
        )
        for name, start in argv.items()
    )


def sshd(layout: Layout, program: str) -> Daemon:
    """The SSH server of the login node."""
    conf, log = str(layout.folder / "sshd_config"), str(layout.folder / "sshd.log")
    return Daemon(
        name="sshd",
        argv=(program, "-E", log, "-f", conf),
        mark=conf,
        pid_file=f"{layout.run}/sshd.pid",
        log_file=log,
    )


def start(daemon: Daemon) -> None:
    """Start a daemon and wait until it has written its pid file.

    Raises:
        TwinError: it did not start; the message ends with its log.
    """
    succeeded = _run(daemon)
    deadline = time.monotonic() + START_TIMEOUT
    while succeeded and daemon.pid is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if daemon.pid is None:
        raise failure(daemon)


def _run(daemon: Daemon) -> bool:
    """Whether the command of a daemon has succeeded, which ends once the daemon is in the background."""
    # To a file, not a pipe: the children of the daemon would keep a pipe open.
    with Path(daemon.log_file).with_suffix(".err").open("wb") as err:
        try:
            started = subprocess.run(
                daemon.argv,
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                env={**clean_environ(), **daemon.environ},
                timeout=START_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return started.returncode == 0


def wait_for_port(daemon: Daemon, address: str, port: int) -> None:
    """Wait until a daemon listens, which can be a second after it has written its pid file.

    Raises:
        TwinError: it does not.
    """
    deadline = time.monotonic() + START_TIMEOUT
    while daemon.pid and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.02)
    raise failure(daemon)


def stop(*daemons: Daemon, grace: float = GRACE) -> None:
    """End daemons and their descendants, such as the sessions of sshd; kill them after `grace` seconds."""
    running = [pid for daemon in daemons if (pid := daemon.pid)]
    end((member for pid in running for member in family(pid)), grace)


def failure(daemon: Daemon) -> TwinError:
    """The error that a daemon is not running, with the end of its log."""
    log = Path(daemon.log_file)
    texts = (_text(log.with_suffix(".err")), _text(log))
    lines = [line for text in texts for line in text.splitlines()][-LOG_LINES:]
    end = "".join(f"\n  {line}" for line in lines) or " nothing"
    return TwinError(f"{daemon.name} did not start; its log ends with:{end}")


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def clean_environ() -> Mapping[str, str]:
    """This process's environment without variables of Slurm: a twin may be started inside a job."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}


PROC = Path("/proc")
LAST = 10.0
"Seconds that a killed process has to end; one that waits for a disk or for a CPU does not end at once."


def command_line(pid: int) -> str:
    """A process's command line; empty if it has ended or is a zombie."""
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def family(pid: int) -> list[int]:
    """A process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def with_any(texts: Iterable[str]) -> list[int]:
    """The processes whose command line contains one of the texts."""
    texts = tuple(texts)
    pids = (int(entry.name) for entry in PROC.glob("[0-9]*"))
    return [pid for pid in pids if any(text in command_line(pid) for text in texts)]


def listener(path: Path) -> int | None:
    """The process that listens on a socket file; None if no process does."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        if stat.S_ISSOCK(path.stat().st_mode):
            probe.settimeout(1)
            probe.connect(str(path))
            peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", peer)[0])
    return None


def end(pids: Iterable[int], grace: float) -> None:
    """Terminate processes, and kill those that are left after `grace` seconds."""
    left = _left_after(signal.SIGTERM, list(pids), grace)
    _left_after(signal.SIGKILL, left, LAST)


def _left_after(number: signal.Signals, pids: list[int], seconds: float) -> list[int]:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    deadline = time.monotonic() + seconds
    while (pids := [pid for pid in pids if command_line(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return pids


def _parents() -> Iterator[tuple[int, int]]:
    for entry in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may contain anything, even parentheses.
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            yield int(entry.parent.name), int(fields[1])
