"""Folders: what the folders and files of a submission are called over there."""

import re

from slurmgen.errors import RequestError

# In the path of a log, folder included, Slurm fills in %j and takes a backslash away.
_UNFIT = re.compile(r"[%\\\x00-\x1f\x7f]")


def parent_folder(remote_dir: str, project: str) -> str:
    """Where what belongs to a project goes; what does not begin with a slash is in the home over there.

    Raises:
        RequestError: Slurm could not write a log in that folder.
    """
    return rooted(f"{remote_folder(remote_dir)}/{plain(project) or 'project'}")


def remote_folder(remote_dir: str) -> str:
    """The folder for all projects, as a path that no program takes for anything else.

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
    """The same path, which can be taken neither for an option nor for a name in CDPATH."""
    return path if path.startswith("/") or not path else f"./{path.removeprefix('./')}"


def plain(name: str) -> str:
    """A name that is safe as a file's anywhere."""
    return re.sub(r"[^\w.+=:@-]", "_", name, flags=re.ASCII).lstrip(".-")
