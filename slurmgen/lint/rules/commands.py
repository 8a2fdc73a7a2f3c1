"""Commands whose failure is hidden, that end too early, or that do not reach their file."""

import re
from collections.abc import Iterator
from itertools import pairwise

from slurmgen.lint.finding import Edit, Finding, rule
from slurmgen.lint.reader import Command, Launch, Script, Span

_DECLARES = re.compile(r"\b(?:export|declare|typeset|local|readonly)\b[^;&|]*$")
"A builtin that hides the exit status of the commands in its arguments."
_FIRST_LINE = (["-n", "1"], ["-n1"], ["-1"], ["--lines=1"])


@rule("SG309", "warning")
def head_under_pipefail(script: Script) -> Iterator[Finding]:
    """`scontrol | head` can end a script that sets errexit and pipefail.

    ## What it checks
    Checks for `scontrol ... | head -n 1` in scripts that set both errexit (`set -e`) and pipefail. `export
    NAME=$(...)` is not reported: export hides the exit status.

    ## Why it matters
    head exits after the first line. If scontrol is still writing, it is killed by SIGPIPE, the pipeline
    fails, and the job ends with exit code 141. This happens rarely, and mostly in jobs with many nodes.

    ## Example
        set -eo pipefail
        MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

    ## Use instead
        set -eo pipefail
        MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)

    ## When to ignore
    If the job has few nodes: the list then fits into the buffer of the pipe.

    ## Reference
    https://www.gnu.org/software/bash/manual/html_node/Pipelines.html
    """
    for before, command in pairwise(script.commands):
        if before.name == "scontrol" and _is_fragile(command) and not _is_hidden(script, before):
            yield Finding(
                command.span,
                "head may close the pipe early, which ends the script under errexit and pipefail",
                "write `sed -n 1p`, which reads all of its input",
                (Edit(command.span, "sed -n 1p"),),
                safe=True,
            )


def _is_hidden(script: Script, command: Command) -> bool:
    start = command.span.start
    return bool(_DECLARES.search(script.source.plain[script.source.line_span(start).start : start]))


def _is_fragile(command: Command) -> bool:
    last = command.place[-1:] == ("last in pipe",)
    return (
        command.name == "head"
        and last
        and command.texts[1:] in _FIRST_LINE
        and {"errexit", "pipefail"} <= command.settings
    )


@rule("SG506", "warning")
def exit_code_lost(script: Script) -> Iterator[Finding]:
    """A pipe hides the exit code of a launch.

    ## What it checks
    Checks for a launch that is piped into another program, such as tee, without `set -o pipefail`. Scripts
    that use `PIPESTATUS` are not reported.

    ## Why it matters
    The exit code of a pipe is that of its last program. If tee succeeds, Slurm reports COMPLETED although
    training failed, and dependent jobs start.

    ## Example
        srun python train.py | tee train.log

    ## Use instead
        set -o pipefail
        srun python train.py | tee train.log

    ## When to ignore
    If the state of the job does not matter.

    ## Reference
    https://www.gnu.org/software/bash/manual/html_node/Pipelines.html
    """
    for launch in script.launches:
        command = launch.command
        piped = "pipe" in command.place and "output" not in command.place
        if piped and "pipefail" not in command.settings and "PIPESTATUS" not in script.source.plain:
            yield Finding(
                launch.span,
                "the pipe hides a failure of this command: Slurm reports COMPLETED",
                "write `set -o pipefail` before this line",
            )


_WAITS = ("wait", "sleep", "tail", "srun", "fg", "while")


@rule("SG507", "error")
def background_without_wait(script: Script) -> Iterator[Finding]:
    """The script ends while its launches are still running.

    ## What it checks
    Checks for launches in the background (`&`) that are followed by neither `wait` nor another command that
    keeps the script running, such as a launch in the foreground.

    ## Why it matters
    A job ends with its batch script, and Slurm kills all processes that are still running. Training is killed
    right after its start.

    ## Example
        srun python train.py &

    ## Use instead
        srun python train.py &
        wait

    ## When to ignore
    If the job is meant to end with its script.
    """
    background = [launch for launch in script.launches if "background" in launch.command.place]
    if not background or "function" in background[-1].command.place:
        return
    last = background[-1]
    after = [command for command in script.commands if command.span.start > last.command.span.start]
    fronts = [command for command in after if "background" not in command.place]
    waits = any(command.name in _WAITS or not command.name for command in fronts)
    starts = {command.span for command in fronts}
    if not waits and not any(launch.command.span in starts for launch in script.launches):
        yield Finding(
            last.span,
            "the script does not wait for this command, so Slurm kills it when the script ends",
            "wait for each process at the end of the script: `wait $PID`",
            _wait_at_end(script, last),
        )


