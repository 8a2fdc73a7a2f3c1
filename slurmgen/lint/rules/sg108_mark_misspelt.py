"""A line intended for sbatch does not start with `#SBATCH`.

## What it checks
Checks the header for comments that look like directives, such as `# SBATCH --option` or `#BATCH --option`,
and for commands named `SBATCH` or `!#SBATCH`. A directive that was disabled on purpose is not reported: one
that starts with `##SBATCH`, a command line such as `# sbatch --time=5 job.sh`, one whose option another
directive sets, or that a job does not need, such as `--mail-type`.

## Why it matters
sbatch ignores the comment. `SBATCH` without the `#`, or with a `!` before it, is a command that does not
exist, and sbatch ignores every directive after it.

## Example
    # SBATCH --gres=gpu:4
    SBATCH --signal=USR2@90

## Use instead
    #SBATCH --gres=gpu:4
    #SBATCH --signal=USR2@90

## When to ignore
If the directive was disabled on purpose. `##SBATCH` shows this to the reader and to the linter.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator
from itertools import islice

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.reader.header import split_words
from slurmgen.slurm import getopt

CODE = "SG108"
SEVERITY = "warning"
SUMMARY = "a line for sbatch does not start with #SBATCH"

_GPUS = {"gres", "gpus", "gpus-per-node", "gpus-per-task"}
_TASKS = {"ntasks", "ntasks-per-node", "tasks-per-node"}
_CPUS = {"cpus-per-task", "cpus-per-gpu"}
_NEEDED = (_GPUS, _TASKS, _CPUS, {"nodes"}, {"time"}, {"partition"}, {"account"})
"Options that a job often needs, with those that replace each other."
_SPACED = re.compile(r"^(# +|#)S?BATCH (?=--?[A-Za-z])", re.MULTILINE | re.IGNORECASE)
_MISSPELT = re.compile(r"^#[A-Z]{5,7} (?=--?[A-Za-z])", re.MULTILINE)
_MOST = 1000
"Comments that are compared."
_SIMILAR = 0.7
"Similarity of a misspelt mark, from 0 to 1: #SBTACH, #SBACTH and #SBATH have more, #PRAGMA has less."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the comments of the header, and the commands for one named SBATCH."""
    for match in _marks(script):
        if not match[0].startswith("#SBATCH") and not _is_disabled(script, match):
            span = Span(match.start(), match.end() - 1)
            yield Finding(
                span, "sbatch treats this line as a comment", "write `#SBATCH`", (Edit(span, "#SBATCH"),)
            )
    for command in script.commands:
        if command.name == "SBATCH":
            yield _command(command.words[0].span, "SBATCH")
    for match in re.finditer(r"^!#\s*SBATCH\b", script.source.plain, re.MULTILINE):
        yield _command(Span(*match.span()), match[0])


def _marks(script: Script) -> Iterator[re.Match[str]]:
    """The comments of the header that look like directives."""
    text, end = script.source.plain, script.header.end
    yield from _SPACED.finditer(text, 0, end)
    for match in islice(_MISSPELT.finditer(text, 0, end), _MOST):
        from difflib import SequenceMatcher  # needed only for a finding

        if "BATCH" not in match[0] and SequenceMatcher(None, match[0].strip(), "#SBATCH").ratio() > _SIMILAR:
            yield match


def _command(span: Span, name: str) -> Finding:
    return Finding(
        span,
        f"{name} is a command that does not exist, and sbatch ignores the directives after it",
        "write `#SBATCH`, above the first command",
    )


def _is_disabled(script: Script, match: re.Match[str]) -> bool:
    """Whether a directive was probably disabled on purpose: it is not needed, or another one replaces it."""
    if match[0].replace(" ", "").upper() != "#SBATCH":
        return False
    line = script.source.plain[match.end() : script.source.line_span(match.end()).end]
    words = [word for word, _, _ in split_words(line)[0]]
    options, end = getopt.parse(words, getopt.SBATCH)
    if "sbatch" in match[0] and end < len(words):
        return True  # a command line, with the script that it submits
    if not script.header.directives and options and match[0].startswith(("# SBATCH", "#SBATCH")):
        return False
    given = {directive.name for directive in script.header.directives}
    return not any(option.name in group and not given & group for option in options for group in _NEEDED)
