"""The files for a job's output. Their folder must exist when the job starts."""

import re
from pathlib import PurePosixPath

from slurmgen.errors import RequestError, contradiction
from slurmgen.field_names import option
from slurmgen.hints import Hint, offered


def log_folder(folder: str | None) -> str | None:
    """The folder of the log, for the `output` directive.

    Raises:
        RequestError: Slurm would read it as another path.
    """
    if folder is None:
        return None
    if "$" in folder or folder.startswith("~"):
        raise RequestError(
            f"{option('log_dir')} {folder!r} has a variable, which Slurm does not expand in #SBATCH lines",
            "Write a full path, or one relative to the folder that the job starts in.",
        )
    if re.search(r"""["'\\`\s#%]|^-|^$""", folder):
        raise RequestError(
            f"{option('log_dir')} {folder!r} is not allowed in a directive",
            "Leave out spaces, quotes, #, % and a leading dash.",
        )
    return folder.rstrip("/") or "/"


def folder_of(output: str | None) -> str | None:
    """The folder of `--sbatch output`."""
    return str(PurePosixPath(output).parent) if output else None


def check_output(output: str | None, log_dir: str | None, *, in_segments: bool) -> None:
    """Refuse `--sbatch output` where it contradicts another option.

    Raises:
        RequestError: it does.
    """
    if output and log_dir:
        raise contradiction(option("sbatch", "output"), option("log_dir"))
    if output and in_segments:
        then = f"Use {option('log_dir')}."
        raise contradiction(option("sbatch", "output"), option("segments"), then=then)


def check_error_file(error: str | None, log_dir: str | None) -> None:
    """Refuse a file for stderr in a folder that may not exist; `submit` creates only that of --log-dir.

    Raises:
        RequestError: it is in another folder.
    """
    if error is None:
        return
    folder = str(PurePosixPath(error).parent)
    if not folder.startswith("/") and folder not in (".", str(PurePosixPath(log_dir or "."))):
        raise RequestError(
            f"the folder of {option('sbatch', 'error')}={error} may not exist when the job starts",
            Hint(
                f"Add {option('log_dir', folder)}, or name a file without a folder.",
                offered("log_dir", folder),
            ),
        )
