"""A whole command stands in a variable and is split into words.

## What it finds
A launcher that comes out of an unquoted string variable, such as `srun $CMD`.

## Why it is bad
The shell splits the string at every blank and expands every star in it; quotes inside of it mean nothing. A
path with a blank, or a JSON argument, breaks the command.

## Example
    CMD="torchrun --standalone train.py --name 'my run'"
    srun $CMD

## Use instead
    cmd=(torchrun --standalone train.py --name 'my run')
    srun "${cmd[@]}"

## Reference
https://www.shellcheck.net/wiki/SC2086 ; stanford-crfm/helm pull request 1636
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG505"
SEVERITY = "warning"
SUMMARY = "a command in a string is split at its blanks"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at where the name of each launcher comes from. An array keeps its words, and so does "$@"."""
    for launch in script.launches:
        word = launch.word
        if word.spliced and not any(mark in word.raw for mark in ("[@]", "[*]", "$@", "$*", "${@")):
            yield Finding(
                word.span,
                f"the shell splits {word.raw} at every blank, whatever its quotes say",
                'keep the words in an array: cmd=(...), then "${cmd[@]}"',
            )
