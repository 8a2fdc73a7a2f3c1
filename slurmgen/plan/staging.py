"""Node-local staging: the step that copies data to local storage, once on each node."""

from pathlib import PurePosixPath

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError, option
from slurmgen.plan.model import Staging
from slurmgen.request.model import Request
from slurmgen.sites.model import EngineName, Site
from slurmgen.slurm.shell import Variable, is_full_path, node_step, word

STAGED_DATA = "STAGED_DATA"
"The variable with the folder of the data."
_FOLDER = f'"${STAGED_DATA}"'
_COPY = "copy"
_NO_FILES = ("", "~", ".", "..")
"Last parts of paths that name a folder."
_TAR_OPTIONS = {
    ".tar": "-x",
    ".tar.gz": "-xz",
    ".tgz": "-xz",
    ".tar.bz2": "-xj",
    ".tar.xz": "-xJ",
    ".tar.zst": "-xIzstd",
}


def is_staged(request: Request) -> bool:
    """Whether a request names data to copy."""
    return bool(request.stage or request.stage_archives)


def data_folder(site: Site) -> Variable:
    """The variable with the folder of the data: the batch script expands it, so all nodes use one path."""
    name = "staged-$SLURM_JOB_ID"
    value = f"{site.local_dir or '${TMPDIR:-/tmp}'}/{name}"
    text = word(value) if site.local_dir else f'"{value}"'
    return Variable(STAGED_DATA, value, text, "The data that each node copies to its local storage.")


def data_binds(request: Request, engine: EngineName) -> tuple[str, ...]:
    """The bind of that folder, as a shell word."""
    if not is_staged(request):
        return ()
    if not ENGINES[engine].binds_any_target:
        raise RequestError(
            f"{option('stage')} does not work with the container engine {engine}: "
            "it cannot bind the folder of the data",
            f"Leave {option('stage')} and {option('stage_archives')} out, or use another engine.",
        )
    return (_FOLDER,)


def find_staging(request: Request, nodes: int, cpus: int) -> Staging | None:
    """The steps of a request; None if it names no data.

    Args:
        cpus: CPUs of each node, which one task uses: a checksum is computed beside the copying.
    """
    copies = [(_COPY, _checked("stage", file)) for file in request.stage or ()]
    archives = [(_option(file), _checked("stage_archives", file)) for file in request.stage_archives or ()]
    if not (pairs := copies + archives):
        return None
    _check_names([PurePosixPath(file).name for _, file in pairs])
    srun = f"{node_step(nodes)} --cpus-per-task={cpus}"
    words = [text for how, file in pairs for text in (how, word(file))]
    return Staging(
        f'{srun} \\\n  bash -c "$(declare -f stage); stage \\"\\$@\\"" bash {" ".join(words)}',
        f"{srun} rm -rf -- {_FOLDER}",
    )


def _checked(key: str, file: str) -> str:
    if not is_full_path(file) or file.rpartition("/")[2] in _NO_FILES:
        raise RequestError(
            f"{option(key)}: {file!r} is not the full path of a file",
            "Write a path that begins with /, ~/ or a $NAME; pack a folder with tar, for stage_archives.",
        )
    return file


def _option(file: str) -> str:
    found = [option for suffix, option in _TAR_OPTIONS.items() if file.endswith(suffix)]
    if not found:
        raise RequestError(
            f"{option('stage_archives')}: {file!r} is not a tar archive",
            f"Name one that ends with {', '.join(_TAR_OPTIONS)}; `stage` copies other files.",
        )
    return found[0]


def _check_names(names: list[str]) -> None:
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise RequestError(
            f"two staged files have the name {twice!r}, and one folder holds all",
            "Rename one of them.",
            "stage",
        )
