"""What breaks between a user and Slurm: for real, or by a reply that a healthy Slurm does not give."""

import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from slurmgen.twin import daemons
from tests.campaign.world import ACCOUNTING, PLAIN, Trial
from tests.support.links import Fault as Broken

Over = Callable[[], bool]
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
NOISE = (
    r"\033]0;login node\007",
    "Welcome! Quota: 12 of 100",
    "4711",
    "8|RUNNING|None|",
    "\\xff\\xfe",
    "{}",
    "0\\t",
)
REFUSALS = (
    "slurm_load_jobs error: RPC rate limit exceeded",
    "slurm_load_jobs error: Socket timed out on send/recv operation",
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "slurm_load_jobs error: Zero Bytes were transmitted or received",
    "slurm_load_jobs error: Resource temporarily unavailable",
)
ROW = r"""#!/usr/bin/python3 -ISE
# Prints one record in the format that squeue or sacct was asked for.
import json, re, sys
values, words = json.load(open({path!r})), sys.argv[1:]
line = next((word.split("=", 1)[1] for word in words if word.startswith("--format=")), "")
mark = next((word.split("=", 1)[1] for word in words if word.startswith("--delimiter=")), "|")
if "%" in line:
    print(re.sub("%[.0-9]*([A-Za-z])", lambda found: values.get("%" + found[1], ""), line))
else:
    print(mark.join(values.get(name.partition("%")[0], "") for name in line.split(",")))
"""


@dataclass(frozen=True)
class Fault:
    """One way to break; `broken` yields whether its time is over."""

    name: str
    broken: Callable[[Trial, Random], AbstractContextManager[Over]]
    harmless: bool = False
    "Whether the truth stays within reach of every command."
    retried: frozenset[str] = frozenset()
    "Commands that must try again until it is over, besides those that wait."
    kinds: tuple[str, ...] = (PLAIN, ACCOUNTING)
    lives: frozenset[str] = frozenset({"running", "pending", "ended"})
    commands: frozenset[str] = frozenset()
    "Those that it is for; all if empty."
    prepare: Callable[[Trial], object] = lambda _trial: None
    "Before the job is submitted."
    reuses: bool = False
    "Whether another job of the user has the id of the job that the command names."


def _always() -> bool:
    return True


def lasting(
    act: Callable[[Trial, Random], object],
) -> Callable[[Trial, Random], AbstractContextManager[Over]]:
    """A fault that lasts as long as the trial."""

    @contextmanager
    def broken(trial: Trial, chance: Random) -> Iterator[Over]:
        act(trial, chance)
        yield _always

    return broken


def noise(line: str) -> Callable[[Trial, Random], AbstractContextManager[Over]]:
    """What a login file prints."""
    return lasting(
        lambda trial, chance: (trial.home / ".bashrc").write_text(
            line.format(shlex.quote(chance.choice(NOISE))) + "\n"
        )
    )


@contextmanager
def cut(trial: Trial, chance: Random) -> Iterator[Over]:
    """The first connections are cut, each at a byte of the login or the session."""
    yield from _linked(trial, [Broken("cut", *_place(chance)) for _ in range(chance.randint(1, 3))])


@contextmanager
def stalled(trial: Trial, chance: Random) -> Iterator[Over]:
    """The first connection stands still at a byte for some seconds, and is then cut."""
    yield from _linked(trial, [Broken("stall", *_place(chance), seconds=chance.uniform(1, 6))])


def _place(chance: Random) -> tuple[int, bool]:
    return chance.randint(1, chance.choice((2500, 5000, 9000))), chance.random() < 0.5


def _linked(trial: Trial, faults: list[Broken]) -> Iterator[Over]:
    trial.connect(trial.world.login, *faults)
    queries = trial.calls()
    yield lambda: bool(trial.link) and (not trial.link.faults or trial.calls() > queries + 3)


def replied(
    text: str, programs: tuple[str, ...] = ("squeue", "sacct", "scontrol")
) -> Callable[[Trial, Random], AbstractContextManager[Over]]:
    """The first calls of one program of Slurm reply this way; it is a plan for the wrapper."""

    @contextmanager
    def broken(trial: Trial, chance: Random) -> Iterator[Over]:
        usable = [one for one in programs if trial.world.accounting or one != "sacct"]
        program = chance.choice([*usable, "squeue"])
        calls, first = chance.choice((1, 1, 2)), trial.calls(program)
        words = {
            "bytes": chance.randint(1, 70),
            "seconds": chance.randint(1, 4),
            "error": chance.choice(REFUSALS),
        }
        trial.plan(program, f"if [ $n -lt {first + calls} ]; then {text.format(**words)}; fi")
        queries = trial.calls()
        yield lambda: trial.calls(program) >= first + calls or trial.calls() > queries + 3

    return broken


