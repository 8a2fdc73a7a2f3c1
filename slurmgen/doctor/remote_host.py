"""Checks of the remote host: shell, tar, clock, remote folder, container, modules, Python."""

import re
import shlex
import time

from slurmgen import remote_scripts
from slurmgen.containers import ENGINES
from slurmgen.doctor.visit import Doubtful, NotChecked, Visit, last_line, output_of, run
from slurmgen.errors import CommandFailed, shortened
from slurmgen.plan import Plan
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed
from slurmgen.request.model import NONE
from slurmgen.slurm.units import readable_size
from slurmgen.sync.manifest import parent_folder

MAX_SKEW = 60.0
"Seconds between two clocks that are harmless: tickets and one-time codes tolerate up to some minutes."
MIN_FREE = 100 << 10
"Least free space, in KiB."

_TOOLS = (
    'missing=; for tool in sh tar mkdir tail; do command -v "$tool" >/dev/null || missing="$missing $tool"; '
    'done; echo "$missing"'
)
_FREE = re.compile(r"\s([0-9]{1,15})\s+[0-9]{1,3}%")


def tools(visit: Visit) -> str:
    """Whether the shell works, and has the programs that slurmgen runs."""
    missing = output_of(visit, _TOOLS).split()
    if missing:
        raise CommandFailed(
            f"{visit.transport.where} has no {', '.join(missing)}", "slurmgen needs it; ask the site for it."
        )
    return f"{' '.join(visit.transport.shell)} works"


def clock(visit: Visit) -> str:
    """Whether both clocks agree, apart from the duration of the query."""
    before = time.time()
    remote = output_of(visit, "date +%s")
    after = time.time()
    if not re.fullmatch("[0-9]{1,11}", remote):
        raise NotChecked(f"`date +%s` printed {shortened(remote, 100)!r}")
    # `date` prints whole seconds, rounded down.
    skew = max(before - int(remote) - 1, 0.0) - max(int(remote) - after, 0.0)
    if abs(skew) > MAX_SKEW:
        direction = "ahead of" if skew > 0 else "behind"
        raise CommandFailed(
            f"the local clock is {abs(skew):.0f} s {direction} that of {visit.transport.where}",
            "Correct the wrong one, or tickets and one-time codes will fail.",
        )
    return f"the clocks differ by {abs(skew):.0f} s"


def folder(visit: Visit) -> str:
    """Whether the remote folder is writable, and how much space is free."""
    path = parent_folder(visit.remote_dir, visit.project)
    refused, exposed, df, *_ = [
        *remote_scripts.run(visit.transport, "check_folder", [path], timeout=COMMAND_TIMEOUT),
        "",
        "",
    ]
    if refused:
        raise CommandFailed(
            f"{visit.remote_dir} cannot be used: {refused}", "Name a folder of your own with --remote-dir."
        )
    free = _FREE.search(df)
    if free and int(free[1]) < MIN_FREE:
        raise CommandFailed(
            f"only {readable_size(int(free[1]) << 10)} are free in {visit.remote_dir}",
            "Free some space, or name another folder with --remote-dir.",
        )
    if exposed:
        raise Doubtful(exposed, "Set its sticky bit (chmod +t), or name another folder with --remote-dir.")
    space = f"{readable_size(int(free[1]) << 10)} are free" if free else "its free space is unknown"
    return f"{visit.remote_dir} is writable; {space}"


def image(visit: Visit) -> str:
    """Whether the container image can be read, or is in the store of its engine."""
    setup = _plan(visit).setup
    word = setup.image
    if not word:
        raise NotChecked("the job has no container")
    if setup.lookup:
        return _in_store(visit)
    if setup.fetch or "://" in word:
        raise NotChecked(f"{word} is pulled when the job starts")
    if not setup.is_file:
        raise NotChecked(f"{word} is in the store of each node")
    if not re.match(r"""["']?[/$]""", word):
        raise NotChecked(f"{word} is a file of the project")
    # It is a shell word already, and may contain variables.
    missing = f"[ -e {word} ] || {{ printf '%s' {word} >&2; exit 1; }}"
    completed = run(visit, f"{missing}; [ -r {word} ] || {{ printf '%s' {word} >&2; exit 2; }}")
    if completed.returncode == 2:
        raise CommandFailed(
            f"{visit.transport.where}: the container image {last_line(completed)} cannot be read",
            "Ask its owner for permission to read it, or name another with --container.",
        )
    if completed.returncode:
        raise CommandFailed(
            f"{visit.transport.where} has no container image {last_line(completed)}",
            "Copy it to that path, or name another with --container.",
        )
    return f"{word} exists"


