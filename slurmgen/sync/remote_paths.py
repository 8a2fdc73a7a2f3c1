"""The names of folders and files on the remote host."""

import re

from slurmgen.errors import RequestError

# In the path of a log, folder included, Slurm fills in %j and takes a backslash away.
_UNFIT = re.compile(r"[%\\\x00-\x1f\x7f]")


def parent_folder(remote_dir: str, project: str) -> str:
    """The remote folder of a project; a path without a leading slash is relative to the remote home.

    Raises:
        RequestError: Slurm could not write a log in that folder.
    """
    return rooted(f"{remote_folder(remote_dir)}/{plain(project) or 'project'}")


def remote_folder(remote_dir: str) -> str:
    """The folder of all projects, as a path that no program takes for anything else.

    Raises:
        RequestError: Slurm could not write a log in that folder.
    """
    if _UNFIT.search(remote_dir):
        raise RequestError(
            f"the remote folder {remote_dir!r} has a %, a backslash or a control character",
            "Slurm reads those in the path of a log; give another with --remote-dir.",
        )
    return rooted(remote_dir.removeprefix("~/").rstrip("/"))


def rooted(path: str) -> str:
    """The same path, written so that it is neither an option nor looked up in CDPATH."""
    return path if path.startswith("/") or not path else f"./{path.removeprefix('./')}"


def plain(name: str) -> str:
    """The name with only characters that are safe in file names."""
    return re.sub(r"[^\w.+=:@-]", "_", name, flags=re.ASCII).lstrip(".-")
