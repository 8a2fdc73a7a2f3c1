"""A real Slurm behind a real sshd, and the truth, which its controller tells without the fault between."""

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import structs

from slurmgen.twin import daemons
from tests.campaign import runner
from tests.support.links import Fault, Link, link
from tests.support.sshd import Server, privilege_separation_folder, sshd
from tests.support.twins import WITHOUT_OTHERS, Testbed, eventually, twin

PLAIN, ACCOUNTING = "generic", "generic with accounting"
PATIENCE = 100.0
"Seconds after which a command hangs."
RUNNING, ENDED = frozenset({"RUNNING"}), frozenset({"COMPLETED", "FAILED", "CANCELLED"})
PROGRAMS = ("squeue", "sacct", "scontrol", "scancel", "sbatch")
FORCE = """#!/bin/bash
here=$(readlink -f {now}) || exit 1
export HOME=$here/home; cd "$HOME"
[ -r .environment ] && . ./.environment
[ -r .bashrc ] && . ./.bashrc
eval "$SSH_ORIGINAL_COMMAND"
"""
# Counts each call, and lets a note decide: $n is the number of earlier calls.
WRAPPER = """#!/bin/bash
n=$(cat {trial}/calls.{name} 2>/dev/null || echo 0); echo $((n + 1)) > {trial}/calls.{name}
real={real}
[ -r {trial}/plan.{name} ] && . {trial}/plan.{name}
exec $real "$@"
"""
JOB = """#!/bin/bash
#SBATCH --job-name={name} --time=10 --ntasks=1 --cpus-per-task=1 --mem=20M --output=%x-%j.out {more}
echo "first line of {name}"
{program}
touch {gate}/started
until [ -s {gate}/end ]; do
  [ ! -s {gate}/say ] || {{ cat {gate}/say; rm {gate}/say; }}
  sleep 0.1
done
echo "last line of {name}"
echo "result of {name}" > result.txt
exit $(cat {gate}/end)
"""
LISTENER = """python3 -c '
import pathlib, socket
with socket.create_server(("127.0.0.1", 0)) as server:
    pathlib.Path("{gate}/port").write_text(str(server.getsockname()[1]))
    while True:
        with server.accept()[0] as client:
            client.sendall(b"{name}")
' &"""


@dataclass
class World:
    """What the trials of one process share; one trial at a time uses it."""

    folder: Path
    testbed: Testbed
    login: Server
    narrow: Server
    "With one session for each connection."
    accounting: bool

    def daemon(self, name: str) -> daemons.Daemon:
        return next(one for one in self.testbed.twin.daemons if one.name == name)

    def restart(self, *names: str) -> None:
        for daemon in map(self.daemon, names):
            if daemon.pid is None:
                daemons.start(daemon)

    def forget_all(self, first_id: int) -> None:
        """Start the controller without its records; the next job has this id."""
        controller = self.daemon("slurmctld")
        daemons.stop(controller)
        for path in (self.testbed.twin.folder / "state").iterdir():
            if path.name.startswith(("job_state", "hash.")):  # -c alone goes on with the ids
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        conf = self.testbed.twin.slurm_conf
        conf.write_text(re.sub(r"FirstJobId=\d+", f"FirstJobId={first_id}", conf.read_text()))
        daemons.start(structs.replace(controller, argv=(*controller.argv, "-c")))
        eventually(self.is_idle)

    def is_idle(self) -> bool:
        idle = self.testbed.tried(
            "sinfo", "--noheader", "--Node", "--states=idle,mixed", "--format=%N"
        ).split()
        return set(idle) == set(self.testbed.twin.nodes)

    def heal(self) -> None:
        """Have every daemon run and reply."""
        for daemon in self.testbed.twin.daemons:
            if pid := daemon.pid:
                os.kill(pid, signal.SIGCONT)
            else:
                daemons.start(daemon)
        eventually(lambda: "UP" in self.testbed.tried("scontrol", "ping"))


@contextmanager
def world(kind: str) -> Iterator[World]:
    """A twin, two sshds, and a process that starts commands."""
    privilege_separation_folder()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True)))
        accounts = ["ours"] if kind == ACCOUNTING else []
        testbed = stack.enter_context(twin("generic", nodes=2, accounts=accounts))
        (folder / "force").write_text(FORCE.format(now=folder / "now"))
        (folder / "force").chmod(0o755)
        servers = []
        for name, more in (("login", ""), ("narrow", "MaxSessions 1\n")):
            (folder / name).mkdir()
            forced = f"{more}ForceCommand {folder}/force\nMaxStartups 100"
            servers.append(stack.enter_context(sshd(folder / name, testbed.twin.environ(), forced)))
        yield World(folder, testbed, *servers, accounting=bool(accounts))


@dataclass
class Job:
    """A job of a trial; `gate` is the folder by which its program is steered."""

    name: str
    gate: Path
    id: str = ""
    folder: str = ""
    key: str = ""

    def say(self, text: str) -> None:
        """Let it print a line."""
        (self.gate / "new").write_text(text + "\n")
        (self.gate / "new").rename(self.gate / "say")

    def end(self, code: int) -> None:
        (self.gate / "new").write_text(f"{code}\n")
        (self.gate / "new").rename(self.gate / "end")

    @property
    def started(self) -> bool:
        return (self.gate / "started").exists()


