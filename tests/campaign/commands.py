"""What a user types, in which state of the job, and what is true of its effect."""

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.campaign.faults import Fault, Over
from tests.campaign.oracle import ACTIVE, UNREACHED, Reply, Truth, Verdict, judge
from tests.campaign.runner import Done, Process
from tests.campaign.world import LISTENER, PATIENCE, Job, Trial
from tests.support.twins import eventually

PATIENCE_AT_END = 60.0
"Seconds in which a command that waits for a job that has ended must end."
CODES = (0, 0, 1, 7, 137)
"Of programs; 3 is that of a command that does not know."
SUBMITS = {"resubmit", "--after"}
"Commands that are repeated until they succeed, and may make one job."


@dataclass
class Scene:
    """One trial: the job that the command names, and another one that it must leave alone."""

    trial: Trial
    fault: Fault
    command: str
    chance: Random
    life: str
    job: Job
    other: Job
    code: int
    over: Over = lambda: True
    early: bool = False
    states: set[str] = field(default_factory=set)
    argv: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How the user names the job; one whose id is used again by its name."""
        return self.job.name if self.fault.reuses else self.job.id

    def maybe_json(self) -> list[str]:
        return self.chance.choice(([], ["--json"]))

    def run(self, *argv: str) -> Done:
        self.argv = argv
        return self.trial.run(*argv)

    def note(self) -> None:
        """Ask the controller for the state of the job."""
        shown = self.trial.shown(self.job.id)
        if shown.get("JobName") == self.job.name:
            self.states.add(shown["JobState"])


@dataclass(frozen=True)
class Command:
    act: Callable[[Scene], Done]
    lives: tuple[str, ...]
    effect: Callable[[Scene, Done], str] = lambda _scene, _done: ""
    "Why the effect is not what exit code 0 claims, when all is healed."
    waits: bool = False


def top(scene: Scene) -> Done:
    named = [scene.name] if scene.chance.random() < 0.7 else []
    return scene.run("top", "--once", *named, *scene.maybe_json())


def canceled(scene: Scene, _done: Done) -> str:
    """Whether the job stops, which takes Slurm a moment."""
    if scene.life == "ended":
        return ""
    with suppress(AssertionError):
        eventually(lambda: scene.trial.state(scene.job.id) not in ACTIVE, 20)
    state = scene.trial.state(scene.job.id)
    return "" if state == "CANCELLED" else f"exit code 0, but the job is {state}"


def wait(scene: Scene) -> Done:
    """Until the job ends, which it does when the fault is over and two more queries were made."""
    process = scene.trial.start("wait", scene.name, *scene.maybe_json())
    if scene.life == "ended":
        return process.done(PATIENCE_AT_END)
    _until(process, scene.over)
    calls = scene.trial.calls()
    _until(process, lambda: scene.trial.calls() >= calls + 2)
    return _ended(scene, process)


def follow(scene: Scene) -> Done:
    """Until the job ends, which it does when the fault is over and a further line has been shown."""
    process = scene.trial.start("logs", "-f", scene.name)
    if scene.life == "ended":
        return process.done(PATIENCE_AT_END)
    _until(process, scene.over)
    scene.job.say("line in between")
    _until(process, lambda: "line in between" in process.out)
    return _ended(scene, process)


def _until(process: Process, seen: Callable[[], bool]) -> None:
    """Wait for something, as long as the command runs; one that does nothing hangs later."""
    with suppress(AssertionError):
        eventually(lambda: not process.runs or seen(), 60)


def _ended(scene: Scene, process: Process) -> Done:
    scene.early = not process.runs
    scene.note()
    scene.trial.ended(scene.job, scene.code)
    return process.done(PATIENCE)


def fetched(scene: Scene, _done: Done) -> str:
    result, want = scene.trial.project / "got/result.txt", f"result of {scene.job.name}\n"
    found = result.read_text() if result.exists() else None
    return "" if found == want else f"exit code 0, but result.txt is {found!r}"


def prune(scene: Scene) -> Done:
    yes = ["--yes"] if "--yes" in scene.trial.run("snapshots", "--help").out else []
    return scene.run("snapshots", "--prune", "--older-than", "0", *yes, *scene.trial.route())


def resubmitted(scene: Scene, done: Done) -> str:
    """One job of that name and key more, with the id that was printed."""
    id_ = json.loads(done.out)["id"]
    ids = [
        one for one, name in scene.trial.listed().items() if name == scene.job.name and one != scene.job.id
    ]
    scene.trial.jobs += [Job(scene.job.name, scene.job.gate, one) for one in ids]
    return "" if ids == [id_] else f"prints {id_}, but the new jobs are {ids}"


def after(scene: Scene) -> Done:
    scene.trial.written(f"next-{scene.job.name}")
    return scene.run(
        "submit", f"next-{scene.job.name}.sh", "--after", scene.name, "--json", *scene.trial.route()
    )


def waits(scene: Scene, done: Done) -> str:
    """The new job waits for the job, unless that has ended well."""
    job = scene.trial.jobs[-1]
    scene.trial.submitted(job, done.out)
    if (count := list(scene.trial.listed().values()).count(job.name)) != 1:
        return f"there are {count} jobs {job.name}"
    shown = scene.trial.shown(job.id)
    if shown.get("JobName") != job.name:
        return f"job {job.id} is {shown.get('JobName')}"
    on, must = shown.get("Dependency", ""), scene.life != "ended"
    return "" if must == (scene.job.id in on) else f"its dependency is {on}"


def port(scene: Scene) -> Done:
    """Connect through the forwarded port, and then press ^C."""
    far = eventually((scene.job.gate / "port").read_text) if scene.life == "running" else "9"
    process = scene.trial.start("port", scene.name, f"0:{far}")
    _until(process, lambda: "http://" in process.out)
    seen = b""
    if process.runs and "http://" in process.out:
        near = int(process.out.rpartition(":")[2])
        with suppress(OSError), socket.create_connection(("127.0.0.1", near), 10) as client:
            client.settimeout(60)
            seen = client.recv(100)
        process.interrupt()
    done = process.done(60)
    stopped = done.code in {130, 1, -2}  # by ^C
    if not stopped:
        return Done(done.code, "", done.err)
    return Done(0, seen.decode(), "") if seen else Done(3, "", f"error: {done.err}")


BOTH, ANY = ("running", "ended"), ("running", "ended", "pending")
COMMANDS = {
    "status": Command(lambda scene: scene.run("status", scene.name, *scene.maybe_json()), ANY),
    "wait": Command(wait, BOTH, waits=True),
    "logs": Command(lambda scene: scene.run("logs", scene.name), BOTH),
    "logs --json": Command(lambda scene: scene.run("logs", scene.name, "--json"), BOTH),
    "logs -f": Command(follow, BOTH, waits=True),
    "cancel": Command(lambda scene: scene.run("cancel", scene.name, *scene.maybe_json()), ANY, canceled),
    "fetch": Command(lambda scene: scene.run("fetch", scene.name, "--to", "got"), ("ended",), fetched),
    "prune": Command(prune, BOTH),
    "resubmit": Command(lambda scene: scene.run("resubmit", scene.name, "--json"), ("ended",), resubmitted),
    "--after": Command(after, BOTH, waits),
    "shell": Command(
        lambda scene: scene.run("shell", scene.name, "--", "printenv", "SLURM_JOB_ID"),
        ("running",),
        lambda scene, done: "" if done.out == f"{scene.job.id}\n" else f"prints {done.out!r}",
    ),
    "port": Command(
        port,
        ("running",),
        lambda scene, done: "" if done.out == scene.job.name else f"the port replies {done.out!r}",
    ),
    "top": Command(top, ("running",)),
    "page": Command(lambda scene: scene.trial.run(scene.job.key, "state", function="page"), BOTH),
    "page: cancel": Command(
        lambda scene: scene.trial.run(scene.job.key, "cancel", function="page"), BOTH, canceled
    ),
}


def prepared(trial: Trial, fault: Fault, command: str, chance: Random) -> Scene:
    """The jobs of a trial, without a fault yet."""
    lives = [one for one in COMMANDS[command].lives if one in fault.lives]
    life, code = chance.choice(lives), chance.choice(CODES)
    if command in SUBMITS:
        code = 0
    fault.prepare(trial)
    tag = f"{chance.randrange(16**6):06x}"
    held = "--hold" if life == "pending" else ""
    job = trial.job(f"job-{tag}", more=held, program=LISTENER if command == "port" else "")
    if life != "pending":
        trial.running(job)
    if life == "ended":
        trial.ended(job, code)
    if fault.reuses:
        trial.world.forget_all(int(job.id))
    # A job that is not slurmgen's is as good, and costs less.
    ours = fault.reuses or command == "prune"
    other = trial.running((trial.job if ours else trial.foreign_job)(f"other-{tag}"))
    assert not fault.reuses or other.id == job.id, f"{job.id} was not used again, but {other.id}"
    return Scene(trial, fault, command, chance, life, job, other, code)


def perform(trial: Trial, fault: Fault, command: str, chance: Random) -> tuple[Verdict, Reply, Truth]:
    """One trial."""
    scene, kind = prepared(trial, fault, command, chance), COMMANDS[command]
    scene.note()
    log = trial.log(scene.job)
    with fault.broken(trial, chance) as scene.over:
        done = kind.act(scene)
    trial.world.heal()
    scene.note()
    if fault.reuses:
        scene.states.add("COMPLETED" if scene.code == 0 else "FAILED")
    reply = Reply(command, done.code, done.out, done.err, scene.early)
    return _judged(scene, kind, reply, log)


def _judged(scene: Scene, kind: Command, reply: Reply, log: str) -> tuple[Verdict, Reply, Truth]:
    fault, trial = scene.fault, scene.trial
    untouched = trial.link is not None and not trial.link.struck
    result = _effect(scene, kind, Done(reply.code, reply.out, reply.err))
    truth = Truth(
        id=scene.job.id,
        name=scene.job.name,
        states=_states(scene),
        exit_code=scene.code if scene.states & {"COMPLETED", "FAILED"} else None,
        age=time.monotonic() - trial.began,
        log=(log, trial.log(scene.job)),
        must_know=not fault.reuses
        and (fault.harmless or untouched or kind.waits or scene.command in fault.retried),
        forgotten=fault.reuses,
        skewed=trial.skewed,
        harmed=tuple(_harm(scene)),
        result=result,
    )
    return judge(reply, truth), reply, truth


def _effect(scene: Scene, kind: Command, done: Done) -> str:
    """Why the effect is not as claimed; that of a submission without a reply shows when it is repeated."""
    if done.code == UNREACHED and scene.command in SUBMITS and not scene.fault.reuses:
        scene.trial.connect(scene.trial.server)
        done = scene.trial.run(*scene.argv)
        if done.code != 0:
            return f"repeated without the fault: exit code {done.code}: {done.err[-300:]}"
    return kind.effect(scene, done) if done.code == 0 else ""


def _states(scene: Scene) -> frozenset[str]:
    """Those that were seen, and those between."""
    between = {"COMPLETING"} if len(scene.states) > 1 or "cancel" in scene.command else set()
    return frozenset(scene.states | between)


def _harm(scene: Scene) -> list[str]:
    """What happened to jobs that the command did not name, and to the files of those that run."""
    state = scene.trial.state(scene.other.id)
    harmed = [] if state == "RUNNING" else [f"the other job is {state}"]
    if "cancel" not in scene.command and "CANCELLED" in scene.states:
        harmed.append("the job was canceled")
    running = [scene.other, *([scene.job] if scene.life == "running" and scene.command == "prune" else [])]
    harmed += [
        f"the folder of {job.name}, which runs, was removed"
        for job in running
        if job.folder and not Path(job.folder).is_dir()
    ]
    return harmed
