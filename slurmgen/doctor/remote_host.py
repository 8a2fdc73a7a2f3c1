"""What must be there before Slurm matters: a shell, tar, a folder with room, an image, modules."""

import re
import shlex
import time

from slurmgen.doctor.visit import Doubtful, NotChecked, Visit, answer, last_words, said
from slurmgen.errors import CommandFailed, shortened
from slurmgen.jobs import remote_scripts
from slurmgen.plan import Plan
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed
from slurmgen.request import NONE
from slurmgen.slurm.sizes import of_bytes
from slurmgen.sync.remote_paths import parent_folder

MOST_SKEW = 60.0
"Seconds between two clocks that still do: tickets and one-time codes fail beyond a few minutes at most."
LEAST_ROOM = 100 << 10
"KiB."

_TOOLS = (
    'missing=; for tool in sh tar mkdir tail; do command -v "$tool" >/dev/null || missing="$missing $tool"; '
    'done; printf "\\000%s\\000" "$missing"'
)
_FREE = re.compile(r"\s([0-9]{1,15})\s+[0-9]{1,3}%")


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
        raise NotChecked(f"`date +%s` said {shortened(there, 100)!r}")
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
    path = parent_folder(visit.remote_dir, visit.project)
    refused, exposed, df, *_ = [
        *remote_scripts.run(visit.far, "check_folder", [path], timeout=COMMAND_TIMEOUT),
        "",
        "",
    ]
    if refused:
        raise CommandFailed(
            f"{visit.remote_dir} cannot be used: {refused}", "Name a folder of your own with --remote-dir."
        )
    free = _FREE.search(df)
    if free and int(free[1]) < LEAST_ROOM:
        raise CommandFailed(
            f"there is room for {of_bytes(int(free[1]) << 10)} only in {visit.remote_dir}",
            "Make room, or name another folder with --remote-dir.",
        )
    if exposed:
        raise Doubtful(
            exposed, "Set the sticky bit there (chmod +t), or name another folder with --remote-dir."
        )
    room = f"{of_bytes(int(free[1]) << 10)} are free" if free else "how much room there is is not known"
    return f"{visit.remote_dir} can be written; {room}"


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
    load = _loading(visit)
    completed = said(visit, load)
    if not completed.returncode and "error" not in completed.err.lower():
        return f"`{load}` works on {visit.far.where}"
    fact = f"`{load}` fails on {visit.far.where}: {last_words(completed)}"
    if _has_init(visit):
        raise NotChecked(f"{fact}; {_INIT}")
    raise CommandFailed(fact, "`module avail` there lists what is; name others with --module.")


_INIT = "doctor leaves out the profile's [modules] init, which runs in a job"


def _loading(visit: Visit) -> str:
    """The command that loads the job's modules: the last one, which is ours.

    Those before it are the profile's, and a modulefile that is named by its path may be anyone's: both may
    do anything, and are for a job alone.
    """
    if not (commands := _plan(visit).setup.modules):
        raise NotChecked("none are loaded")
    if visit.way.via == "twin":
        raise NotChecked("a twin has stand-ins for them")
    if any(name.startswith(("-", "/", ".", "~")) or "/../" in name for name in shlex.split(commands[-1])[2:]):
        raise NotChecked(f"`{commands[-1]}` names more than modules of the site")
    if said(visit, "command -v module").returncode:
        raise NotChecked(f"there is no `module` on {visit.far.where}; compute nodes may have it")
    return commands[-1]


def _has_init(visit: Visit) -> bool:
    return len(_plan(visit).setup.modules) > 1


_PROGRAMS = {"uv": "uv", "conda": "conda"}


def python(visit: Visit) -> str:
    """Whether what makes the Python environment is there, as far as can be told from here."""
    kind, _, where = _plan(visit).setup.python_env.partition(":")
    if kind == "venv" and where.startswith(("/", "~/")):
        name, words = where, [where if where.startswith("/") else f"./{where.removeprefix('~/')}"]
        return _found(visit, name, said(visit, '[ -x "$1/bin/python" ]', *words))
    if kind not in _PROGRAMS:
        raise NotChecked(
            "python comes from the image"
            if kind == NONE and _plan(visit).setup.image
            else "it is found in the job"
        )
    name, load = _PROGRAMS[kind], ""
    if _plan(visit).setup.modules and visit.way.via != "twin":
        load = f"{_loading(visit)} && "  # it may come from a module
    return _found(visit, name, said(visit, f'{load}command -v "$1"', name))


def _found(visit: Visit, name: str, completed: Completed) -> str:
    if not completed.returncode:
        return f"{name} is there"
    fact = f"there is no {name} on {visit.far.where}"
    if _has_init(visit) and name in _PROGRAMS:
        raise NotChecked(f"{fact}; {_INIT}")
    raise CommandFailed(fact, "Put it there, or name another with --python-env.")


def _plan(visit: Visit) -> Plan:
    assert visit.planned  # noqa: S101 (the request came first)
    return visit.planned[0]
