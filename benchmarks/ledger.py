"""What a ledger with 100,000 jobs adds to the time of commands, compared with one of 20 jobs."""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from msgspec import structs

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.slurm.replies import JobState
from slurmgen.status.job import states_text

JOBS, FEW, ROUNDS = 100_000, 20, 15
COMMANDS = {
    "status": ["status"],
    "status --site": ["status", "--site", "daic"],
    "logs, no such id": ["logs", "9999999999"],
    "logs, no such name": ["logs", "nosuch"],
    "wait, no such name, of a site": ["wait", "nosuch", "--site", "daic"],
    "forget, no such name": ["forget", "nosuch"],
    "completion": ["status", ""],
}
"Command lines that read the ledger, and need no cluster."


def main() -> None:
    """Print the median time of each command with both ledgers, and the difference."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        few, many = (_filled(Path(name, str(number)), number) for number in (FEW, JOBS))
        for label, argv in COMMANDS.items():
            run = partial(_run, argv, completes=label == "completion")
            times = _alternated(partial(run, few), partial(run, many))
            _report(f"slurmgen {label}", *times)
        for label, action in METHODS.items():
            times = _alternated(partial(action, Ledger(_path(few))), partial(action, Ledger(_path(many))))
            _report(label, *times)


def _report(label: str, few: float, many: float) -> None:
    added = (many - few) * 1000
    print(f"{label:38} {few * 1000:7.1f} ms, {many * 1000:7.1f} ms: {added:+6.1f} ms")


def _path(state: Path) -> Path:
    return state / "slurmgen" / "ledger.sqlite"


def _filled(state: Path, number: int) -> Path:
    """A state folder whose ledger has that many jobs, all COMPLETED, at three sites."""
    ledger = Ledger(_path(state))
    ledger.add(_record(0))
    with ledger._writing() as database:
        from msgspec import structs

        from slurmgen.ledger.ledger import INSERT

        database.executemany(INSERT, (structs.asdict(_record(n)) for n in range(1, number)))
    return state


def _record(number: int) -> Record:
    site = ("daic", "olivia", "generic")[number % 3]
    state = JobState(id=str(number + 1), state="COMPLETED", exit_code="0:0", elapsed="01:00:00", name="train")
    day, second = divmod(number, 86_400)
    return Record(
        id=str(number + 1),
        site=site,
        via="ssh",
        host="login.example.org",
        name=f"train{number % 500}",
        folder=f"/home/me/slurmgen/project/runs/train-{number}",
        output="%x-%j.out",
        submitted=f"2026-01-{day + 1:02}T{time.strftime('%H:%M:%S', time.gmtime(second))}+00:00",
        key=f"20260101-{number:08}",
        fingerprint=f"{number:064}",
        snapshot=f"{number:064}",
        final=states_text([state]),
        command="slurmgen submit train --site daic",
        directory="/home/me/project",
    )


def _pending() -> Record:
    key = f"{random.getrandbits(64):x}"
    return structs.replace(_record(7), id="", key=key, fingerprint=key, state="pending", final="")


def _submitted(ledger: Ledger) -> None:
    """Claim and drop an entry, as a submission that is refused does."""
    ledger.drop(ledger.claim(_pending()).key)


METHODS: dict[str, Callable[[Ledger], object]] = {
    "find by id": lambda ledger: ledger.find("17"),
    "last": lambda ledger: ledger.last(),
    "last by name": lambda ledger: ledger.last("train17"),
    "last by name and site": lambda ledger: ledger.last("train17", "daic"),
    "claim and drop": _submitted,
    "save a final state": lambda ledger: ledger.save_final_states({_record(16): ("[]", "", "")}),
}


def _alternated(first: Callable[[], object], second: Callable[[], object]) -> list[float]:
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for number, action in enumerate((first, second)):
            start = time.perf_counter()
            action()
            times[number].append(time.perf_counter() - start)
    return [median(each) for each in times]


def _run(argv: list[str], state: Path, *, completes: bool) -> None:
    environ = os.environ | {"XDG_STATE_HOME": str(state)}
    if completes:
        words = " ".join(["slurmgen", *argv])
        environ |= {"_SLURMGEN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(argv))}
        argv = []
    subprocess.run(
        [sys.executable, "-m", "slurmgen", *argv], env=environ, capture_output=True, check=False, timeout=60
    )


if __name__ == "__main__":
    main()
