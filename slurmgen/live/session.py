"""A shell or a port in the allocation of a running job."""

import contextlib
import re
import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from msgspec import Struct

from slurmgen.errors import CommandFailed, RemoteError, RequestError
from slurmgen.plan import Plan
from slurmgen.plan.step import container_words
from slurmgen.remote.transport import COMMAND_TIMEOUT, Duplex, Socket, Transport
from slurmgen.render import render_setup
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState, is_of, whole_seconds
from slurmgen.slurm.shell import EXPORT_ALL
from slurmgen.status.slurm import BETWEEN_REPLIES, REPLIES_UNTIL_GONE, as_logged_in, call, call_again

_FIELDS = ("%A", "%T", "%M", "%l", "%D", "%C", "%N", "%V", "%Z", "%k", "%j")
_ROW = re.compile(
    r"(?P<number>[0-9]{1,18})\|(?P<state>[A-Z_]{1,32})\|(?P<elapsed>[\w:-]{1,32})\|(?P<limit>[\w:-]{1,32})"
    r"\|(?P<node_count>[0-9]{1,9})\|(?P<cpus>[0-9]{1,9})\|(?P<nodes>[\w.,\[\]-]{0,4096})"
    r"\|(?P<submitted>[^|]*)\|(?P<folder>[^|]*)\|(?P<comment>.*)\|(?P<name>[^|]*)",
    re.ASCII,
)
_NODE = re.compile(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)


class Allocation(Struct, frozen=True, kw_only=True):
    """What a job has been allocated."""

    number: str
    "The id of the job for steps; of a task of an array, another one than ID_TASK."
    cluster: str
    state: str
    elapsed: int | None
    "Seconds."
    time_limit: int | None
    "Seconds."
    node_count: int
    cpus: int
    nodes: str
    "In Slurm's notation."


def running(transport: Transport, job: JobId) -> Allocation:
    """The allocation of a job that runs.

    Raises:
        RequestError: it does not run, or is a whole array.
        CommandFailed: Slurm did not reply.
    """
    found = allocations(transport, job)
    for _ in range(REPLIES_UNTIL_GONE - 1):
        if not found:  # a controller that restarts may list nothing
            time.sleep(BETWEEN_REPLIES)
            found = allocations(transport, job)
    active = [one for one in found if one.state == "RUNNING"]
    if len(active) > 1:
        raise RequestError(f"job {job} has {len(active)} running tasks", f"Name one task, such as {job}_0.")
    if not active:
        state = found[0].state if found else "not in the queue"
        raise RequestError(f"job {job} is {state}, not RUNNING", f"`slurmgen status {job}` shows why.")
    return active[0]


def allocations(transport: Transport, job: JobId) -> list[Allocation]:
    """The allocation of a job, or of each task of an array; empty if Slurm does not list it.

    Raises:
        CommandFailed: Slurm did not reply.
    """
    cluster = [f"--clusters={job.cluster}"] if job.cluster else []
    words = ["--all", "--states=all", "--array", "--noheader", f"--format={'|'.join(_FIELDS)}"]
    completed = call_again(transport, ["squeue", *cluster, f"--jobs={job.number}", *words])
    rows = (_ROW.fullmatch(line.strip()) for line in completed.out.splitlines())
    return [_allocation(row, job.cluster) for row in rows if row and is_of(_state(row), job)]


def _state(row: re.Match[str]) -> JobState:
    whose: dict[str, Any] = {
        field: row[field] for field in ("state", "submitted", "folder", "comment", "name")
    }
    return JobState(id=row["number"], **whose)


def _allocation(row: re.Match[str], cluster: str) -> Allocation:
    return Allocation(
        number=row["number"],
        cluster=cluster,
        state=row["state"],
        elapsed=whole_seconds(row["elapsed"]),
        time_limit=whole_seconds(row["limit"]),
        node_count=int(row["node_count"]),
        cpus=int(row["cpus"]),
        nodes=row["nodes"],
    )


def step(
    allocation: Allocation, command: Sequence[str], *, options: Sequence[str] = (), node: str | None = None
) -> list[str]:
    """The srun of a step that shares the resources of the job's own steps: one task, on one node.

    Args:
        node: the node; default: one that Slurm chooses.
    """
    place = [f"--nodelist={node}"] if node else []
    return _srun(allocation, 1, [*place, *options], command)


