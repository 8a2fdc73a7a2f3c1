"""What of a project is sent with a job."""

from pathlib import Path, PurePosixPath

from slurmgen.errors import RequestError
from slurmgen.remote.snapshot import Snapshot, snapshot
from slurmgen.resources import bundled

BUNDLED = "training"
"The folder of the bundled training scripts, here and over there."


def project_files(project_dir: Path, script: str) -> Snapshot:
    """The project's files, with the bundled training folder if `script` is in it and not in the project.

    Raises:
        RequestError: the script is not among them, so the job could only fail; or the project is your home.
    """
    if Path.home().resolve().is_relative_to(project_dir.resolve()):
        raise RequestError(
            f"the project folder is {project_dir}, with all that you have in it",
            "Go to the folder of the project, and submit from there.",
        )
    found = snapshot(project_dir)
    name = str(PurePosixPath(script))
    if name not in found.files and name.startswith(f"{BUNDLED}/"):
        found = found.over(snapshot(bundled(BUNDLED)).under(BUNDLED))
    if name not in found.files and not name.startswith("/"):
        raise RequestError(
            f"the script {script!r} is not among the files of {project_dir} that are sent",
            "Is the name right, from that folder on? Does a .gitignore or .slurmgenignore leave it out?",
        )
    return found
