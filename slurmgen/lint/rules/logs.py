"""Log files: their names and their directories."""

import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Command, Script
from slurmgen.lint.reader.header import Directive

_JOB_PATTERN = r"%\d*[jJA]"
_PLACEHOLDER = re.compile(r"<.*>|(.*/)?path/to/.*|([A-Z]+_)*(PATH|FILE|DIR|LOG)|your?[-_].*", re.DOTALL)
_TASK_PATTERN = r"%\d*[ajJ]"


@rule("SG111", "warning")
def log_without_job_id(script: Script) -> Iterator[Finding]:
    """A log file has the same name in every job.

    ## What it checks
    Checks `--output` and `--error` for file names without the job ID and, in a job array, without the task
    index. Logs opened with `--open-mode=append` are not reported, nor names that are placeholders, such as
    `<LOG_FILE>`.

    ## Why it matters
    The next job or array task overwrites the log. Jobs that run at the same time mix their output.

    ## Example
        #SBATCH --output=train.out

    ## Use instead
        #SBATCH --output=train-%j.out

    In a job array, use `%A_%a`.

    ## When to ignore
    If only one job runs at a time and only its last log matters.

    ## Reference
    https://slurm.schedmd.com/sbatch.html (filename pattern)
    """
    header = script.header
    if (header.value("open-mode") or "").startswith("a"):
        return
    for name in ("output", "error"):
        directive = header.last(name)
        if (
            directive is None
            or not directive.value
            or directive.value.startswith("/dev/")
            or "$" in directive.value
            or _PLACEHOLDER.fullmatch(directive.value)
        ):
            continue
        if not re.search(_JOB_PATTERN, directive.value):
            yield Finding(
                directive.value_span,
                f"every job writes to {directive.value!r}",
                "add %j (job ID) to the file name",
            )
        elif header.last("array") and not re.search(_TASK_PATTERN, directive.value):
            yield Finding(
                directive.value_span,
                f"every task of the array writes to {directive.value!r}",
                "add %A_%a (array job ID and task index) to the file name",
            )


@rule("SG112", "warning")
def log_folder(script: Script) -> Iterator[Finding]:
    """The directory of the log may not exist when the job starts.

    ## What it checks
    Checks for a log in a directory that the script itself creates, unless it exists already, or with the job
    ID in its name. A script that submits itself with `sbatch "$0"` after its `mkdir` is not reported. SG116
    reports other directories that do not exist here.

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


@rule("SG116", "note")
def log_folder_not_here(script: Script) -> Iterator[Finding]:
    """The directory of the log does not exist here.

    ## What it checks
    If the script is a file, checks for a log in a relative directory that exists neither in the current
    directory nor next to the script.

    ## Why it matters
    If the directory is missing where the job is submitted, the job fails immediately with exit code 0:53 and
    without a log. The rule is opt-in, because the cluster may have the directory although this machine has
    not.

    ## Example
        #SBATCH --output=logs/%j.out

    ## Use instead
        #SBATCH --output=train-%j.out

    Or create the directory before you run `sbatch`.

    ## When to ignore
    If the directory exists on the cluster.

    ## Reference
    https://slurm.schedmd.com/sbatch.html ; DataBiosphere/toil issue 4633
    """
    if script.path is None or script.header.last("chdir"):
        return
    reported = {finding.span for finding in log_folder(script)}
    for directive, directory in log_directories(script):
        is_relative = not directory.startswith("/") and "%" not in directory
        if is_relative and directive.value_span not in reported and not exists(script, directory):
            yield Finding(
                directive.value_span,
                f"the directory {directory!r} does not exist here",
                f"run `mkdir -p {quote(directory)}` before `sbatch`",
            )
