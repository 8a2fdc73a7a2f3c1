"""Break `submit --first` in many ways, repeat the command, and count how often the program of each job ran.

`python -m tests.support.first_faults COUNT SEED` makes that many trials; docs/reliability.md has the result.
The client is the real command in a process of its own, with two twins; only a lost connection is a stand-in:
a command at a site, or its reply, is lost.
"""

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from slurmgen.cli import main
from slurmgen.errors import ConnectionFailed
from slurmgen.ledger.ledger import Ledger, StateFile
from slurmgen.ledger.races import Races
from slurmgen.plan import requeue
from slurmgen.remote.local import LocalTransport
from slurmgen.submit import race
from tests.support.twins import Testbed, eventually, twin, working_folders

Testbeds = Mapping[str, Testbed]
SITES = ("generic", "daic")
WAY = "--via twin"
OPTIONS = (
    "--framework python --script train.py --gpus 0 --cpus 2 --mem 100M --time 00:05:00 "
    "--account a --python-env none"
)
LONGEST = 0.9
"Seconds after which a client is killed, at most; some have ended by then."
BEGIN = 2
"Seconds before which no job starts, where both are to start at the same moment."
STEPS = 16
"Commands at a site and transactions of the ledger: one client takes about as many."
BATCH = 20


@contextmanager
def user_of(testbeds: Testbeds) -> Iterator[Path]:
    """The project of a user who has these twins, whose ledger is empty; this process becomes that user.

    Its program appends the id of its job to a file of the job's name, in `marks`.
    """
    # A job that is cancelled may still open its log.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        twins = folder / "state/slurmgen/twin"
        twins.mkdir(parents=True)
        (folder / "state/slurmgen").chmod(0o700)
        for site, testbed in testbeds.items():
            (twins / site).symlink_to(testbed.twin.folder)
        (folder / "project").mkdir()
        (folder / "marks").mkdir()
        (folder / "project/train.py").write_text(
            "import os\n"
            f"with open({str(folder / 'marks')!r} + '/' + os.environ['SLURM_JOB_NAME'], 'a') as marks:\n"
            "    marks.write(os.environ['SLURM_JOB_ID'] + '\\n')\n"
        )
        own = {f"XDG_{one}_HOME": str(folder / one.lower()) for one in ("STATE", "CACHE", "CONFIG")}
        with patch.dict(os.environ, own | {"HOME": name}):
            yield folder / "project"
        for testbed in testbeds.values():
            testbed.tried("scancel", "--me")
        eventually(lambda: not any(one.is_relative_to(folder) for one in working_folders()))


def words(name: str) -> list[str]:
    """The arguments of the command."""
    begin = ["--sbatch", f"begin=now+{BEGIN}"] if name.startswith(both_start.__name__) else []
    sites = [word for site in SITES for word in ("--first", site)]
    return ["submit", *sites, *WAY.split(), *OPTIONS.split(), *begin, "--name", name]


def started(project: Path, name: str, prepare: Callable[[], object] = lambda: None) -> int:
    """Run the command in a process of its own, after `prepare` there; its process id."""

    def prepared() -> None:
        race.FIRST_PAUSE = 0.2
        prepare()

    return forked(project, f"{name}.log", words(name), prepared)


def forked(project: Path, log: str, argv: Sequence[str], prepare: Callable[[], object]) -> int:
    """Run slurmgen in a process of its own, with a log beside the project; its process id."""
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    os.chdir(project)
    sys.stdout = sys.stderr = (project.parent / log).open("a", buffering=1)
    sys.argv = ["slurmgen", *argv]
    code: object = 70
    try:
        prepare()
        main()
    except SystemExit as error:
        code = error.code
    finally:
        os._exit(code if isinstance(code, int) else 0)


def finished(child: int, seconds: float = 300) -> int:
    """The exit status of a client, once it has ended; negative for a signal."""
    eventually(lambda: _has_ended(child), seconds)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def kill(child: int) -> bool:
    """Kill a client; whether it still ran."""
    runs = not _has_ended(child)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return runs


