"""The checks of a submission: its request, the connection, the remote host, and Slurm."""

import re
import shlex
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from slurmgen import remote_scripts
from slurmgen.containers import ENGINES
from slurmgen.errors import (
    AuthenticationFailed,
    CommandFailed,
    ConnectionFailed,
    HostKeyError,
    RequestError,
    SlurmgenError,
    TransferFailed,
    did_you_mean,
    shortened,
)
from slurmgen.plan import Plan
from slurmgen.remote.route import Route, destination_of
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed, Transport
from slurmgen.request.model import NONE
from slurmgen.slurm import commands
from slurmgen.slurm.units import readable_size
from slurmgen.status.slurm import HINTS, call, refusal
from slurmgen.submit.exactly_once import try_out
from slurmgen.sync.manifest import parent_folder
from slurmgen.text import counted


class NotChecked(Exception):
    """There is nothing to check, or it cannot be checked."""


class Doubtful(SlurmgenError):
    """The check passes with a warning."""


@dataclass
class Visit:
    """The request, the route to the site, and the results that later checks need."""

    route: Route
    open: Callable[[], Transport]
    plan: Callable[[], tuple[Plan, str]]
    "Resolves the request; returns the plan and its script."
    prepare: Callable[[Plan, str], str]
    "Prepares the project as a submission does; returns what would be sent."
    remote_dir: str
    project: str
    "The name of the project's folder."
    planned: tuple[Plan, str] | None = None
    to: Destination | None = None
    connection: Transport | None = None
    error: SlurmgenError | None = None
    "Why there is no connection."

    @property
    def transport(self) -> Transport:
        """The connection; only for checks that need the login."""
        assert self.connection  # noqa: S101 (the check `login` passed)
        return self.connection

    def close(self) -> None:
        """End the connection, if there is one."""
        if self.connection:
            with suppress(SlurmgenError):
                self.connection.close()


def _output(visit: Visit, script: str) -> str:
    completed = _run(visit, script)
    if completed.returncode:
        raise CommandFailed(_last_line(completed))
    return completed.out.strip()


def _run(visit: Visit, script: str, *words: str) -> Completed:
    """Run a script in the user's login shell."""
    argv: Sequence[str] = [*visit.transport.shell, script, "slurmgen", *words]
    return visit.transport.run(argv, timeout=COMMAND_TIMEOUT)