def step_on_each_node(allocation: Allocation, command: Sequence[str]) -> list[str]:
    """The srun of such a step with one task on each node of the job."""
    return _srun(allocation, allocation.node_count, [], command)


def _srun(allocation: Allocation, nodes: int, options: Sequence[str], command: Sequence[str]) -> list[str]:
    cluster = [f"--clusters={allocation.cluster}"] if allocation.cluster else []
    size = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    place = [*cluster, f"--jobid={allocation.number}", "--overlap", *size, EXPORT_ALL]
    return ["srun", *place, *options, *command]


def node_names(transport: Transport, allocation: Allocation) -> list[str]:
    """The names of the nodes of a job, in Slurm's order.

    Raises:
        CommandFailed: Slurm did not reply.
    """
    completed = call(transport, ["scontrol", "show", "hostnames", allocation.nodes])
    names = [line.strip() for line in completed.out.splitlines() if _NODE.fullmatch(line.strip())]
    if completed.returncode or not names:
        raise CommandFailed(f"the nodes of job {allocation.number} are not known", "Try again.")
    # A login shell may print words before them.
    return names[-allocation.node_count :]


def node_of(transport: Transport, allocation: Allocation, name: str | None) -> str:
    """A node of a job: the one that the user names, else the first.

    Raises:
        RequestError: the job does not run on that node.
        CommandFailed: Slurm did not reply.
    """
    names = node_names(transport, allocation)
    if name is not None and name not in names:
        raise RequestError(
            f"job {allocation.number} does not run on {name}", f"It runs on {allocation.nodes}."
        )
    return name or names[0]


LOOPBACK = "127.0.0.1"
MOST = 64
"Connections at a time."


class Dial(Protocol):
    """Opens a connection to the port of the job."""

    def __call__(self) -> Duplex:
        """Open it.

        Raises:
            RemoteError: it is refused, or the connection to the login node broke.
        """