class Steps:
    """Calls `strike` before or after the step of that number: a command at a site, or a transaction."""

    def __init__(self, at: int, *, before: bool, strike: Callable[[], None], sites_only: bool) -> None:
        self._left, self._before, self._strike, self._sites_only = at, before, strike, sites_only
        self._lock = threading.Lock()  # the sites of a race have a thread each

    def arm(self) -> None:
        run, writing = LocalTransport.run, StateFile._writing

        def broken_run(*args: object, **values: object) -> object:
            with self._step():
                return run(*args, **values)  # type: ignore[arg-type]

        @contextmanager
        def broken_writing(file: StateFile, **how: bool) -> Iterator[object]:
            with self._step(), writing(file, **how) as database:
                yield database

        LocalTransport.run = broken_run  # type: ignore[method-assign, assignment]
        if not self._sites_only:
            StateFile._writing = broken_writing  # type: ignore[method-assign, assignment]

    @contextmanager
    def _step(self) -> Iterator[None]:
        with self._lock:
            self._left -= 1
            strikes = not self._left
        if strikes and self._before:
            self._strike()
        yield
        if strikes and not self._before:
            self._strike()


def killed_at_a_moment(project: Path, name: str, _: Testbeds, chance: random.Random) -> bool:
    child = started(project, name)
    time.sleep(chance.uniform(0, LONGEST))
    return kill(child)


def killed_at_a_step(project: Path, name: str, _: Testbeds, chance: random.Random) -> bool:
    def strike() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    at, before = chance.randint(1, STEPS), chance.random() < 0.5
    return finished(started(project, name, Steps(at, before=before, strike=strike, sites_only=False).arm)) < 0


def connection_lost(project: Path, name: str, _: Testbeds, chance: random.Random) -> bool:
    struck = project.parent / f"{name}.struck"

    def strike() -> None:
        struck.touch()
        raise ConnectionFailed("the connection was lost")

    at, before = chance.randint(1, STEPS), chance.random() < 0.5
    finished(started(project, name, Steps(at, before=before, strike=strike, sites_only=True).arm))
    return struck.exists()


def controller_frozen(project: Path, name: str, testbeds: Testbeds, chance: random.Random) -> bool:
    """One controller or both do not reply for some seconds; some clients are killed meanwhile."""
    frozen = [one for one in testbeds.values() if chance.random() < 0.6]
    controllers = [one.pid for bed in frozen for one in bed.twin.daemons if one.name == "slurmctld"]
    child = started(project, name)
    time.sleep(chance.uniform(0, LONGEST))
    struck = bool(frozen) and not _has_ended(child)
    signalled(controllers, signal.SIGSTOP)
    try:
        time.sleep(chance.uniform(0.5, 3))
        if chance.random() < 0.5:
            kill(child)
            child = 0
    finally:
        signalled(controllers, signal.SIGCONT)
    if child:
        finished(child)
    return struck


def signalled(pids: Sequence[int | None], number: signal.Signals) -> None:
    for pid in filter(None, pids):
        os.kill(pid, number)


def both_start(project: Path, name: str, _: Testbeds, chance: random.Random) -> bool:
    """Both jobs may start from the same second on. Some clients are killed."""
    child = started(project, name)
    if chance.random() < 0.2:
        return not finished(child)
    time.sleep(chance.uniform(0, LONGEST + BEGIN))
    return kill(child)


def two_clients(project: Path, name: str, _: Testbeds, chance: random.Random) -> bool:
    """The same command in two terminals at almost the same time; one is killed at some moment."""
    first = started(project, name)
    time.sleep(chance.uniform(0, 0.3))
    second = started(project, name)
    time.sleep(chance.uniform(0, LONGEST))
    struck = kill(first)
    finished(second)
    return struck


def gate_expired(project: Path, name: str, _: Testbeds, chance: random.Random) -> bool:
    """The client stops for longer than its jobs wait for their gates, and then goes on or is killed."""

    def prepare() -> None:
        requeue.GATE_SECONDS = 2

    child = started(project, name, prepare)
    time.sleep(chance.uniform(0, LONGEST))
    struck = not _has_ended(child)
    os.kill(child, signal.SIGSTOP)
    time.sleep(chance.uniform(1, 4))
    os.kill(child, signal.SIGCONT)
    if chance.random() < 0.3:
        kill(child)
    else:
        finished(child)
    return struck


FAULTS = (
    killed_at_a_moment,
    killed_at_a_step,
    connection_lost,
    controller_frozen,
    both_start,
    two_clients,
    gate_expired,
)


def trial(project: Path, testbeds: Testbeds, name: str, fault: Callable[..., bool], seed: int) -> bool:
    """Break one client, sometimes two, then repeat the command until it has succeeded; whether it was struck.

    A client that was killed after the race was over has done its work: the same command is a new submission.
    """
    chance = random.Random(seed)  # noqa: S311
    struck = fault(project, name, testbeds, chance)
    if chance.random() < 0.3 and not is_decided(name):
        struck = killed_at_a_moment(project, name, testbeds, chance) or struck
    for _ in range(5):
        if is_decided(name) or not finished(started(project, name)):
            return struck
    raise AssertionError(f"{name}: the command does not succeed")


