"""Submission, compared with commands typed by hand: `ssh HOST sbatch`, `tar | ssh tar`, `rsync -a`.

All to a new account on a twin on this machine, whole processes, in turn; medians. `--client openssh`
takes OpenSSH's own client, `--delay 50` adds milliseconds to each round trip (in a network namespace of its
own, as root), `--runs N` repeats each so often.
"""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import slow_link
from tests.support.twins import Testbed, settled, twin

UNCHANGED, FIRST = (1000, 10_000_000), (5000, 50_000_000)
"Files, and bytes in all."
JOB = ["--framework", "python", "--script", "0/0.py", "--sbatch", "hold", "--time", "00:05:00"]


def project(folder: Path, files: int, size: int) -> Path:
    """A project with `files` files of random bytes, a hundred per folder."""
    for number in range(files):
        path = folder / f"{number // 100}" / f"{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size // files))
    return folder


def new_account(twin_folder: Path, home: Path, address: str) -> None:
    """Give the user an empty home folder, so that the login shell starts fast."""
    shutil.copytree("/etc/skel", home)
    settings = twin_folder / "sshd_config"
    text = settings.read_text()
    text = text.replace("ListenAddress 127.0.0.1", f"ListenAddress {address}")
    settings.write_text(text.replace("SetEnv ", f"SetEnv HOME={home} "))
    pid_file = next(line.split()[1] for line in text.splitlines() if line.startswith("PidFile "))
    os.kill(int(Path(pid_file).read_text()), signal.SIGHUP)


class Bench:
    """A twin, and its routes for both sides."""

    def __init__(self, testbed: Testbed, client: str | None, delay: float, runs: int) -> None:
        self.testbed, self.client, self.runs = testbed, client, runs
        self.host = testbed.twin.ssh_host or ""
        self.config = testbed.folder / "ssh_config"
        text = Path(str(testbed.twin.ssh_config)).read_text()
        known = testbed.folder / "known_hosts"
        address = slow_link.FAR if delay else "127.0.0.1"
        keys = (Path(str(testbed.twin.folder)) / "known_hosts").read_text()
        known.write_text(keys.replace("127.0.0.1", address))
        old = next(line for line in text.splitlines() if "UserKnownHostsFile" in line)
        text = text.replace("127.0.0.1", address).replace(old, f"  UserKnownHostsFile {known}")
        self.config.write_text(text)
        home = testbed.folder / "home"
        new_account(Path(str(testbed.twin.folder)), home, slow_link.NEAR if delay else address)
        while self.answer("echo $HOME") != str(home):  # sshd restarts
            time.sleep(0.1)

    def answer(self, command: str) -> str:
        """The output of a remote command; empty if the connection fails."""
        argv = ["ssh", "-F", str(self.config), self.host, command]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()

    def seconds(self, work: Callable[[], object]) -> float:
        """Wall time of a call."""
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    def settle(self) -> None:
        """Wait until the background work on the remote host has finished."""
        for parent in self.testbed.folder.glob("far/*"):
            settled(parent)

    def slurmgen(self, command: str) -> list[str]:
        """A command of slurmgen for this host."""
        way = ["--site", "generic", "--host", self.host, "--ssh-config", str(self.config)]
        way += ["--ssh-client", self.client] if self.client else []
        return [str(Path(sys.executable).with_name("slurmgen")), command, *way]

    def submit(self) -> list[str]:
        """`slurmgen submit` of a held job."""
        return [*self.slurmgen("submit"), "--remote-dir", str(self.testbed.folder / "far"), *JOB]

    def ours(self, folder: Path) -> None:
        """`slurmgen submit`, the whole process."""
        self.call(self.submit(), cwd=folder)

    def environ(self) -> dict[str, str]:
        """The environment of commands."""
        environ = {**self.testbed.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        return environ

    def ssh(self, command: str, **more: object) -> None:
        """`ssh HOST COMMAND`."""
        self.call(["ssh", "-F", str(self.config), self.host, command], **more)

    def call(self, argv: list[str], **more: object) -> None:
        """Run a command; it must succeed."""
        subprocess.run(argv, env=self.environ(), check=True, capture_output=True, **more)  # type: ignore[call-overload]

    def report(self, what: str, floor: str, times: list[tuple[float, float]], goal: float) -> None:
        """Print one line."""
        mine, bare = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"{what}: {mine:.2f} s; {floor}: {bare:.2f} s; ratio {mine / bare:.2f} (goal: at most {goal})",
            flush=True,
        )

    def unchanged(self) -> None:
        """An unchanged project, compared with submitting a script by hand."""
        folder = project(self.testbed.folder / "unchanged", *UNCHANGED)
        script = self.testbed.folder / "job.sh"
        script.write_text("#!/bin/bash\n#SBATCH --hold --output=/dev/null\ntrue\n")
        self.ours(folder)
        time.sleep(2.1)  # files that changed within two seconds are hashed again
        self.ours(folder)
        times = []
        for _ in range(self.runs):
            self.settle()
            with script.open() as text:
                bare = self.seconds(lambda: self.ssh("sbatch --parsable", stdin=text))
            times.append((self.seconds(lambda: self.ours(folder)), bare))
        self.report("submit of 1,000 unchanged files", "ssh HOST sbatch --parsable < script", times, 1.3)

    def first(self) -> None:
        """A new project, compared with sending it by hand."""
        times = []
        for number in range(max(3, self.runs // 3)):
            folder = project(self.testbed.folder / f"first-{number}", *FIRST)
            there = self.testbed.folder / f"tar-{number}"
            pipe = f"tar -c . | ssh -F {self.config} {self.host} 'mkdir {there} && tar -x -C {there}'"
            bare = self.seconds(lambda: self.call(["sh", "-c", pipe], cwd=folder))  # noqa: B023
            times.append((self.seconds(lambda: self.ours(folder)), bare))  # noqa: B023
            self.settle()
            for each in (
                there,
                self.testbed.folder / "far" / folder.name,
            ):  # disk space that was used before is faster
                shutil.rmtree(each)
            shutil.rmtree(folder)
        self.report("first submit of 5,000 files, 50 MB", "tar | ssh tar", times, 1.2)

    def second(self) -> None:
        """One changed file, compared with rsync."""
        folder = project(self.testbed.folder / "second", *FIRST)
        there, remote = self.testbed.folder / "rsync", f"ssh -F {self.config}"
        argv = ["rsync", "-a", "-e", remote, f"{folder}/", f"{self.host}:{there}/"]
        self.ours(folder)
        self.call(argv)
        times = []
        for number in range(max(3, self.runs // 2)):
            (folder / "0/0.py").write_text(f"print({number})\n")
            self.settle()
            bare = self.seconds(lambda: self.call(argv))
            times.append((self.seconds(lambda: self.ours(folder)), bare))
        self.report("submit with one of 5,000 files changed", "rsync -a", times, 1.0)


def main() -> None:
    """Print a line for each pair: the time, the baseline, the ratio and its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=["paramiko", "openssh"])
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS")
    parser.add_argument("--runs", type=int, default=11)
    asked = parser.parse_args()
    if asked.delay:
        slow_link.enter()
        slow_link.mirror(asked.delay / 1000)
    with twin("generic", ssh=True) as testbed:
        bench = Bench(testbed, asked.client, asked.delay / 1000, asked.runs)
        bench.unchanged()
        bench.first()
        if shutil.which("rsync"):
            bench.second()
        else:
            print("submit with one of 5,000 files changed: rsync is not installed here")


if __name__ == "__main__":
    main()
