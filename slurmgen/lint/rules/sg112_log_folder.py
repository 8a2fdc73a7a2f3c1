"""The log's folder is not there when the job starts.

## What it finds
A log in a folder that the script itself makes; and, for a file on disk, a log in a relative folder that is
neither in the folder you are in nor beside the script.

## Why it is bad
Slurm opens the log before the script runs. Without the folder the job fails at once, with exit code 0:53,
and no log says why; a `mkdir` in the script comes too late.

## Example
    #SBATCH --output=logs/%j.out
    mkdir -p logs

## Use instead
    #SBATCH --output=train-%j.out

Or make the folder before `sbatch`.

## Reference
https://slurm.schedmd.com/sbatch.html ; DataBiosphere/toil issue 4633
"""

from collections.abc import Iterator
from pathlib import Path

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG112"
SEVERITY = "warning"
SUMMARY = "the log's folder may not exist when the job starts"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Compare the folder with what the script makes and what is on disk."""
    made = {
        _plain(word) for command in script.commands if command.name == "mkdir" for word in command.texts[1:]
    }
    for name in ("output", "error"):
        directive = script.header.last(name)
        folder = directive.value.rpartition("/")[0] if directive else ""
        if directive is None or not folder or "$" in folder or folder == "/dev":
            continue
        if _plain(folder) in made:
            yield Finding(
                directive.value_span,
                f"Slurm opens the log before the script makes {folder!r}",
                "make the folder before `sbatch`, or log to the folder you submit from",
            )
        elif _is_missing(script, folder):
            yield Finding(
                directive.value_span, f"there is no folder {folder!r} here", "make it before `sbatch`"
            )


def _plain(folder: str) -> str:
    return folder.rstrip("/").removeprefix("./")


def _is_missing(script: Script, folder: str) -> bool:
    if script.path is None or folder.startswith("/") or "%" in folder or script.header.last("chdir"):
        return False
    return not any((place / folder).is_dir() for place in (Path.cwd(), script.path.parent))