def is_decided(name: str) -> bool:
    """Whether a race of that job is over, and one job was chosen."""
    entry = Ledger().last(name)
    race = Races().of(entry) if entry else None
    return race is not None and race.over and bool(race.chosen)


def jobs_of(testbed: Testbed, name: str) -> list[str]:
    """The ids of the jobs of that name that Slurm lists."""
    return testbed.run("squeue", "--noheader", "--states=all", f"--name={name}", "--format=%A").split()


def runs_of(project: Path, name: str) -> list[str]:
    """The ids of the jobs whose program ran, one for each time."""
    marks = project.parent / "marks" / name
    return marks.read_text().split() if marks.exists() else []


def settled(project: Path, testbeds: Testbeds, names: Sequence[str]) -> Counter[str]:
    """Wait for the chosen jobs of these names, cancel those left, and count what came of them."""
    chosen = {job for name in names for job in _chosen(name)}
    eventually(lambda: chosen.isdisjoint(active(testbeds, names)), 200)
    left = active(testbeds, names)
    for job, testbed in left.items():
        testbed.run("scancel", job)
    counts = sum((_outcome(project, testbeds, name) for name in names), Counter[str]())
    return counts + Counter({"losers that were left in their gate": len(left)})


def _chosen(name: str) -> list[str]:
    """The ids of the chosen jobs of a name."""
    entries = [entry for entry in Ledger().recent(100, name=name) if not entry.pending]
    return [one.id for one in entries if (race := Races().of(one)) and race.chosen == one.key]


def active(testbeds: Testbeds, names: Sequence[str]) -> dict[str, Testbed]:
    """The jobs of these names that wait or run."""
    argv = ("squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%A", f"--name={','.join(names)}")
    return {job: testbed for testbed in testbeds.values() for job in testbed.run(*argv).split()}


def _outcome(project: Path, testbeds: Testbeds, name: str) -> Counter[str]:
    """What came of the races of a name: one, unless a race ended without a chosen job or before a command."""
    counts, runs = Counter[str](), runs_of(project, name)
    entries = [entry for entry in Ledger().all() if entry.name == name and not entry.pending]
    races = {race.key: race for entry in entries if (race := Races().of(entry))}
    for race in races.values():
        racing = [entry for entry in entries if entry.part_of == race.key]
        ran = [entry for entry in racing for _ in range(runs.count(entry.id))]
        what = "with" if race.chosen else "without"
        counts[f"races {what} a choice whose program ran {len(ran)} times"] += 1
        counts["programs of another job than the chosen one"] += any(one.key != race.chosen for one in ran)
        counts["races of two sites"] += len(racing) > 1
    ids = [job for testbed in testbeds.values() for job in jobs_of(testbed, name)]
    counts["jobs that are not in the ledger"] += len(set(ids) - {entry.id for entry in entries})
    counts["programs of no race"] += len([run for run in runs if run not in ids])
    counts["names without a run"] += not runs
    return counts


def campaign(project: Path, testbeds: Testbeds, count: int, seed: int) -> Counter[str]:
    """Make that many trials of all faults in turn; what came of them."""
    counts, began = Counter[str](), time.monotonic()
    faults = {f"{(one := FAULTS[number % len(FAULTS)]).__name__}-{number}": one for number in range(count)}
    for number, (name, fault) in enumerate(faults.items()):
        struck = trial(project, testbeds, name, fault, seed * 1_000_000 + number)
        counts[f"{fault.__name__}: {'struck' if struck else 'not struck'}"] += 1
        if number % BATCH == BATCH - 1 or number == count - 1:
            counts += settled(project, testbeds, list(faults)[number - number % BATCH : number + 1])
            print(f"{number + 1} trials, {time.monotonic() - began:.0f} s: {dict(counts)}", flush=True)  # noqa: T201
    # A program that runs later leaves a further mark.
    marks = sum(len(runs_of(project, name)) for name in faults)
    decided = sum(number for what, number in counts.items() if what.startswith("races with a"))
    return counts + Counter({"programs more or less than decided races": abs(marks - decided)})


if __name__ == "__main__":
    with twin("generic") as generic, twin("daic", nodes=1) as daic:
        both = {"generic": generic, "daic": daic}
        with user_of(both) as own:
            print(campaign(own, both, int(sys.argv[1]), int(sys.argv[2])))  # noqa: T201
