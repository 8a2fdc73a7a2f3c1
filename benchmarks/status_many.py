"""`slurmgen status --all` of 10,000 jobs at three sites whose replies are made up: time and logins."""

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from unittest.mock import patch

from msgspec import structs

from slurmgen.ledger.ledger import INSERT, Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Closing, Completed, command_name

JOBS, SITES, ROUNDS = 10_000, ("daic", "olivia", "generic"), 5
FORMS = {"a table": [], "JSON": ["--json"]}
CHILD = "child"
ASKED: Counter[str] = Counter()
LONGEST = [0]
"Bytes of the longest word of a command line."


class Site(Closing):
    """A login node on which even jobs are running, and odd ones have ended."""

    where, login, shell = "made up", "none", ("bash", "-lc")

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """The reply of squeue or sacct."""
        ASKED[command_name(argv)] += 1
        LONGEST[0] = max(LONGEST[0], *(len(word) for word in argv))
        words = next((word for word in argv if word.startswith("--jobs=")), "--jobs=")
        ids = re.findall("[0-9]+", words)
        rows = map(_queued, filter(_runs, ids)) if command_name(argv) == "squeue" else map(_ended, ids)
        return Completed(0, "".join(rows).encode())


def _runs(number: str) -> bool:
    return int(number) % 2 == 0


def _queued(number: str) -> str:
    return f"{number}|RUNNING|None|1:00:00|2:00:00|2026-01-01T00:00:00|n1||train\n"


def _ended(number: str) -> str:
    row = "COMPLETED|0:0|01:00:00|02:00:00|2026-01-01T00:00:00|n1|cpu=4,mem=16G|03:00:00||train\n"
    return f"{number}|{row}{number}.batch|{row}"


def main() -> None:
    """Print the own time, and what was asked of the sites."""
    if sys.argv[1:2] == [CHILD]:
        _status(sys.argv[2:])
    for form, options in FORMS.items():
        runs = [_measured(options) for _ in range(ROUNDS)]
        asked = runs[0][1]
        print(f"status of {JOBS} jobs as {form}: {median(seconds for seconds, _ in runs):.2f} s; {asked}")


def _measured(options: list[str]) -> tuple[float, str]:
    """Seconds of CPU of the whole process, and what it asked."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        _fill(Ledger(Path(folder, "slurmgen", "ledger.sqlite")))
        argv = [sys.executable, __file__, CHILD, "status", "--all", *options]
        environ = os.environ | {"XDG_STATE_HOME": folder}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        reply = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert reply.stdout.count("RUNNING") == JOBS / 2, reply.stdout[-1000:] + reply.stderr
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, reply.stderr.splitlines()[-1]


def _fill(ledger: Ledger) -> None:
    ledger.add(_record(0))
    with ledger._writing() as database:
        database.executemany(INSERT, (structs.asdict(_record(number)) for number in range(1, JOBS)))


def _record(number: int) -> Record:
    site = SITES[number % len(SITES)]
    return Record(
        id=str(10_000_000 + number),
        site=site,
        via="ssh",
        host=f"login.{site}.example.org",
        name="train",
        folder=f"/home/me/slurmgen/project/runs/train-{number}",
        output="%x-%j.out",
        submitted=f"2026-01-01T00:00:00.{number:06}+00:00",
        key=f"20260101-{number:08}",
    )


def _status(words: list[str]) -> None:
    """Run the command with sites that are made up, and print what it asked of them."""
    from slurmgen.cli import _exit_code, status

    def connect(_route: Route) -> Site:
        ASKED["login"] += 1
        return Site()

    with patch.object(status, "connect", connect):
        code = _exit_code(words)
    asked = ", ".join(f"{number} {name}" for name, number in ASKED.items())
    print(f"{asked}; longest word: {LONGEST[0]} bytes", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
