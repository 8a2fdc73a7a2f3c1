"""The port of a program in a job: from the login node, or by a step of the job where that is not possible."""

import re
from collections.abc import Callable

from slurmgen.errors import CommandFailed, RemoteError
from slurmgen.jobs.live.allocation import Allocation, step
from slurmgen.jobs.live.forward import Dial
from slurmgen.jobs.slurm_client import as_logged_in, call
from slurmgen.remote.duplex import Duplex
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport

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
        transport: the connection to the login node.
        allocation: of the job.
        node: the node.
        port: the port.
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
