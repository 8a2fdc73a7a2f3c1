"""The script uses a variable that it never sets.

## What it checks
Checks for a command, or a command under srun, whose name is a variable that neither the script nor a file
that it sources sets, and for a variable that the script does not set while it sets one with a similar name:
`$MODEL_v1` reads MODEL_v1 and not MODEL, and `$JOBDIR` is not `$JOB_DIR`.

## Why it matters
If the variable is empty, the shell or srun runs the next word instead: a training script that is not
executable, or an option.

## Example
    LAUNCH="torchrun --standalone --nproc-per-node=4"
    srun $LAUNCHER train.py

## Use instead
    LAUNCHER="torchrun --standalone --nproc-per-node=4"
    srun $LAUNCHER train.py

## When to ignore
If the variable is passed with `sbatch --export`, or set in the shell that submits the job.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script
from slurmgen.lint.reader.words import Word

CODE = "SG512"
SEVERITY = "warning"
SUMMARY = "the script does not set the variable"

_GIVEN = re.compile(r"SLURM_\w+|CONDA_\w+|SHELL|EDITOR|PYTHON|HOME|[@*#?$!_]|\d")
"Variables that the environment may set."

_SHORT = 4
"Shorter names are alike by chance."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the names of the commands, and the first words after the options of srun."""
    if script.shell.sourced:
        return
    known = _set_names(script.source.plain)
    for command in script.commands:
        word = _program(command)
        name = _variable(word) if word else None
        if word and name and name not in known:
            yield Finding(word.span, f"the script never sets ${name}", f"set `{name}`, or write the command")
    yield from _misspelt(script, known)


def _misspelt(script: Script, known: set[str]) -> Iterator[Finding]:
    """Unset variables with the name of one that is set and more letters, or with other underscores."""
    plain = {name.replace("_", "").lower(): name for name in known if len(name) > _SHORT}
    uses = [(word.span, word.raw, word.names) for command in script.commands for word in command.words]
    uses += [(found.span, found.raw, found.names) for found in script.shell.assignments]
    for span, raw, names in uses:
        for name in sorted(names - known):
            joined = next((part for part in _fronts(name) if part in known and f"${name}" in raw), None)
            meant = joined or plain.get(name.replace("_", "").lower())
            if meant and not _GIVEN.fullmatch(name) and not re.search(rf"\b{name}:?[-=?+]", raw):
                advice = f"write `${{{meant}}}` in braces" if joined else f"write `${meant}`"
                yield Finding(span, f"the script sets ${meant}, but not ${name}", advice)
                return


def _fronts(name: str) -> list[str]:
    """The parts of a name that end before an underscore."""
    return [name[:at] for at in range(1, len(name)) if name[at] == "_" and at > 1]


def _program(command: Command) -> Word | None:
    """The word that names the program: the first one, or under srun the one before a training script."""
    if command.name != "srun":
        return command.words[0]
    pairs = pairwise(command.words[1:])
    return next((word for word, after in pairs if word.loose and after.text.endswith(".py")), None)


def _variable(word: Word) -> str | None:
    """The variable that a word consists of, unless the environment may set it."""
    match = re.fullmatch(r"\$\{?(\w+)\}?", word.raw)
    return match[1] if match and word.loose and not _GIVEN.fullmatch(match[1]) else None


def _set_names(text: str) -> set[str]:
    """The names that a script sets: by assignments, by loops, and by builtins."""
    assigned = re.findall(r"\b(\w{1,80})(?:\[[^]\n]{0,80}\])?\+?=", text)
    lines = re.findall(r"\b(?:read|for|mapfile|readarray|printf)\b([^\n]*)", text)
    return {*assigned, *(name for line in lines for name in re.findall(r"\w+", line))}
