"""The directory of the log may not exist when the job starts.

## What it checks
Checks for a log in a directory that the script itself creates, unless it exists already, or with the job ID
in its name. A script that submits itself with `sbatch "$0"` after its `mkdir` is not reported. SG116 reports
other directories that do not exist here.

## Why it matters
Slurm opens the log before it runs the script. If the directory is missing, the job fails immediately with
exit code 0:53 and without a log that gives the reason. A `mkdir` in the script comes too late.

## Example
    #SBATCH --output=logs/%j.out
    mkdir -p logs

## Use instead
    #SBATCH --output=train-%j.out

Or create the directory before you run `sbatch`.

## When to ignore
If another program creates the directory before the job is submitted.

## Reference
https://slurm.schedmd.com/sbatch.html ; DataBiosphere/toil issue 4633
"""

import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script
from slurmgen.lint.reader.header import Directive

CODE = "SG112"
SEVERITY = "warning"
SUMMARY = "the directory of the log may not exist when the job starts"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the directory with those that the script creates and those on disk."""
    if any(_submits_itself(command) for command in (*script.commands, *script.shell.outside)):
        return
    created = {
        _normalized(text)
        for command in script.commands
        if command.name == "mkdir"
        for word in command.words[1:]
        for text in (word.text, word.raw.replace('"', "").replace("{", "").replace("}", ""))
    }
    for directive, directory in log_directories(script):
        if re.search(r"%\d*[AajJ]", directory):
            yield Finding(
                directive.value_span,
                f"the directory {directory!r} has the ID of the job in its name, so it does not exist before",
                "write the ID into the name of the file, not of its directory",
            )
        elif _normalized(directory.replace("%u", "$USER")) in created and not exists(script, directory):
            yield Finding(
                directive.value_span,
                f"Slurm opens the log before the script creates {directory!r}",
                f"run `mkdir -p {quote(directory)}` before `sbatch`, or log to the current directory",
            )


def log_directories(script: Script) -> Iterator[tuple[Directive, str]]:
    """The directories of the logs of the job."""
    for directive in filter(None, map(script.header.last, ("output", "error"))):
        directory = directive.value.rpartition("/")[0]
        if directory and "$" not in directory and directory != "/dev":
            yield directive, directory


def _normalized(directory: str) -> str:
    return directory.rstrip("/").removeprefix("./")


def exists(script: Script, directory: str) -> bool:
    """Whether a relative directory exists in the current directory or next to the script."""
    if script.path is None or directory.startswith("/"):
        return False
    return any((place / directory).is_dir() for place in (Path.cwd(), script.path.parent))


def _submits_itself(command: Command) -> bool:
    return command.name == "sbatch" and any({"0", "BASH_SOURCE"} & word.names for word in command.words)