def _last_line(completed: Completed) -> str:
    lines = [line.strip() for line in completed.err.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with exit status {completed.returncode}"


_VERSION = re.compile(r"^slurm\S{0,32} (\S{1,64})$", re.MULTILINE)
_UP = re.compile(r"^Slurmctld\(\w{1,32}\) at (\S{1,256}) is UP$", re.MULTILINE)
_PARTITION = re.compile(
    r"^([\w.@+-]{1,256})(\*?)\|(\w{1,32})\|(\d{1,9})/(\d{1,9})/(\d{1,9})/(\d{1,9})$", re.MULTILINE | re.ASCII
)
_DOWN = "Unable to contact slurm controller"


def request(visit: Visit) -> str:
    """Whether the request fits the site profile."""
    visit.planned = visit.plan()
    plan = visit.planned[0]
    gpus, nodes = counted(plan.ranks.layout.gpus, "GPU"), counted(plan.nodes, "node")
    return f"{plan.name} on {plan.site}: {plan.framework}, {gpus} on {nodes}"


def project(visit: Visit) -> str:
    """Whether the training script would be sent, and how much with it; nothing is sent."""
    assert visit.planned  # noqa: S101 (the check `request` passed)
    try:
        return visit.prepare(*visit.planned)
    except TransferFailed as error:  # a local file cannot be read
        raise RequestError(error.fact, error.hint) from None


def slurm(visit: Visit) -> str:
    """Whether a login shell finds the commands of Slurm."""
    argv = commands.version()
    completed = call(visit.transport, argv)
    versions = _VERSION.findall(completed.out)
    if not versions:
        error = refusal(argv, completed)
        raise CommandFailed(
            error.fact, error.hint or f"Log in and run `{' '.join(argv)}`; it must work there."
        )
    return f"Slurm {versions[-1]}"


def controller(visit: Visit) -> str:
    """Whether slurmctld responds."""
    argv = commands.ping()
    completed = call(visit.transport, argv)
    up = _UP.findall(completed.out)
    if not up:
        raise CommandFailed("slurmctld does not respond", HINTS[_DOWN])
    return f"slurmctld responds on {up[0]}"


def partition(visit: Visit) -> str:
    """Whether each partition of the request exists and is up."""
    argv = commands.partitions()
    completed = call(visit.transport, argv)
    if completed.returncode:
        raise CommandFailed(refusal(argv, completed).fact, f"Log in and run `{argv[0]}`; it must work there.")
    rows = {row[0]: row for row in _PARTITION.findall(completed.out)}
    requested = _plan(visit).place.partitions
    names = requested or [name for name, row in rows.items() if row[1]]
    if not names:
        raise CommandFailed(
            "Slurm has no default partition", f"Name one with --partition. {did_you_mean('', rows)}"
        )
    return "; ".join(_state(name, rows) for name in names)


def _state(name: str, rows: dict[str, tuple[str, ...]]) -> str:
    if name not in rows:
        raise CommandFailed(f"Slurm has no partition {name}", did_you_mean(name, rows))
    _, _, state, _, idle, _, total = rows[name]
    if state != "up":
        raise CommandFailed(f"partition {name} is {state}", "Wait, or name another with --partition.")
    return f"{name} is up, {idle} of {total} nodes are idle"


def accepted(visit: Visit) -> str:
    """Whether Slurm would accept the job, with its account and limits; no job is submitted."""
    assert visit.planned  # noqa: S101 (the check `request` passed)
    return try_out(visit.transport, visit.planned[1])


CONNECT_TIMEOUT = 20.0


def ssh_config(visit: Visit) -> str:
    """The hosts that ssh_config leads to."""
    if visit.route.via != "ssh":
        raise NotChecked("it is this machine")
    visit.to, _ = destination_of(visit.route)
    return ", then ".join(f"{hop.alias} is {hop.user}@{hop.host} port {hop.port}" for hop in visit.to.chain)


def host_name(visit: Visit) -> str:
    """Whether the first host has an address; the names of those behind it may be known only to that host."""
    first = _first_host(visit)
    try:
        addresses = socket.getaddrinfo(first.host, first.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConnectionFailed(
            f"{first.host} has no address: {error}",
            "Check the spelling, connect to the VPN if one is needed, or name another host with --host.",
        ) from None
    listed = ", ".join(dict.fromkeys(str(address[4][0]) for address in addresses))
    return f"{first.host} is {listed}" + _behind(visit)


def port(visit: Visit) -> str:
    """Whether a server listens on the first host, and on each host behind it as seen from the one before."""
    first = _first_host(visit)
    try:
        socket.create_connection((first.host, first.port), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise ConnectionFailed(
            f"no connection to port {first.port} of {first.host}: {error}",
            "Check that the host is up, connect to the VPN if one is needed, or set Port in ssh_config.",
        ) from None
    reached = f"port {first.port} of {first.host} is open"
    onwards = "".join([f", from there port {hop.port} of {hop.host}" for hop in _hops(visit)[1:]])
    if not _behind(visit):
        return reached
    _log_in(visit)
    if isinstance(visit.error, ConnectionFailed):
        raise visit.error
    return reached + (_behind(visit) if visit.error else onwards)


def host_key(visit: Visit) -> str:
    """Whether the host keys match known_hosts."""
    _log_in(visit)
    if visit.route.via != "ssh":
        raise NotChecked("it is this machine")
    if isinstance(visit.error, HostKeyError):
        raise visit.error
    if visit.error and not isinstance(visit.error, AuthenticationFailed):
        raise NotChecked("there is no connection")
    return "matches known_hosts" + (
        " on the hosts that were reached" if visit.error and _behind(visit) else ""
    )


def login(visit: Visit) -> str:
    """Whether the login works, and by which method."""
    if visit.error:
        raise visit.error
    return visit.transport.login


def _log_in(visit: Visit) -> None:
    if visit.connection or visit.error:
        return
    try:
        visit.connection = visit.open()
    except SlurmgenError as error:
        visit.error = _located(error, visit)


def _located(error: SlurmgenError, visit: Visit) -> SlurmgenError:
    """An error that names the host where it occurred: OpenSSH always names the last host of a chain."""
    if visit.route.ssh_client != "openssh" or not visit.to or not visit.to.jump:
        return error
    if not isinstance(error, ConnectionFailed | AuthenticationFailed):
        return error
    from slurmgen.remote.ssh.paramiko import check_host_keys

    try:
        seen = check_host_keys(visit.to)
    except (ConnectionFailed, HostKeyError) as cause:
        are_both = isinstance(cause, ConnectionFailed) and isinstance(error, ConnectionFailed)
        return cause if are_both else error
    if not seen or visit.to in seen:
        return error
    return type(error)(f"{error.fact}; login with keys works up to {seen[-1].alias}", error.hint)


def _first_host(visit: Visit) -> Destination:
    if visit.to is None:
        raise NotChecked("it is this machine")
    first = visit.to.chain[0]
    if first.proxy_command:
        raise NotChecked(f"{first.alias} is reached by a ProxyCommand")
    return first


def _hops(visit: Visit) -> tuple[Destination, ...]:
    return visit.to.chain if visit.to else ()


def _behind(visit: Visit) -> str:
    names = [hop.alias for hop in _hops(visit)[1:]]
    return f"; {' and '.join(names)} behind it" if names else ""


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
    missing = _output(visit, _TOOLS).split()
    if missing:
        raise CommandFailed(
            f"{visit.transport.where} has no {', '.join(missing)}", "slurmgen needs it; ask the site for it."
        )
    return f"{' '.join(visit.transport.shell)} works"


def clock(visit: Visit) -> str:
    """Whether both clocks agree, apart from the duration of the query."""
    before = time.time()
    remote = _output(visit, "date +%s")
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
    completed = _run(visit, f"{missing}; [ -r {word} ] || {{ printf '%s' {word} >&2; exit 2; }}")
    if completed.returncode == 2:
        raise CommandFailed(
            f"{visit.transport.where}: the container image {_last_line(completed)} cannot be read",
            "Ask its owner for permission to read it, or name another with --container.",
        )
    if completed.returncode:
        raise CommandFailed(
            f"{visit.transport.where} has no container image {_last_line(completed)}",
            "Copy it to that path, or name another with --container.",
        )
    return f"{word} exists"


def _in_store(visit: Visit) -> str:
    setup = _plan(visit).setup
    if visit.route.via == "twin":
        raise NotChecked("a twin replaces the engine with a stand-in")
    if not _run(visit, f"{_load(visit)}{setup.lookup}").returncode:
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
    if not _run(visit, f"{_load(visit)}{test}", kind.srun_option or kind.program).returncode:
        return f"{name} exists"
    fact = f"{visit.transport.where} has no {name}, which runs the containers"
    if _has_init(visit):
        raise NotChecked(f"{fact}; {_INIT}")
    raise Doubtful(
        fact, "Compute nodes may have it. Otherwise load a module for it, or name another --container-engine."
    )


def _load(visit: Visit) -> str:
    return f"{_loading(visit)} && " if _plan(visit).setup.modules else ""


def modules(visit: Visit) -> str:
    """Whether the modules can be loaded on the remote host, usually a login node."""
    load = _loading(visit)
    completed = _run(visit, load)
    if not completed.returncode and "error" not in completed.err.lower():
        return f"`{load}` works on {visit.transport.where}"
    fact = f"`{load}` fails on {visit.transport.where}: {_last_line(completed)}"
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
    if _run(visit, "command -v module").returncode:
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
        return _existing(visit, name, _run(visit, _TESTS[kind], *words))
    if kind not in _PROGRAMS:
        raise NotChecked(
            "Python comes from the image" if kind == NONE and _plan(visit).setup.image else "the job finds it"
        )
    name, load = _PROGRAMS[kind], ""
    if _plan(visit).setup.modules and visit.route.via != "twin":
        load = f"{_loading(visit)} && "  # a module may provide it
    return _existing(visit, name, _run(visit, f'{load}command -v "$1"', name))


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
