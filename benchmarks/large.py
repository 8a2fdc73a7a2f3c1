"""50,000 files, a file of 3 GB, and a log that grows by 50 MB/s, over the sshd of a twin on this machine.

`files` compares a project of small files with `tar | ssh tar` and `rsync -a`: whole processes, in turn, and
the order of each pair changes. The median of the ratios counts: other work on the machine affects both
sides of a pair. CPU time, of the processes on this side, depends less on it. `file` and `log` measure the
memory of slurmgen and of what it starts. Only `files` needs rsync.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.submit import Bench, project
from tests.support.twins import twin

FILE, RATE, SECONDS = 3_000_000_000, 50_000_000, 20
PEERS = (("tar | ssh tar", 1.5), ("rsync -a", 2.0), ("rsync -a", 2.0))
"Of a first, an unchanged and a changed submission, and the most times as long that ours may take."
MOST = 150
"MB of memory."
Pair = tuple[tuple[float, float], tuple[float, float]]
"Wall and CPU seconds of ours and theirs."
WRITER = f"""import os, time
part, due = (b"7" * 99 + b"\\n") * ({RATE} // 1000), time.monotonic()
for _ in range({SECONDS} * 10):
    left = memoryview(part)
    while left:
        left = left[os.write(1, left):]
    due += 0.1
    time.sleep(max(0, due - time.monotonic()))
"""


class Large(Bench):
    """Routes to one twin, and the measurements."""

    def pair(self, number: int, ours: Callable[[], object], theirs: Callable[[], object]) -> Pair:
        """Both, the one or the other first; printed, since a run takes long."""
        bare = self.cost(theirs) if number % 2 else None
        mine = self.cost(ours)
        bare = bare or self.cost(theirs)
        print(f"  {mine[0]:.2f} s, {mine[1]:.2f} of CPU; {bare[0]:.2f} s, {bare[1]:.2f} of CPU", flush=True)
        return mine, bare

    def cost(self, work: Callable[[], object]) -> tuple[float, float]:
        """Wall time, and CPU time of the processes that it starts on this side."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = self.seconds(work)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def ratio(self, what: str, peer: str, pairs: list[Pair], goal: float) -> None:
        """Print two lines."""
        for kind, column in (("", 0), (", CPU time", 1)):
            times = [(mine[column], bare[column]) for mine, bare in pairs]
            mine, bare = (statistics.median(side) for side in zip(*times, strict=True))
            ratios = sorted(one / other for one, other in times)
            print(
                f"{what}{kind}: {mine:.2f} s; {peer}: {bare:.2f} s; median ratio "
                f"{statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} pairs"
                + (f" (goal: at most {goal})" if column == 0 else ""),
                flush=True,
            )

    def files(self, count: int) -> None:
        """New projects; each then unchanged, then with one changed file."""
        times: dict[str, list[Pair]] = {"first": [], "unchanged": [], "one changed": []}
        for number in range(self.runs):
            folder, to = (
                project(self.testbed.folder / f"p{number}", count, 2_000 * count),
                self.testbed.folder / "peer",
            )
            self.project(number, folder, to, times)
            for each in (to, folder, self.testbed.folder / "far" / folder.name):
                shutil.rmtree(each)
        for (what, pairs), (peer, goal) in zip(times.items(), PEERS, strict=True):
            self.ratio(f"{count:,} files, {what}", peer, pairs, goal)

    def project(self, number: int, folder: Path, to: Path, times: dict[str, list[Pair]]) -> None:
        """The submissions of one project, and the same by hand."""
        ours = partial(self.ours, folder)
        pipe = f"tar -c . | ssh -F {self.config} {self.host} 'mkdir {to} && tar -x -C {to}'"
        rsync = partial(
            self.call, ["rsync", "-a", "-e", f"ssh -F {self.config}", f"{folder}/", f"{self.host}:{to}/"]
        )
        times["first"].append(self.pair(number, ours, partial(self.call, ["sh", "-c", pipe], cwd=folder)))
        rsync()  # the times of folders
        for what in ("unchanged", "one changed"):
            for again in range(2):
                if what == "one changed":
                    (folder / "0/0.py").write_text(f"print({again})\n")
                self.settle()
                times[what].append(self.pair(number + again, ours, rsync))
        self.settle()

    def file(self, size: int) -> None:
        """The memory of a submission of one big file."""
        folder = project(self.testbed.folder / "one", 1, 10)
        with (folder / "big").open("wb") as big:
            for _ in range(size // 1_000_000):
                big.write(os.urandom(1_000_000))
        start = time.perf_counter()
        memory = self.peak([*self.submit(), "--max-size", "4G"], folder)
        self.memory(f"submit of {size / 1e9:g} GB", memory, time.perf_counter() - start)

    def log(self, seconds: int) -> None:
        """The memory of `logs -f`."""
        folder = project(self.testbed.folder / "log", 1, 10)
        (folder / "0/0.py").write_text(WRITER.replace(f"range({SECONDS} ", f"range({seconds} "))
        runs = [word for word in self.submit() if word not in ("--sbatch", "hold")]
        self.call([*runs, "--python-env", f"venv:{sys.prefix}"], cwd=folder)
        start = time.perf_counter()
        memory = self.peak([*self.slurmgen("logs"), "last", "--follow"], folder)
        self.memory(f"logs -f of {RATE / 1e6:g} MB/s for {seconds} s", memory, time.perf_counter() - start)

    def peak(self, argv: list[str], folder: Path) -> int:
        """The most memory of a command and of what it runs at that moment, in MB."""
        most = 0
        errors = self.testbed.folder / "errors"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                argv, cwd=folder, env=self.environ(), stdout=subprocess.DEVNULL, stderr=stderr
            )
            while process.poll() is None:
                most = max(most, sum(map(resident, family(process.pid))))
                time.sleep(0.05)
        if process.returncode:
            raise SystemExit(errors.read_text()[-2000:])
        return most // 1000

    def memory(self, what: str, peak: int, seconds: float) -> None:
        """Print one line."""
        print(f"{what}: at most {peak} MB of memory (goal: {MOST}), {seconds:.0f} s", flush=True)


def family(pid: int) -> list[str]:
    """The process, its children, and theirs."""
    found = [str(pid)]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += children.read_text().split()
            except OSError:
                continue
    return found


def resident(pid: str) -> int:
    """The peak of the resident memory of a process, in kB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def main() -> None:
    """Run the named measurements, else all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=["files", "file", "log", []], default=[])
    parser.add_argument("--client", choices=["paramiko", "openssh"], default="openssh")
    parser.add_argument(
        "--runs", type=int, default=5, help="new projects; 2 pairs of each other kind for each"
    )
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=FILE, help="bytes of the big file")
    asked = parser.parse_args()
    wanted = asked.what or ["files", "file", "log"]
    with twin("generic", ssh=True) as testbed:
        bench = Large(testbed, asked.client, 0.0, asked.runs)
        print(f"client {asked.client}")
        if "files" in wanted:
            if shutil.which("rsync"):
                bench.files(asked.files)
            else:
                print("many files: not measured, since rsync is not installed (apt-get install rsync)")
        if "file" in wanted:
            bench.file(asked.size)
        if "log" in wanted:
            bench.log(SECONDS)


if __name__ == "__main__":
    main()
