"""The files that Slurm writes a job's output to. Their folder must exist when the job starts."""

import re
from pathlib import PurePosixPath

from slurmgen.errors import RequestError


def log_folder(folder: str | None) -> str | None:
    """The folder of the log, as it stands in a directive.

    Raises:
        RequestError: Slurm would take it for something else.
    """
    if folder is None:
        return None
    if "$" in folder or folder.startswith("~"):
        raise RequestError(
            f"--log-dir {folder!r} has a variable, and Slurm expands none in #SBATCH lines",
            "Write the path itself, or one from the folder that the job starts in.",
        )
    if re.search(r"""["'\\`\s#%]|^-|^$""", folder):
        raise RequestError(
            f"--log-dir {folder!r} cannot stand in a directive", "Spaces, quotes, # and % cannot stand in it."
        )
    return folder.rstrip("/") or "/"


def check_error_file(error: str | None, log_dir: str | None) -> None:
    """Refuse a file for stderr in a folder that may not exist; `submit` makes that of --log-dir.

    Raises:
        RequestError: the folder is another one.
    """
    folder = str(PurePosixPath(error or "").parent)
    if not folder.startswith("/") and folder not in (".", str(PurePosixPath(log_dir or "."))):
        raise RequestError(
            f"the folder of --sbatch error={error} would not exist when the job starts",
            f"Add --log-dir {folder}, or name a file without a folder.",
        )