class Forwarding:
    """Accepts connections on loopback until the end of the block, and passes on the bytes of each."""

    def __init__(self, local: int, dial: Dial, report: Callable[[str], None]) -> None:
        self._dial = dial
        self._report = report
        self._free = threading.Semaphore(MOST)
        self._listener = _listening(local)
        self._open: set[Duplex] = set()

    @property
    def port(self) -> int:
        """The local port."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            self._free.acquire()
            threading.Thread(target=self._serve, args=(Socket(connection),), daemon=True).start()

    def _serve(self, client: Socket) -> None:
        try:
            self._join(client, self._dial())
        except RemoteError as error:
            self._report(f"a connection failed: {error.fact}")
            client.close()
        finally:
            self._free.release()

    def _join(self, client: Duplex, server: Duplex) -> None:
        both = {client, server}
        self._open |= both
        sending = threading.Thread(target=_copy, args=(client, server), daemon=True)
        sending.start()
        _copy(server, client)
        for one in both:
            one.close()
        self._open -= both


def _copy(source: Duplex, target: Duplex) -> None:
    """Pass on what one side sends, until it sends no more or the other side is gone."""
    with contextlib.suppress(OSError, ValueError):
        while part := source.read():
            target.write(part)
    target.end()


def _listening(port: int) -> socket.socket:
    """A socket that listens on loopback.

    Raises:
        RequestError: the port is in use, or needs rights that the user does not have.
    """
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise RequestError(
            f"port {port} of this machine cannot be used: {error.strerror}",
            "Name another one before the port of the job, as in 16006:6006, or 0:6006 for any.",
        ) from None


_ADDRESS = re.compile(r"^.*\bNodeAddr=([A-Za-z0-9][\w.:-]{0,252})\b", re.MULTILINE | re.ASCII)
_BEGIN = "slurmgen: connected"
_MOST_BEFORE = 100_000
"Bytes that a TaskProlog may print."
_SECONDS = 5
"In which the login node must reach the port."
_TRY = 'timeout "$1" bash -c \'exec 3<>"/dev/tcp/$0/$1"\' "$2" "$3"'
# The task ends when the program closes the connection, or soon after slurmgen has.
# By default srun holds back what does not end with a line feed; with --unbuffered it writes to a terminal,
# which must change no byte.
_RELAY = """
stty raw -echo <&1 2>/dev/null
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit
exec 4<&0
echo "$2"
cat <&3 &
reader=$!
{ cat <&4 >&3; sleep 2; kill "$reader"; } >/dev/null 2>&1 &
wait "$reader"
"""


def find_dial(
    transport: Transport, allocation: Allocation, node: str, port: int, report: Callable[[str], None]
) -> Dial:
    """How to reach a port of a node of a job.

    Args:
        report: is called if the login node does not reach it.

    Raises:
        CommandFailed: Slurm did not reply.
    """
    address = _address(transport, node)
    try:
        _check(transport, address, port)
    except RemoteError as error:
        report(
            f"{transport.where} does not reach port {port} of {node} ({error.fact}), perhaps because the "
            "program listens on loopback only; each connection is made by a step of the job instead"
        )
        return lambda: _by_step(transport, allocation, node, port)
    return lambda: transport.dial(address, port)


def _address(transport: Transport, node: str) -> str:
    match = _ADDRESS.search(call(transport, ["scontrol", "show", "node", node]).out)
    return match[1] if match else node


def _check(transport: Transport, address: str, port: int) -> None:
    argv = ["sh", "-c", _TRY, "try", str(_SECONDS), address, str(port)]
    completed = transport.run(argv, timeout=COMMAND_TIMEOUT)
    if completed.returncode:
        lines = completed.err.strip().splitlines()
        raise CommandFailed(lines[0].rpartition(": ")[2] if lines else "no reply")
    transport.dial(address, port).close()


def _by_step(transport: Transport, allocation: Allocation, node: str, port: int) -> Duplex:
    command = ["bash", "-c", _RELAY, "relay", str(port), _BEGIN]
    stream = transport.pipe(
        as_logged_in(transport, step(allocation, command, options=["--unbuffered"], node=node))
    )
    return _after(stream, f"nothing listens on port {port} of {node}")


class _Rest:
    """A stream of which a part was read already."""

    def __init__(self, stream: Duplex, first: bytes) -> None:
        self._stream, self._first = stream, first
        self.write, self.end, self.close = stream.write, stream.end, stream.close

    def read(self) -> bytes:
        part, self._first = self._first, b""
        return part or self._stream.read()


def _after(stream: Duplex, otherwise: str) -> Duplex:
    """What follows the line that the step prints when connected; a TaskProlog may print before it.

    Raises:
        CommandFailed: there is no such line.
    """
    read, mark = b"", f"{_BEGIN}\n".encode()
    while mark not in read:
        part = stream.read()
        if not part or len(read) > _MOST_BEFORE:
            stream.close()
            raise CommandFailed(otherwise)
        read += part
    return _Rest(stream, read.partition(mark)[2])


SHELL = ("bash",)
"What runs if the user names no command; on a terminal it reads ~/.bashrc."


def shell_argv(
    allocation: Allocation,
    node: str,
    command: Sequence[str],
    *,
    folder: str | None = None,
    plan: Plan | None = None,
    terminal: bool = False,
) -> list[str]:
    """The command for the login node.

    Args:
        command: what runs in it; the empty one is a shell.
        folder: the run folder of the job; default: the folder that Slurm chooses.
        plan: the plan of the job; None for the environment of the login node.
    """
    # A single task would be bound to one core.
    options = ["--cpu-bind=none", *(["--pty"] if terminal else [])]
    in_srun, in_task = _container(plan)
    # In a container that srun starts, there are no modules.
    setup = f"{render_setup(plan, software=not in_srun)}\n" if plan else ""
    task = ["bash", "-c", f'{setup}exec {" ".join([*in_task, ""])}"$@"', "slurmgen", *(command or SHELL)]
    srun = step(allocation, [], options=options, node=node)
    text = " ".join([f"exec {shlex.join(srun)}", *in_srun, shlex.join(task)])
    place = f"cd -- {shlex.quote(folder)} || exit\n" if folder else ""
    return ["bash", "-c", place + text]


def _container(plan: Plan | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of srun for the container, and the words before a command in it; both are shell words."""
    if plan is None:
        return (), ()
    names = tuple(variable.name for variable in plan.variables)
    return container_words(plan.setup, names)
