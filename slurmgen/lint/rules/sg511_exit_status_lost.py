"""A later command hides the exit status of the last launch.

## What it checks
Checks for scripts without `set -e` whose last command is one that does not depend on the last launch, such as
`echo`, `exit 0` or `wait`, and that do not exit with a status of their own. `wait` without a process ID
returns 0 whatever the background processes return, also with `set -e`.

## Why it matters
The exit status of a job is that of the last command of its script. Slurm reports COMPLETED although training
failed, and dependent jobs start.

## Example
    srun python train.py
    echo "done"

## Use instead
    set -e
    srun python train.py
    echo "done"

## When to ignore
If the state of the job does not matter.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Launch, Script

CODE = "SG511"
SEVERITY = "warning"
SUMMARY = "a later command hides the exit status of a launch"

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


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the commands after the last launch."""
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
            f"{script.source.position(launch.command.span.start).line}: Slurm reports COMPLETED",
            _advice(after[-1], is_background),
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


def _advice(last: Command, is_background: bool) -> str:
    if is_background and last.name == "wait" and len(last.words) == 1:
        return "wait for each process, `wait $PID || status=1`, and end with `exit $status`"
    return "write `set -e` at the top of the script"
