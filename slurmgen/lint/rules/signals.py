"""Signals before the time limit, and requeues."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from slurmgen.lint.finding import Edit, Finding, rule
from slurmgen.lint.reader import Command, Launch, Script, Span
from slurmgen.lint.reader.header import Directive
from slurmgen.lint.rules.common import (
    insert,
    is_literal,
    rank_launchers,
    runs_a_shell_script,
    steps,
    words_of,
)

_FORM = r"(?:(?P<flags>[RB]+):)?(?P<signal>[A-Za-z]+\d?|\d+)(?:@\d+)?"
_REQUEUES = {"requeue", "requeuehold"}
_NUMBERS = {"1": "HUP", "2": "INT", "3": "QUIT", "10": "USR1", "12": "USR2", "15": "TERM", "18": "CONT"}


class SignalRequest(NamedTuple):
    """The value of `--signal`."""

    directive: Directive
    name: str
    "Without the prefix SIG."
    to_batch_shell: bool


def requested_signal(script: Script) -> SignalRequest | None:
    """The signal that Slurm sends before the time limit, if the header requests one."""
    directive = script.header.last("signal")
    match = re.fullmatch(_FORM, directive.value) if directive else None
    if directive is None or match is None:
        return None
    return SignalRequest(directive, _plain(match["signal"]), "B" in (match["flags"] or ""))


def traps(commands: Iterable[Command], signal: str) -> list[Command]:
    """The `trap` commands for a signal, including those that ignore it."""
    return [c for c in commands if c.name == "trap" and signal in map(_plain, c.texts[1:])]


def requeues(script: Script) -> list[Command]:
    """The `scontrol requeue` and `scontrol requeuehold` commands."""
    return [c for c in script.commands if c.name == "scontrol" and _REQUEUES & set(c.texts[1:3])]


def _plain(signal: str) -> str:
    name = signal.upper().removeprefix("SIG")
    return _NUMBERS.get(name, name)


@rule("SG601", "note")
def signal_usr1(script: Script) -> Iterator[Finding]:
    """The job requests the signal USR1, which NCCL handles itself.

    ## What it checks
    Checks for `--signal=USR1@...` without `B:` in a job with GPUs that starts Python or a launcher.

    ## Why it matters
    Some versions of NCCL handle USR1 themselves. The training script may then not receive the signal, and is
    killed at the time limit without saving a checkpoint.

    ## Example
        #SBATCH --signal=USR1@120

    ## Use instead
        #SBATCH --signal=USR2@120

    Change the signal in the training script as well, for example with Lightning's
    SLURMEnvironment(requeue_signal=).

    ## When to ignore
    If the script is known to receive the signal, for example because NCCL is not used.

    ## Reference
    facebookincubator/submitit pull request 1697 ; Lightning-AI/pytorch-lightning issue 14610
    """
    request = requested_signal(script)
    is_for_steps = request and request.name == "USR1" and not request.to_batch_shell
    if request and is_for_steps and script.job.has_gpus and script.launches:
        yield Finding(
            request.directive.value_span,
            "NCCL handles USR1 itself, so the training script may not receive it",
            "use USR2 here and in the training script",
        )


@rule("SG602", "error")
def signal_to_batch_shell(script: Script) -> Iterator[Finding]:
    """The batch shell does not handle the requested signal in time.

    ## What it checks
    Checks for `--signal=B:...` in a script that has no `trap` for the signal, or that has one but runs every
    launch in the foreground.

    ## Why it matters
    Without a trap, the signal terminates the batch shell, and the job ends. bash runs a trap only after the
    command in the foreground has ended, which is too late.

    ## Example
        #SBATCH --signal=B:USR2@120
        trap 'touch stop' USR2
        srun python train.py

    ## Use instead
        #SBATCH --signal=B:USR2@120
        trap 'touch stop' USR2
        srun python train.py &
        wait $! || wait $!

    The signal interrupts the first `wait`; the second one waits for the end of the step.

    ## When to ignore
    If a program that the script calls sets the trap.

    ## Reference
    https://www.gnu.org/software/bash/manual/html_node/Signals.html
    """
    request = requested_signal(script)
    if request is None or not request.to_batch_shell or not script.launches or script.shell.sourced:
        return
    if any(layer.word.text == "exec" for launch in script.launches for layer in launch.layers[:1]):
        return
    if not traps(script.commands, request.name):
        fact = "terminates the batch shell, which has no trap for it"
        advice = f"add `trap '...' {request.name}`, or remove `B:`"
    elif not any("background" in launch.command.place for launch in script.launches):
        fact = "is handled only after the launch has ended, because it runs in the foreground"
        advice = "start the launch with `&`, then `wait`"
    else:
        return
    yield Finding(request.directive.value_span, f"{request.name} {fact}", advice)


_FORWARDED = ("TERM", "INT", "HUP", "QUIT")
_HARMLESS = ("CONT", "CHLD", "URG", "WINCH")


@rule("SG603", "error")
def signal_kills_launcher(script: Script) -> Iterator[Finding]:
    """The requested signal kills the launcher before the ranks can save.

    ## What it checks
    Checks for `--signal` without `B:` in a job whose step runs torchrun, accelerate or deepspeed, if the
    launcher neither ignores the signal nor forwards it to its ranks.

    ## Why it matters
    Slurm sends the signal to every process of the step. The launcher does not handle it and is killed, and
    its ranks are killed with it.

    ## Example
        #SBATCH --signal=USR2@120
        srun torchrun --standalone --nproc-per-node=4 train.py

    ## Use instead
        #SBATCH --signal=USR2@120
        srun bash -c 'trap "" USR2; exec torchrun --standalone --nproc-per-node=4 train.py'

    The ranks inherit the ignored signal, and must install their own handler for it.

    ## When to ignore
    If the version of the launcher forwards the signal.

    ## Reference
    pytorch/pytorch issue 154849 and pull request 160690
    """
    request = requested_signal(script)
    if request is None or request.to_batch_shell or request.name in _FORWARDED + _HARMLESS:
        return
    for launch in rank_launchers(script):
        if launch.step and not _survives(launch, request.name):
            yield Finding(
                launch.span,
                f"{request.name} kills {launch.kind}, and its ranks with it",
                f"""start it with `srun bash -c 'trap "" {request.name}; exec {launch.kind} ...'`""",
            )


def _survives(launch: Launch, signal: str) -> bool:
    before = [command for layer in launch.layers for command in layer.before]
    given = launch.options.given.get("signals-to-handle")
    forwarded = launch.env.get("TORCHELASTIC_SIGNALS_TO_HANDLE", given.value if given else "")
    return bool(traps(before, signal)) or signal in forwarded or launch.options.open


_ANY_FAILURE = r"(-ne|-gt|!=|>)\s*['\"]?0\b"
_ONE_CODE = r"(-eq|==|\s=)\s*['\"]?[1-9]"


@rule("SG604", "warning")
def requeue_on_failure(script: Script) -> Iterator[Finding]:
    """The job requeues itself after any failure.

    ## What it checks
    Checks for `scontrol requeue` that runs after any failure of the training, or unconditionally after a
    launch.

    ## Why it matters
    A bug in the training script fails every time. The job requeues itself until the user cancels it, and is
    charged for each run.

    ## Example
        srun python train.py || scontrol requeue "$SLURM_JOB_ID"

    ## Use instead
        srun python train.py || code=$?
        if [ "${code:-0}" -eq 85 ]; then scontrol requeue "$SLURM_JOB_ID"; fi

    The training script exits with a code of its own (here 85) if it was interrupted and has saved a
    checkpoint.

    ## When to ignore
    If the number of restarts is limited elsewhere.

    ## Reference
    Lightning-AI/pytorch-lightning issue 20542
    """
    starts = {launch.command.span.start for launch in script.launches}
    for command in requeues(script):
        if _ignores_exit_code(command, script.source.plain, starts):
            yield Finding(
                command.span,
                "the job requeues itself after any failure, including bugs",
                "requeue only after the exit code that means: interrupted, checkpoint saved",
            )


def _ignores_exit_code(command: Command, text: str, starts: set[int]) -> bool:
    if not command.place:
        return any(start < command.span.start for start in starts)
    conditions = " ".join(command.conditions)
    if "function" in command.place or re.search(_ONE_CODE, conditions):
        return False
    after_launch = command.place[-1] == "or" and re.search(r"\b(srun|torchrun|accelerate|python)", conditions)
    return bool(after_launch or re.search(_ANY_FAILURE, conditions))


@rule("SG605", "error")
def requeue_array(script: Script) -> Iterator[Finding]:
    """A task of a job array may requeue the whole array.

    ## What it checks
    Checks for `scontrol requeue $SLURM_JOB_ID` in a job array.

    ## Why it matters
    For one task of an array, this ID is also the ID of the whole array. That task requeues all tasks.

    ## Example
        #SBATCH --array=0-9
        scontrol requeue "$SLURM_JOB_ID"

    ## Use instead
        #SBATCH --array=0-9
        scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"

    ## When to ignore
    If all tasks of the array are meant to run again.

    ## Reference
    Lightning-AI/pytorch-lightning issue 15022
    """
    if not script.header.last("array"):
        return
    for command in requeues(script):
        word = command.words[-1]
        if word.names and word.names <= {"SLURM_JOB_ID", "SLURM_JOBID"}:
            task = '"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"'
            yield Finding(
                word.span,
                "in a job array, this ID may be that of the whole array",
                f"write `{task}`",
                (Edit(word.span, task),) if is_literal(script, word) else (),
            )


@rule("SG606", "warning")
def requeue_truncates_log(script: Script) -> Iterator[Finding]:
    """A job that requeues itself overwrites its log.

    ## What it checks
    Checks for `scontrol requeue` or `--requeue` in a script without `--open-mode=append`.

    ## Why it matters
    A requeued job keeps its ID and opens the same log file. By default Slurm truncates the file, and the
    output of the earlier run is lost.

    ## Example
        #SBATCH --output=%x-%j.out
        scontrol requeue "$SLURM_JOB_ID"

    ## Use instead
        #SBATCH --output=%x-%j.out
        #SBATCH --open-mode=append
        scontrol requeue "$SLURM_JOB_ID"

    ## When to ignore
    If the training writes a log of its own, or the cluster sets JobFileAppend.

    ## Reference
    https://slurm.schedmd.com/sbatch.html (--open-mode)
    """
    header = script.header
    place = next(iter(requeues(script)), header.last("requeue"))
    if place and header.directives and not header.appends_to_logs:
        at = script.source.line_span(header.directives[-1].span.end).end
        yield Finding(
            place.span,
            "the requeued job overwrites its log",
            "add `#SBATCH --open-mode=append`",
            (Edit(Span(at, at), "#SBATCH --open-mode=append\n"),),
        )


_STEPS = ("srun", "mpirun", "mpiexec")


@rule("SG608", "error")
def signal_without_step(script: Script) -> Iterator[Finding]:
    """The job requests a signal, but has no step that could receive it.

    ## What it checks
    Checks for `--signal` without `B:` in a script whose launches all run without srun.

    ## Why it matters
    Slurm sends the signal to the job steps, and not to the batch shell or its children. Without a step it
    reaches no process, and the job ends at the time limit without saving.

    ## Example
        #SBATCH --signal=USR2@120
        torchrun --standalone --nproc-per-node=4 train.py

    ## Use instead
        #SBATCH --signal=B:USR2@120
        trap 'kill -USR2 "$pid"' USR2
        torchrun --standalone --nproc-per-node=4 train.py &
        pid=$!
        wait "$pid" || wait "$pid"

    ## When to ignore
    If a program that the script starts runs srun itself.

    ## Reference
    https://slurm.schedmd.com/sbatch.html (--signal)
    """
    request = requested_signal(script)
    if request is None or request.to_batch_shell or not script.launches or script.shell.sourced:
        return
    words = words_of(script)
    has_step = any(launch.step for launch in script.launches) or not words.isdisjoint(_STEPS)
    if not has_step and not runs_a_shell_script(words):
        yield Finding(
            request.directive.value_span,
            "Slurm sends the signal to job steps, and the script starts none with srun",
            "write `--signal=B:...` with a trap, or start the launch with srun",
        )


@rule("SG609", "note")
def surviving_tasks(script: Script) -> Iterator[Finding]:
    """A step with several tasks runs on after one of them has failed.

    ## What it checks
    Checks for an srun with several tasks and without `--kill-on-bad-exit`.

    ## Why it matters
    The other ranks wait for the failed one until they time out. Many clusters set KillOnBadExit, and most
    launchers end the step themselves, so the rule is opt-in.

    ## Example
        srun python train.py

    ## Use instead
        srun --kill-on-bad-exit=1 python train.py

    ## When to ignore
    If the cluster sets KillOnBadExit=1.

    ## Reference
    https://slurm.schedmd.com/srun.html (--kill-on-bad-exit)
    """
    for launch, step in steps(script):
        if (script.step(launch).ntasks or 1) > 1 and step.options.lacks("kill-on-bad-exit"):
            yield Finding(
                step.word.span,
                "if a task fails, the others may wait for it",
                "add `--kill-on-bad-exit=1`",
                insert(script, step.word, step.word.span.end, " --kill-on-bad-exit=1"),
            )