def _wait_at_end(script: Script, launch: Launch) -> tuple[Edit, ...]:
    """Wait for the process, if it is the only one: `wait $!` returns its status."""
    in_background = [command for command in script.commands if "background" in command.place]
    if in_background != [launch.command] or launch.command.place != ("background",):
        return ()
    end = len(script.source.text)
    newline = "" if script.source.text.endswith("\n") else "\n"
    return (Edit(Span(end, end), f"{newline}wait $!\n"),)


_CANNOT_FAIL = ("echo", "date", "printf", ":")


@rule("SG509", "warning")
def errexit_switched_off(script: Script) -> Iterator[Finding]:
    """`set +e` disables `set -e` long before the step.

    ## What it checks
    Checks for `set +e` after `set -e` if other commands follow before the launch, without another `set` among
    them.

    ## Why it matters
    A failure of the preparation, such as the lookup of the first node, a `cd` or a `module load`, is ignored.
    Only the exit code of the step needs special handling.

    ## Example
        set -e
        set +e
        cd /data/run
        srun python train.py

    ## Use instead
        set -e
        cd /data/run
        code=0
        srun python train.py || code=$?

    ## When to ignore
    If the commands before the step are allowed to fail.

    ## Reference
    https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html
    """
    starts = {launch.command.span.start for launch in script.launches}
    switched_off: Command | None = None
    hidden = False
    for command in sorted(script.commands, key=lambda command: command.span.start):
        if command.span.start in starts:
            if switched_off and hidden and "errexit" not in command.settings:
                yield _ignored_failures(switched_off)
            switched_off = None
        elif command.name == "set":
            switched_off = command if "+e" in command.texts and "errexit" in command.settings else None
            hidden = False
        else:
            hidden |= command.name not in _CANNOT_FAIL


def _ignored_failures(command: Command) -> Finding:
    return Finding(
        command.span,
        "failures of the commands between this line and the step are ignored",
        "delete the line, and store the exit code of the step: `srun ... || code=$?`",
    )


@rule("SG510", "error")
def cut_command(script: Script) -> Iterator[Finding]:
    """A comment, a blank line, or blanks behind a backslash end a command before its last options.

    ## What it checks
    Checks for a line that ends with a backslash and is followed by a comment or a blank line, and for blanks
    after the backslash, if the next line starts with an option. The text of `bash -c` is checked, too.

    ## Why it matters
    The shell ends the command there. The remaining options are lost, and the shell runs the next line as a
    command of its own ("--nnodes: command not found").

    ## Example
        srun torchrun --nproc-per-node=4 \\
          # --tee=3 \\
          --nnodes=2 train.py

    ## Use instead
        srun torchrun --nproc-per-node=4 \\
          --nnodes=2 train.py

    ## When to ignore
    Never, if the next line belongs to the command.

    ## Reference
    https://www.gnu.org/software/bash/manual/html_node/Escape-Character.html
    """
    in_strings = {cut for launch in script.launches for layer in launch.layers for cut in layer.cuts}
    for cut in (*script.shell.cuts, *sorted(in_strings)):
        line = script.source.shown_line(cut.span.start)
        yield Finding(
            cut.span,
            f"{cut.why} ends the command: the options after line {line} are not part of it",
            "delete it, or move it above the command",
        )


_INDEPENDENT = frozenset(
    """
    echo printf date deactivate true : sleep wait times hostname conda module ml cd popd pwd clear
    seff sacct squeue sstat scancel sinfo scontrol nvidia-smi dcgmi kill pkill rm rmdir touch set unset export
    exit free df uptime uname whoami shopt jobs disown env printenv mail reportseff
    """.split()
)
"Commands whose exit status says nothing about the launch before them."
_HANDLED = frozenset(("test", "before or", "before and", "or", "output", "pipe", "uncalled"))
"Where the status of a command is used, or where it is not one of the main line of the script."
_MESSAGE = re.compile(r"^\s*(?:echo|printf)\b.*", re.MULTILINE)
_EXITS = re.compile(r"\b(?:exit|return)[ \t]+[^0\s;]|\bfalse\b|\bset -\w*e|\brequeue\b|\bsbatch\b")
_TRAP = re.compile(r"\btrap\b.*\bERR\b")