def _in_store(visit: Visit) -> str:
    setup = _plan(visit).setup
    if visit.route.via == "twin":
        raise NotChecked("a twin replaces the engine with a stand-in")
    if not run(visit, f"{_load(visit)}{setup.lookup}").returncode:
        assert setup.container  # noqa: S101 (it has an image)
        return f"{setup.container.engine} has {setup.image}"
    if setup.fetch:
        raise NotChecked(f"{setup.image} is pulled when the job starts")
    raise CommandFailed(
        f"{visit.transport.where} has no container image {setup.image}",
        "Put it into the store of the engine, or name another with --container.",
    )


def engine(visit: Visit) -> str:
    """Whether the program that runs containers exists, after its modules; compute nodes may differ."""
    container = _plan(visit).setup.container
    if not container:
        return "the job needs none"
    if visit.route.via == "twin":
        raise NotChecked("a twin replaces it with a stand-in")
    kind = ENGINES[container.engine]
    test = 'srun --help | grep -q -e "$1"' if kind.srun_option else 'command -v "$1"'
    name = f"srun {kind.srun_option}" if kind.srun_option else kind.program
    if not run(visit, f"{_load(visit)}{test}", kind.srun_option or kind.program).returncode:
        return f"{name} exists"
    fact = f"{visit.transport.where} has no {name}, which runs the containers"
    if _has_init(visit):
        raise NotChecked(f"{fact}; {_INIT}")
    raise Doubtful(
        fact, "Compute nodes may have it. Otherwise load a module for it, or name another --container-engine."
    )


def _load(visit: Visit) -> str:
    """The job's modules before a command, which may come from one of them."""
    return f"{_loading(visit)} && " if _plan(visit).setup.modules else ""


def modules(visit: Visit) -> str:
    """Whether the modules can be loaded on the remote host, usually a login node."""
    load = _loading(visit)
    completed = run(visit, load)
    if not completed.returncode and "error" not in completed.err.lower():
        return f"`{load}` works on {visit.transport.where}"
    fact = f"`{load}` fails on {visit.transport.where}: {last_line(completed)}"
    if _has_init(visit):
        raise NotChecked(f"{fact}; {_INIT}")
    raise CommandFailed(fact, "`module avail` on that host lists the modules; name others with --module.")


_INIT = "doctor does not run the profile's [modules] init, which a job does"


def _loading(visit: Visit) -> str:
    """The command that loads the job's modules, which is the last of its commands.

    The others come from the profile, and a modulefile named by its path may belong to any user. Both can run
    arbitrary commands, so only a job runs them.
    """
    if not (commands := _plan(visit).setup.modules):
        raise NotChecked("the job loads none")
    if visit.route.via == "twin":
        raise NotChecked("a twin replaces them with stubs")
    if any(name.startswith(("-", "/", ".", "~")) or "/../" in name for name in shlex.split(commands[-1])[2:]):
        raise NotChecked(f"`{commands[-1]}` names a modulefile by its path, or an option")
    if run(visit, "command -v module").returncode:
        raise NotChecked(f"{visit.transport.where} has no `module` command; compute nodes may have it")
    return commands[-1]


def _has_init(visit: Visit) -> bool:
    return len(_plan(visit).setup.modules) > 1


_PROGRAMS = {"uv": "uv", "conda": "conda"}
_TESTS = {"venv": '[ -x "$1/bin/python" ]', "squashfs": '[ -r "$1" ]'}
"What a path of the user must be on the remote host."


def python(visit: Visit) -> str:
    """Whether the program that makes the Python environment exists, as far as this can be checked."""
    kind, _, path = _plan(visit).setup.python_env.partition(":")
    path = path.partition(":")[0] if kind == "squashfs" else path
    if kind in _TESTS and path.startswith(("/", "~/")):
        name, words = path, [path if path.startswith("/") else f"./{path.removeprefix('~/')}"]
        return _existing(visit, name, run(visit, _TESTS[kind], *words))
    if kind not in _PROGRAMS:
        raise NotChecked(
            "Python comes from the image" if kind == NONE and _plan(visit).setup.image else "the job finds it"
        )
    name, load = _PROGRAMS[kind], ""
    if _plan(visit).setup.modules and visit.route.via != "twin":
        load = f"{_loading(visit)} && "  # a module may provide it
    return _existing(visit, name, run(visit, f'{load}command -v "$1"', name))


def _existing(visit: Visit, name: str, completed: Completed) -> str:
    if not completed.returncode:
        return f"{name} exists"
    fact = f"{visit.transport.where} has no {name}"
    if _has_init(visit) and name in _PROGRAMS:
        raise NotChecked(f"{fact}; {_INIT}")
    raise CommandFailed(fact, "Install it, or name another environment with --python-env.")


def _plan(visit: Visit) -> Plan:
    assert visit.planned  # noqa: S101 (the check `request` passed)
    return visit.planned[0]
