"""A batch script that the user wrote: which one a command names, and what its header says of the job.

It is submitted as it is, byte for byte, so that what contradicts a submission by slurmgen is refused.
"""

import re
from pathlib import Path, PurePosixPath

from msgspec import Struct

from slurmgen.config.project import FILE_NAME, Project
from slurmgen.errors import RequestError
from slurmgen.files import read_bytes, refuse_links
from slurmgen.lint.finding import Report
from slurmgen.lint.reader import Script, read
from slurmgen.request import Request
from slurmgen.text import counted
from slurmgen.toml_structs import unreadable

SUFFIXES = (".sbatch", ".slurm", ".sh", ".job")
"An argument that ends with one of them, or has a slash, is a file and no name of a job."
_DIRECTIVE = re.compile(rb"^#SBATCH\b", re.MULTILINE)
_LOGS = {False: "slurm-%j.out", True: "slurm-%A_%a.out"}
"Slurm's own names of a log: of a job, and of an array."
_LOG_FOLDER = "SG112"
_NO_JOB = "sbatch would print a text and submit nothing"
REFUSED = {
    "wait": ("sbatch would wait for the end of the job", "`slurmgen submit --follow` waits."),
    "test-only": ("sbatch would submit nothing", "Use `slurmgen submit --test-only`."),
    **dict.fromkeys(("help", "usage", "version"), (_NO_JOB, "Leave it out.")),
    "wrap": ("it replaces the script", "Write that command into the script."),
    "quiet": ("sbatch would not print the id of the job", "Leave it out."),
    "uid": ("only an administrator can submit for another user", "Leave it out."),
    "gid": ("the folder of the job belongs to your own group", "Leave it out."),
}
"Options in a script that prevent its submission: why, and what to do."


class BatchScript(Struct, frozen=True):
    """A batch script, with what its header says of the job."""

    path: Path
    file: str
    "Its path in the project."
    script: Script
    name: str
    "The name of the job: Slurm's default is that of the file."
    output: str
    "The name of its log, with Slurm's patterns."
    asked: Request = Request()
    "The options of a command that override its header."
    options: tuple[str, ...] = ()
    "These as options of sbatch; `script` is read as if its header had them."
    sent: str | None = None
    "Its text, if there are such options."

    @property
    def text(self) -> str:
        """Its text; bytes that are not UTF-8 are surrogates."""
        return self.script.source.text if self.sent is None else self.sent

    @property
    def is_array(self) -> bool:
        """Whether it is a job array."""
        return self.script.header.last("array") is not None

    def option(self, name: str) -> str:
        """The value of an option of its header; empty if it is not set."""
        return self.script.header.value(name) or ""

    def without_made(self, reports: tuple[Report, ...]) -> tuple[Report, ...]:
        """The findings of the linter without that of a missing log folder, which `submit` makes."""
        folder, error = PurePosixPath(self.output).parent, PurePosixPath(self.option("error"))
        if self.option("error") and error.parent != folder:
            return reports
        return tuple(report for report in reports if report.rule.code != _LOG_FOLDER)


def find_script(name: str | None, project: Project, folder: Path) -> Path | None:
    """The batch script that the argument of a command names; None if it names a job.

    A job of slurmgen.toml comes first: `./NAME` names the file.

    Raises:
        RequestError: it looks like a file, and there is none, or it is not a batch script.
    """
    if name is None or name in project.job:
        return None
    path, is_written_as_file = folder / name, "/" in name or name.endswith(SUFFIXES)
    if not path.is_file():
        if is_written_as_file:
            raise RequestError(f"there is no batch script {name}", _HINT)
        return None
    if not _is_batch_script(path):
        if is_written_as_file:
            raise RequestError(f"{name} is not a batch script: it has no #! and no #SBATCH line", _HINT)
        return None
    return path


_HINT = f"Name a job of {FILE_NAME}, or the path of a batch script."


def _is_batch_script(path: Path) -> bool:
    data = _content(path)
    return data.startswith(b"#!") or _DIRECTIVE.search(data) is not None


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise unreadable(path, error) from error


def read_script(path: Path, project_dir: Path) -> BatchScript:
    """Read a batch script that is submitted as it is.

    Args:
        path: the script.
        project_dir: the folder of its project.

    Raises:
        RequestError: it is not in the project, or its header has an option that contradicts a submission.
        ConfigError: it cannot be read, or is a link.
    """
    return parsed(_content(path), path, _name_in(project_dir, path))


def parsed(data: bytes, path: Path, file: str) -> BatchScript:
    """The batch script of a content.

    Args:
        data: the content.
        path: the script.
        file: its path in the project.

    Raises:
        RequestError: it has a NUL byte, or its header has an option that contradicts a submission.
    """
    if b"\0" in data:
        raise RequestError(f"{path.name} has a NUL byte, so it is not a batch script", "Remove it.")
    script = read(data.decode(errors="surrogateescape"), path)
    _check_options(script, path)
    header = script.header
    output = header.value("output") or _LOGS[header.last("array") is not None]
    return BatchScript(path, file, script, header.value("job-name") or path.name, output)


def _name_in(project_dir: Path, path: Path) -> str:
    """The path of a file in the project."""
    try:
        file = (path.parent.resolve() / path.name).relative_to(project_dir.resolve()).as_posix()
        refuse_links(project_dir, file)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError:
        raise RequestError(
            f"{path} is not in the project {project_dir}, whose files the job gets",
            "Go to the folder of its project, and submit it from there.",
        ) from None
    return file


def _check_options(script: Script, path: Path) -> None:
    for directive in script.header.directives:
        place = f"{path.name}:{script.source.position(directive.span.start).line}: --{directive.name}"
        if directive.name in REFUSED:
            why, hint = REFUSED[directive.name]
            raise RequestError(f"{place} is not possible: {why}", hint)
        if directive.name == "chdir" and PurePosixPath(directive.value) != PurePosixPath("."):
            raise RequestError(
                f"{place}={directive.value} is not possible: the job starts in its own copy of the project",
                "Leave it out, and write `cd FOLDER` where the script needs another folder.",
            )
    if script.header.components > 1:
        raise RequestError(
            f"{path.name} is a heterogeneous job, whose parts have several ids", "Submit it with sbatch."
        )


def refuse_errors(script: BatchScript, reports: tuple[Report, ...]) -> None:
    """Refuse a script in which the linter found an error.

    Raises:
        LintErrors: it has one.
    """
    found = sum(report.rule.severity == "error" for report in reports)
    if found:
        raise LintErrors(
            f"{script.path.name} has {counted(found, 'error')}, so it is not submitted",
            "Correct the script (`slurmgen lint --diff` shows fixes), or submit it with --no-lint.",
        )


class LintErrors(RequestError):
    """The linter found errors in a batch script."""

    exit_code = 1