@dataclass
class Trial:
    """One user with one project, whose way to Slurm a fault may break."""

    world: World
    folder: Path
    stack: ExitStack
    server: Server
    began: float = field(default_factory=time.monotonic)
    link: Link | None = None
    skewed: bool = False
    jobs: list[Job] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def environ(self) -> dict[str, str]:
        own = {
            f"XDG_{name}_HOME": str(self.folder / name.lower())
            for name in ("STATE", "CONFIG", "CACHE", "DATA")
        }
        kept = {name: text for name, text in os.environ.items() if not name.startswith(WITHOUT_OTHERS)}
        return kept | own | {"HOME": str(self.folder / "user"), "NO_COLOR": "1", "COLUMNS": "200"}

    def route(self) -> list[str]:
        return ["--site", "generic", "--host", "far", "--ssh-config", str(self.folder / "ssh_config")]

    def connect(self, server: Server, *faults: Fault) -> None:
        """Reach a server, through a bad link if there are faults."""
        self.server = server
        reached = server
        if faults:
            self.link = self.stack.enter_context(link(server.port, *faults))
            reached = Server(server.folder, self.link.port)
        reached.config(self.folder)

    def plan(self, program: str, text: str) -> None:
        """Have a command of Slurm follow a note."""
        (self.folder / "new").write_text(text + "\n")
        (self.folder / "new").rename(self.folder / f"plan.{program}")

    def calls(self, program: str = "squeue") -> int:
        with suppress(OSError, ValueError):
            return int((self.folder / f"calls.{program}").read_text())
        return 0

    def start(self, *argv: str, function: str = "command") -> runner.Process:
        number = len(list(self.folder.glob("*.out")))
        return runner.start(function, argv, self.environ(), self.project, self.folder / f"{number}")

    def run(self, *argv: str, function: str = "command", seconds: float = PATIENCE) -> runner.Done:
        return self.start(*argv, function=function).done(seconds)

    def job(self, name: str, *options: str, more: str = "", program: str = "") -> Job:
        """Write a job's script, and submit it without a fault; it runs until it may end."""
        job = self.written(name, more=more, program=program)
        reply = self.run("submit", f"{name}.sh", *self.route(), "--json", *options)
        assert reply.code == 0, f"submit: {reply.err}"
        self.submitted(job, reply.out)
        return job

    def foreign_job(self, name: str) -> Job:
        """A job of the same user that slurmgen does not know."""
        job = self.written(name)
        options = ("--parsable", f"--chdir={self.project}", str(self.project / f"{name}.sh"))
        job.id = self.world.testbed.run("sbatch", *options).strip()
        return job

    def written(self, name: str, *, more: str = "", program: str = "") -> Job:
        job = Job(name, self.folder / f"gate-{name}")
        job.gate.mkdir()
        given = {"name": name, "gate": job.gate}
        text = JOB.format(**given, more=more, program=program.format(**given))
        (self.project / f"{name}.sh").write_text(text)
        self.jobs.append(job)
        return job

    def submitted(self, job: Job, out: str) -> None:
        reply = json.loads(out)
        job.id, job.folder, job.key = reply["id"], reply["folder"], reply["key"]

    def running(self, job: Job) -> Job:
        eventually(lambda: job.started)
        return job

    def ended(self, job: Job, code: int) -> Job:
        job.end(code)
        eventually(lambda: self.state(job.id) in ENDED, 100)
        return job

    def shown(self, id_: str) -> dict[str, str]:
        """The controller's record of a job, asked directly."""
        text = self.world.testbed.tried("scontrol", "--oneliner", "show", "job", id_)
        return dict(pair.split("=", 1) for pair in text.split() if "=" in pair)

    def state(self, id_: str) -> str:
        return self.shown(id_).get("JobState", "")

    def listed(self) -> dict[str, str]:
        """The names of all jobs that the controller knows, by their ids."""
        text = self.world.testbed.run("squeue", "--noheader", "--states=all", "--format=%A %j")
        return dict(line.split(maxsplit=1) for line in text.splitlines())

    def log(self, job: Job) -> str:
        with suppress(OSError):
            return Path(job.folder, f"{job.name}-{job.id}.out").read_text()
        return ""


@contextmanager
def trial(shared: World, number: int) -> Iterator[Trial]:
    """A user of their own; at the end nothing is broken and none of their jobs is left."""
    folder = shared.folder / f"t{number}"
    for name in ("home", "bin", "project", "user"):
        (folder / name).mkdir(parents=True)
    now = shared.folder / "now"
    now.unlink(missing_ok=True)
    now.symlink_to(folder)
    path = f"{folder}/bin:{Path(sys.executable).parent}:$PATH"
    (folder / "home/.bash_profile").write_text(f"export PATH={path}\n")
    for name in PROGRAMS:
        real = shutil.which(name)
        if real and (shared.accounting or name != "sacct"):
            (folder / "bin" / name).write_text(WRAPPER.format(trial=folder, name=name, real=real))
            (folder / "bin" / name).chmod(0o755)
    with ExitStack() as stack:
        one = Trial(shared, folder, stack, shared.login)
        one.connect(shared.login)
        try:
            yield one
        finally:
            stack.close()
            shared.heal()
            left = [job.id for job in one.jobs if job.id]
            if left:
                shared.testbed.tried("scancel", *left)
            shared.testbed.tried("scancel", *(f"--name={job.name}" for job in one.jobs[:1]))
    shutil.rmtree(folder, ignore_errors=True)
