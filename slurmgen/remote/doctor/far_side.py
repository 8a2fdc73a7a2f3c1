"""What must be there before Slurm matters: a shell, tar, a folder with room, an image, modules."""

import re
import time

from slurmgen.errors import CommandFailed
from slurmgen.plan import Plan
from slurmgen.remote.doctor.visit import NotChecked, Visit, answer, last_words, said
from slurmgen.request import NONE
from slurmgen.slurm.sizes import of_bytes

MOST_SKEW = 60.0
"Seconds between two clocks that still do: tickets and one-time codes fail beyond a few minutes at most."
LEAST_ROOM = 100 << 10
"KiB."

_TOOLS = (
    'missing=; for tool in sh tar mkdir tail; do command -v "$tool" >/dev/null || missing="$missing $tool"; '
    'done; printf "\\000%s\\000" "$missing"'
)
# Written for real: neither a quota nor a read-only mount shows in the folder's mode.
_FOLDER = (
    'folder="$1"; [ ! -e "$folder" ] || [ -d "$folder" ] || { echo "$folder is no folder" >&2; exit 1; }; '
    'while [ ! -d "$folder" ]; do folder="$(dirname -- "$folder")"; done; '
    'new="$(mktemp -d "$folder/.slurmgen-doctor.XXXXXX")" || exit; head -c 65536 /dev/zero > "$new/room"; '
    'status=$?; rm -rf -- "$new"; [ "$status" = 0 ] || exit "$status"; '
    'printf "\\000%s\\000" "$(df -Pk -- "$folder" | tail -n 1)"'
)
_FREE = re.compile(r"\s(\d+)\s+\d+%")


def tools(visit: Visit) -> str:
    """Whether the shell answers, and what slurmgen calls is there."""
    missing = answer(visit, _TOOLS).split()
    if missing:
        raise CommandFailed(
            f"there is no {', '.join(missing)} on {visit.far.where}", "slurmgen cannot do without."
        )
    return f"{' '.join(visit.far.shell)} answers"


def clock(visit: Visit) -> str:
    """Whether both clocks agree, but for the time that the answer took."""
    before = time.time()
    there = answer(visit, 'printf "\\000%s\\000" "$(date +%s)"')
    after = time.time()
    if not re.fullmatch("[0-9]{1,11}", there):
        raise NotChecked(f"`date +%s` said {there!r}")
    # `date` has cut a part of a second off.
    skew = max(before - int(there) - 1, 0.0) - max(int(there) - after, 0.0)
    if abs(skew) > MOST_SKEW:
        direction = "ahead of" if skew > 0 else "behind"
        raise CommandFailed(
            f"the clock here is {abs(skew):.0f} s {direction} that of {visit.far.where}",
            "Set the one that is wrong: tickets and one-time codes will fail.",
        )
    return f"{abs(skew):.0f} s apart"


def folder(visit: Visit) -> str:
    """Whether submissions can be written, and how much room there is."""
    path = visit.remote_dir.removeprefix("~/")
    try:
        free = _FREE.search(answer(visit, _FOLDER, path if path.startswith("/") else f"./{path}"))
    except CommandFailed as error:
        raise CommandFailed(
            f"{visit.remote_dir} cannot be written: {error.fact}", "Name another folder with --remote-dir."
        ) from None
    if free is None:
        return f"{visit.remote_dir} can be written; how much room there is is not known"
    if int(free[1]) < LEAST_ROOM:
        raise CommandFailed(
            f"there is room for {of_bytes(int(free[1]) << 10)} only in {visit.remote_dir}",
            "Make room, or name another folder with --remote-dir.",
        )
    return f"{visit.remote_dir} can be written; {of_bytes(int(free[1]) << 10)} are free"


def image(visit: Visit) -> str:
    """Whether the container image is there."""
    plan = _plan(visit)
    word = plan.setup.image
    if not word:
        raise NotChecked("no container is asked for")
    if "://" in word:
        raise NotChecked(f"{word} is fetched when the job starts")
    if not re.match(r"""["']?[/$]""", word):
        raise NotChecked(f"{word} is one of the project's files")
    # It is a shell word already: what may be expanded in it is.
    completed = said(visit, f"[ -e {word} ] || {{ printf '%s' {word} >&2; exit 1; }}")
    if completed.returncode:
        raise CommandFailed(
            f"there is no container image {last_words(completed)} on {visit.far.where}",
            "Put it there, or name another with --container.",
        )
    return f"{word} is there"


def modules(visit: Visit) -> str:
    """Whether the modules can be loaded where we are, which is mostly a login node."""
    plan = _plan(visit)
    if not plan.setup.modules:
        raise NotChecked("none are loaded")
    if visit.way.via == "twin":
        raise NotChecked("a twin has stand-ins for them")
    if said(visit, "command -v module").returncode:
        raise NotChecked(f"there is no `module` on {visit.far.where}; compute nodes may have it")
    completed = said(visit, " && ".join(plan.setup.modules))
    if completed.returncode or "error" in completed.err.lower():
        raise CommandFailed(
            f"`{plan.setup.modules[-1]}` fails on {visit.far.where}: {last_words(completed)}",
            "`module avail` there lists what is; name others with --module.",
        )
    return f"`{plan.setup.modules[-1]}` works on {visit.far.where}"


_PROGRAMS = {"uv": "uv", "conda": "conda"}


def python(visit: Visit) -> str:
    """Whether what makes the Python environment is there, as far as can be told from here."""
    kind, _, where = _plan(visit).setup.python_env.partition(":")
    if kind == "venv" and where.startswith(("/", "~/")):
        script, name = '[ -x "$1/bin/python" ]', where
        words = [where if where.startswith("/") else f"./{where.removeprefix('~/')}"]
    elif kind in _PROGRAMS:
        script, name, words = 'command -v "$1"', _PROGRAMS[kind], [_PROGRAMS[kind]]
    else:
        raise NotChecked(
            "python comes from the image"
            if kind == NONE and _plan(visit).setup.image
            else "it is found in the job"
        )
    commands = " && ".join((*_plan(visit).setup.modules, script)) if visit.way.via != "twin" else script
    if said(visit, commands, *words).returncode:
        raise CommandFailed(
            f"there is no {name} on {visit.far.where}", "Put it there, or name another with --python-env."
        )
    return f"{name} is there"


def _plan(visit: Visit) -> Plan:
    assert visit.planned  # noqa: S101 (the request came first)
    return visit.planned[0]