@rule("SG511", "warning")
def exit_status_lost(script: Script) -> Iterator[Finding]:
    """A later command hides the exit status of the last launch.

    ## What it checks
    Checks for scripts without `set -e` whose last command is one that does not depend on the last launch,
    such as `echo`, `exit 0` or `wait`, and that do not exit with a status of their own. `wait` without a
    process ID returns 0 whatever the background processes return, also with `set -e`.

    ## Why it matters
    The exit status of a job is that of the last command of its script. Slurm reports COMPLETED although
    training failed, and dependent jobs start.

    ## Example
        srun python train.py
        echo "done"

    ## Use instead
        set -e
        srun python train.py
        echo "done"

    ## When to ignore
    If the state of the job does not matter.
    """
    launch = next(
        (found for found in reversed(script.started) if "uncalled" not in found.command.place), None
    )
    if launch is None or _TRAP.search(script.source.plain):
        return
    is_background = "background" in launch.command.place
    after = _commands_after(script, launch)
    if is_background:
        after = _from_wait(after)
    elif "errexit" in launch.command.settings:
        return
    start = after[0].span.start if is_background and after else launch.command.span.end
    if after and _hides(launch, after[-1]) and not _exits(script, start):
        yield Finding(
            after[-1].span,
            f"`{after[-1].name}` hides a failure of the launch on line "
            f"{script.source.shown_line(launch.command.span.start)}: Slurm reports COMPLETED",
            _status_advice(after[-1], is_background),
        )


def _commands_after(script: Script, launch: Launch) -> list[Command]:
    """The commands of the main line that run after a launch."""
    commands = script.commands
    at = next((i for i in range(len(commands) - 1, -1, -1) if commands[i] is launch.command), len(commands))
    return [
        command
        for command in commands[at + 1 :]
        if not {"function", "output", "subshell"} & set(command.place) and command.texts != ["exit"]
    ]


def _from_wait(after: list[Command]) -> list[Command]:
    """The commands that may hide the status of a background process: none if nothing waits for it."""
    at = max((i for i, command in enumerate(after) if command.name == "wait"), default=len(after))
    if at == len(after):
        return []
    if len(after[at].words) == 1:
        return after[at:]
    return [] if "errexit" in after[at].settings else after[at + 1 :]


def _hides(launch: Launch, last: Command) -> bool:
    handled = _HANDLED & set(launch.command.place)
    if handled == {"pipe"} and "pipefail" in launch.command.settings:
        handled = frozenset()
    return not handled and last.name in _INDEPENDENT and not _EXITS.search(" ".join(last.texts))


def _exits(script: Script, start: int) -> bool:
    """Whether the script exits with a status of its own from here on, or continues elsewhere."""
    text = script.source.plain[start:]
    return bool(_EXITS.search(_MESSAGE.sub("", text)))


def _status_advice(last: Command, is_background: bool) -> str:
    if is_background and last.name == "wait" and len(last.words) == 1:
        return "wait for each process, `wait $PID || status=1`, and end with `exit $status`"
    return "write `set -e` at the top of the script"


_SELF = r"['\"]?\$(?:0\b|\{0\}|\{?BASH_SOURCE\b(?:\[0\]|\})*)"
_OWN_FOLDER = re.compile(
    rf"\b(?:dirname|readlink|realpath)\b[^|;)`\n]{{0,40}}?{_SELF}|\$\{{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}}"
)
_SLURM_DEFAULT = re.compile(r"\$\{SLURM_\w+:?-[^}]*$")
"The default of a variable that Slurm sets, so that no job uses it."


@rule("SG517", "warning")
def folder_of_script(script: Script) -> Iterator[Finding]:
    """The script looks for files next to itself, but slurmd runs a copy of it.

    ## What it checks
    Checks for `dirname "$0"`, `${BASH_SOURCE[0]}`, `realpath "$0"` and the like in a script with directives
    for sbatch. A branch that depends on a variable of Slurm is not reported.

    ## Why it matters
    sbatch copies the script to the spool directory of slurmd, such as /var/spool/slurmd/job123/slurm_script.
    `$0` is the path of this copy: files and directories next to the original script are not found.

    ## Example
        source "$(dirname "$0")/setup.sh"

    ## Use instead
        source "$SLURM_SUBMIT_DIR/setup.sh"

    `scontrol show job "$SLURM_JOB_ID"` prints the path of the original script as Command.

    ## When to ignore
    If the script is run with bash or srun only, and never by sbatch.

    ## Reference
    https://slurm.schedmd.com/sbatch.html (SLURM_SUBMIT_DIR) ; https://slurm.schedmd.com/slurm.conf.html
    (SlurmdSpoolDir)
    """
    if not script.header.directives or "Command=" in script.source.plain:
        return
    guarded = [c.span for c in script.commands if any("SLURM" in text for text in c.conditions)]
    guarded += [command.span for command in script.shell.outside]
    for found in _OWN_FOLDER.finditer(script.source.plain, script.header.end):
        text = script.source.plain
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        is_guarded = any(span.start <= found.start() < span.end for span in guarded)
        is_guarded = is_guarded or bool(_SLURM_DEFAULT.search(before))
        if "#" not in before and not is_guarded and not before.lstrip().startswith(("echo", "printf")):
            yield Finding(
                Span(found.start(), found.end()),
                "sbatch runs a copy of the script in the spool directory of slurmd, not the file itself",
                "write `$SLURM_SUBMIT_DIR`, or the path",
            )
            return
