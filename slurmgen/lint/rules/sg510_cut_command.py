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

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG510"
SEVERITY = "error"
SUMMARY = "a comment or a blank line ends a continued command"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report what ends each command."""
    in_strings = {cut for launch in script.launches for layer in launch.layers for cut in layer.cuts}
    for cut in (*script.shell.cuts, *sorted(in_strings)):
        line = script.source.position(cut.span.start).line
        yield Finding(
            cut.span,
            f"{cut.why} ends the command: the options after line {line} are not part of it",
            "delete it, or move it above the command",
        )
