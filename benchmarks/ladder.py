"""The rungs of examples/ladder: the first as one process, the others as two ranks with one thread each.

Prints a table of Markdown: medians over interleaved rounds, of the epochs after the first one. An epoch
includes its evaluation and what the rung writes. The start is all before the end of the first epoch.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

LADDER = Path(__file__).parent.parent / "examples" / "ladder"
SAMPLES = 8192
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def epochs_of(rung: Path, flags: list[str]) -> list[float]:
    """Run a rung in an empty folder; the seconds to its first line, and from each line to the next."""
    launcher = [sys.executable] if rung.name.startswith("1_") else TORCHRUN
    environ = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryDirectory() as folder:
        times = [time.perf_counter()]
        command = [*launcher, str(rung), *flags]
        with subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE) as process:
            assert process.stdout
            times += [time.perf_counter() for _ in process.stdout]
        assert process.returncode == 0
    return [after - before for before, after in pairwise(times)]


def one_round(rungs: list[Path], flags: list[str]) -> list[list[float]]:
    """Run each rung once, and report it on stderr."""
    found = []
    for rung in rungs:
        found.append(epochs_of(rung, flags))
        seconds = " ".join(f"{each:.2f}" for each in found[-1])
        print(f"load {os.getloadavg()[0]:.1f}, {rung.name}: {seconds} s", file=sys.stderr, flush=True)
    return found


def rounds_within(limit: float, rungs: list[Path], flags: list[str]) -> list[list[list[float]]]:
    """As many rounds as the time allows, and at least one."""
    start, rounds = time.monotonic(), [one_round(rungs, flags)]
    while (time.monotonic() - start) * (len(rounds) + 1) / len(rounds) < limit:
        rounds.append(one_round(rungs, flags))
    return rounds


def main() -> None:
    """Measure all rungs in each round, then print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=210, help="start no round that would end later")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    flags = ["--epochs", str(args.epochs), "--batch-size", str(args.batch_size)]
    rungs = sorted(LADDER.glob("[0-9]_*.py"))
    rounds = rounds_within(args.seconds, rungs, flags)

    rates = [[SAMPLES / statistics.median(rest) for _, *rest in each] for each in rounds]
    print(f"{len(rounds)} rounds, {os.cpu_count()} CPUs\n")
    print("| rung | samples/s | of rung 1 | range of the rounds | start, s |")
    print("|---|---|---|---|---|")
    for number, rung in enumerate(rungs):
        ratios = [rate[number] / rate[0] for rate in rates]
        rate = statistics.median(rate[number] for rate in rates)
        start = statistics.median(each[number][0] for each in rounds)
        ratio = f"{statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f}"
        print(f"| {rung.name} | {rate:,.0f} | {ratio} | {start:.1f} |")


if __name__ == "__main__":
    main()