def record(**values: str) -> Callable[[Trial, Random], AbstractContextManager[Over]]:
    """sacct replies with another record under the job's id while squeue replies with nothing."""

    @contextmanager
    def broken(trial: Trial, chance: Random) -> Iterator[Over]:
        job, first = trial.jobs[0], trial.calls()
        years = {
            "State": chance.choice(("COMPLETED", "FAILED", "CANCELLED by 4120")),
            "JobName": "someone_else_4120",
        }
        row = {"JobID": job.id, "JobIDRaw": job.id, "ExitCode": "0:0"} | years | values
        (trial.folder / "row.json").write_text(json.dumps(row))
        (trial.folder / "row").write_text(ROW.format(path=str(trial.folder / "row.json")))
        (trial.folder / "row").chmod(0o755)
        old = trial.calls("sacct")
        trial.plan("squeue", f"[ $n -ge {first + 2} ] || exit 0")
        trial.plan("sacct", f'[ $n -ge {old + 2} ] || exec {trial.folder}/row "$@"')
        yield lambda: trial.calls() >= first + 2

    return broken


@contextmanager
def _later(seconds: float, act: Callable[[], object]) -> Iterator[Over]:
    """Do something after some seconds, and in any case before the block has ended."""
    over, lock = threading.Event(), threading.Lock()

    def once() -> None:
        with lock:
            if not over.is_set():
                act()
            over.set()

    timer = threading.Timer(seconds, once)
    timer.start()
    try:
        yield over.is_set
    finally:
        timer.cancel()
        once()


@contextmanager
def frozen(trial: Trial, chance: Random, name: str = "slurmctld") -> Iterator[Over]:
    pid = trial.world.daemon(name).pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    with _later(chance.uniform(0.5, 14), lambda: os.kill(pid, signal.SIGCONT)) as over:
        yield over


@contextmanager
def restarted(trial: Trial, chance: Random, name: str = "slurmctld") -> Iterator[Over]:
    daemons.stop(trial.world.daemon(name))
    with _later(chance.uniform(0.5, 4), lambda: trial.world.restart(name)) as over:
        yield over


@contextmanager
def without_database(trial: Trial, chance: Random) -> Iterator[Over]:
    with (frozen if chance.random() < 0.3 else restarted)(trial, chance, "slurmdbd") as over:
        yield over


def small_disk(trial: Trial) -> None:
    """The remote home is a small disk."""
    profile = (trial.home / ".bash_profile").read_text()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", trial.home], check=True)
    trial.stack.callback(subprocess.run, ["umount", "--lazy", trial.home], check=True)
    (trial.home / ".bash_profile").write_text(profile)


@contextmanager
def full(trial: Trial, _chance: Random) -> Iterator[Over]:
    ballast = trial.home / "ballast"
    write = ["dd", "if=/dev/zero", f"of={ballast}", "bs=4k", "status=none"]
    subprocess.run(write, stderr=subprocess.DEVNULL, check=False)  # it fails when the disk is full
    yield _always
    ballast.unlink()


def skew(trial: Trial, chance: Random) -> None:
    trial.skewed = True
    offset = chance.choice(("+90m", "-90m", "+3d", "-3d", "+20s"))
    (trial.home / ".environment").write_text(
        f"export LD_PRELOAD={FAKETIME} FAKETIME={offset} FAKETIME_DONT_RESET=1\n"
    )


_RETRIED = frozenset({"cancel", "page: cancel", "--after"})
_OLD = {
    "Elapsed": "00:10:00",
    "Timelimit": "01:00:00",
    "Start": "2017-10-03T17:39:29",
    "NodeList": "old[1-2]",
}
_OLD |= {"Submit": "2017-10-03T17:39:00", "End": "2017-10-03T17:49:29", "User": "someone", "Comment": ""}
_HALF = {
    "JobName": "allocation",
    "State": "COMPLETED",
    "Elapsed": "00:00:01",
    "Timelimit": "",
    "NodeList": "127.0.0.1",
}
CONNECTED = frozenset({"shell", "port"})
FAULTS = [
    Fault("none", lasting(lambda _trial, _chance: None), harmless=True),
    Fault("login noise without a line feed", noise("printf {}"), harmless=True),
    Fault("login noise of lines", noise("echo 'Last backup: today'; printf '%s\\n' {}"), harmless=True),
    Fault("login noise on stderr", noise("printf {} >&2"), harmless=True),
    Fault("noise at logout", noise("trap 'printf %s {}' EXIT"), harmless=True),
    Fault("MaxSessions 1", lasting(lambda trial, _: trial.connect(trial.world.narrow)), harmless=True),
    Fault("connections cut at a byte", cut),
    Fault("connection stalls at a byte", stalled),
    Fault("empty reply", replied("exit 0")),
    Fault("refused query", replied('echo "{error}" >&2; exit 1'), retried=_RETRIED),
    Fault("late reply", replied("sleep {seconds}"), harmless=True),
    Fault("reply cut short", replied('$real "$@" | head -c {bytes}; exit 0')),
    Fault("record of another job", record(**_OLD), kinds=(ACCOUNTING,)),
    Fault("unfinished record", record(**_HALF), kinds=(ACCOUNTING,), lives=frozenset({"ended"})),
    Fault("controller frozen", frozen),
    Fault("controller restarted", restarted),
    Fault("slurmdbd away", without_database, kinds=(ACCOUNTING,), harmless=False),
    Fault("reused id", lasting(lambda _trial, _chance: None), lives=frozenset({"ended"}), reuses=True),
]
if os.geteuid() == 0:  # only root may mount
    FAULTS.append(Fault("remote disk full", full, prepare=small_disk))
if FAKETIME:
    FAULTS.append(Fault("clock of the login node", lasting(skew), harmless=True))
