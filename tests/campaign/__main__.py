"""`python -m tests.campaign --trials 1000 --seed 1 --jobs 4`: make trials, and print a table of them.

`--only K` repeats trial K of a seed and prints all of it. `--fault` and `--command` choose some, `--table`
writes the table as Markdown, for docs/reliability.md. The exit code is 1 if anything was wrong.
"""

import argparse
import itertools
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.campaign.commands import COMMANDS, perform
from tests.campaign.faults import FAULTS, Fault
from tests.campaign.oracle import RIGHT, UNKNOWN, WRONG, Reply, Truth, Verdict
from tests.campaign.world import ACCOUNTING, PLAIN, World, trial, world

BROKEN = "harness failed"
KINDS = (RIGHT, UNKNOWN, *WRONG, BROKEN)


@dataclass(frozen=True)
class Planned:
    """A trial: its number and its seed determine all that is random in it."""

    number: int
    seed: int
    kind: str
    fault: Fault
    command: str

    @property
    def chance(self) -> random.Random:
        return random.Random(f"{self.seed} {self.number}")  # noqa: S311


@dataclass(frozen=True)
class Made:
    number: int
    fault: str
    command: str
    kind: str
    verdict: Verdict
    seconds: float
    reply: Reply | None = None
    truth: Truth | None = None


def plan(count: int, seed: int, faults: str = "", commands: str = "") -> list[Planned]:
    """Trials of all faults and commands in turn."""
    pairs = [
        (kind, fault, name)
        for fault in FAULTS
        for name in COMMANDS
        for kind in fault.kinds
        if fits(fault, name)
    ]
    random.Random(seed).shuffle(pairs)  # noqa: S311
    chosen = [
        Planned(number, seed, *pairs[number % len(pairs)])
        for number in range(count if not faults + commands else 100 * len(pairs))
    ]
    return [one for one in chosen if faults in one.fault.name and commands in {"", one.command}][:count]


def fits(fault: Fault, command: str) -> bool:
    return bool(fault.lives & set(COMMANDS[command].lives)) and (
        not fault.commands or command in fault.commands
    )


def make(shared: World, planned: Planned) -> Made:
    """One trial, whatever comes of it."""
    began, seen = time.monotonic(), (None, None)
    try:
        with trial(shared, planned.number) as one:
            verdict, *seen = perform(one, planned.fault, planned.command, planned.chance)
    except Exception:
        verdict = Verdict(BROKEN, traceback.format_exc())
        shared.heal()
    spent = time.monotonic() - began
    return Made(planned.number, planned.fault.name, planned.command, planned.kind, verdict, spent, *seen)


def run(planned: Sequence[Planned], jobs: int) -> Iterator[Made]:
    """Make the trials, some at a time; a process has one world."""
    context = get_context("fork")
    results = context.Queue()
    workers = list(_workers(context, planned, jobs, results))
    for worker in workers:
        worker.start()
    try:
        for _ in planned:
            yield results.get()
    except BaseException:
        for worker in workers:  # each ends its Slurm
            worker.terminate()
        raise
    finally:
        for worker in workers:
            worker.join()


def _workers(context: Any, planned: Sequence[Planned], jobs: int, results: Any) -> Iterator[Any]:
    index = itertools.count()
    for kind in (PLAIN, ACCOUNTING):
        numbers, mine = context.Queue(), [one.number for one in planned if one.kind == kind]
        for number in mine:
            numbers.put(number)
        count = min(len(mine), max(1, jobs // 2))
        for _ in range(count):
            numbers.put(None)
            args = (kind, next(index), planned, numbers, results)
            yield context.Process(target=_work, args=args)


def _work(kind: str, index: int, planned: Sequence[Planned], numbers: Any, results: Any) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:  # ports of its own
        os.environ |= {"PYTEST_XDIST_WORKER": f"gw{index}", "PYTEST_XDIST_WORKER_COUNT": "16"}
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C goes to all; the first process ends the others
    by_number = {one.number: one for one in planned}
    with world(kind) as shared:
        while (number := numbers.get()) is not None:
            results.put(make(shared, by_number[number]))


def _stop(*_: object) -> None:
    sys.exit(1)


def table(made: Sequence[Made]) -> str:
    """Fault by command: the trials, and what was wrong."""
    by_cell: dict[tuple[str, str], Counter[str]] = {}
    for one in made:
        by_cell.setdefault((one.fault, one.command), Counter())[one.verdict.kind] += 1
    commands = [name for name in COMMANDS if any(name == one.command for one in made)]
    lines = ["| fault | " + " | ".join(commands) + " |", "|---" * (len(commands) + 1) + "|"]
    for fault in dict.fromkeys(one.name for one in FAULTS if any(one.name == each.fault for each in made)):
        cells = [_cell(by_cell.get((fault, name), Counter())) for name in commands]
        lines.append(f"| {fault} | " + " | ".join(cells) + " |")
    totals = Counter(one.verdict.kind for one in made)
    lines += [
        "",
        f"{len(made)} trials: " + ", ".join(f"{totals[kind]} {kind}" for kind in KINDS if totals[kind]),
    ]
    return "\n".join(lines) + "\n"


def _cell(counts: Counter[str]) -> str:
    """The number of trials, and of those that were wrong by kind."""
    wrong = [f"**{counts[kind]} {kind}**" for kind in (*WRONG, BROKEN) if counts[kind]]
    unknown = [f"{counts[UNKNOWN]}?"] if counts[UNKNOWN] else []
    return " ".join([str(counts.total()), *unknown, *wrong]) if counts else ""


def report(one: Made, *, whole: bool) -> None:
    """Print a trial that was wrong, or any with all that was seen."""
    if whole or one.verdict.kind not in {RIGHT, UNKNOWN}:
        what = f"{one.fault} x {one.command} ({one.kind}), {one.seconds:.0f} s"
        print(f"trial {one.number}: {one.verdict.kind}: {what}\n    {one.verdict.why}")  # noqa: T201
        if one.reply and one.truth:
            seen = (
                f"exit code {one.reply.code}",
                f"stdout: {one.reply.out[:800]!r}",
                f"stderr: {one.reply.err[:800]!r}",
            )
            print("    " + "\n    ".join((*seen, f"truth: {one.truth}")), flush=True)  # noqa: T201


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4, help="processes, each with a Slurm of its own")
    parser.add_argument("--only", type=int, action="append", help="a trial to repeat; may be given again")
    parser.add_argument("--fault", default="", help="a part of the name of a fault")
    parser.add_argument("--command", default="", choices=["", *COMMANDS])
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    planned = plan(
        max([given.trials, *(number + 1 for number in given.only or ())]),
        given.seed,
        given.fault,
        given.command,
    )
    chosen = [one for one in planned if given.only is None or one.number in given.only]
    made: list[Made] = []
    signal.signal(signal.SIGTERM, _stop)
    try:
        for one in run(chosen, given.jobs):
            made.append(one)
            report(one, whole=given.only is not None)
            if len(made) % 20 == 0:
                counts = dict(Counter(each.verdict.kind for each in made))
                print(f"{len(made)} of {len(chosen)}: {counts}", flush=True)  # noqa: T201
    finally:  # also of a campaign that is stopped
        text = table(made)
        print(text, flush=True)  # noqa: T201
        if given.table:
            given.table.parent.mkdir(exist_ok=True)
            given.table.write_text(text)
    return int(any(one.verdict.kind not in {RIGHT, UNKNOWN} for one in made))


if __name__ == "__main__":
    sys.exit(main())
