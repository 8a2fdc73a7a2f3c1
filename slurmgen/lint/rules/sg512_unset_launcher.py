"""The script runs a variable that it never sets.

## What it checks
Checks for a command, or a command under srun, whose name is a variable that neither the script nor a file
that it sources sets.

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
SUMMARY = "the script does not set the variable that it runs"

_GIVEN = re.compile(r"SLURM_\w+|CONDA_\w+|SHELL|EDITOR|PYTHON|HOME|[@*#?$!_]|\d")
"Variables that the environment may set."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the names of the commands, and the first words after the options of srun."""
    if script.shell.sourced:
        return
    for command in script.commands:
        word = _program(command)
        name = _unset(script, word) if word else None
        if word and name:
            yield Finding(word.span, f"the script never sets ${name}", f"set `{name}`, or write the command")


def _program(command: Command) -> Word | None:
    """The word that names the program: the first one, or under srun the one before a training script."""
    if command.name != "srun":
        return command.words[0]
    pairs = pairwise(command.words[1:])
    return next((word for word, after in pairs if word.loose and after.text.endswith(".py")), None)


def _unset(script: Script, word: Word) -> str | None:
    """The variable that a word consists of, if nothing sets it."""
    match = re.fullmatch(r"\$\{?(\w+)\}?", word.raw)
    if match is None or not word.loose or _GIVEN.fullmatch(match[1]):
        return None
    sets = rf"\b{match[1]}(\[[^]]*\])?\+?=|\b(read|for|mapfile|readarray|printf)\b[^\n]*\b{match[1]}\b"
    return None if re.search(sets, script.source.plain) else match[1]
