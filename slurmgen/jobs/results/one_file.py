"""One file of a job, as a stream of bytes that is kept nowhere."""

from collections.abc import Iterator

from msgspec import Struct

from slurmgen.errors import CommandFailed, TransferFailed
from slurmgen.jobs.results.byte_stream import SILENCE, BadArchive, ByteStream
from slurmgen.remote.transport import Transport

_DIGITS = 18
# A job may replace a file by a link to anywhere, so the file that is opened must be in the folder.
_READ = (
    'cd "$1" >/dev/null && here=$(pwd -P) && real=$(readlink -f -- "./$2") || exit; '
    'case $real in "$here"/*) ;; *) echo "it leads out of the folder of the job" >&2; exit 2 ;; esac; '
    '[ -f "$real" ] || { echo "it is not a file" >&2; exit 2; }; '
    'size=$(stat -c %s -- "$real") && '
    f'printf "%0{_DIGITS}d" "$size" && exec head -c "$size" <"$real"'
)


class Content(Struct, frozen=True):
    """A file: its size in bytes when it was opened, and its parts."""

    size: int
    parts: Iterator[bytes]


def read_file(transport: Transport, folder: str, name: str) -> Content:
    """Open a file of a job.

    Args:
        transport: to where the job ran.
        folder: the job's folder there.
        name: the path of the file in it, as `list_results` returns it.

    Raises:
        TransferFailed, CommandFailed, ConnectionFailed: it cannot be read; the parts raise them too.
    """
    command = ["sh", "-c", _READ, "file", folder, name]
    try:
        stream = ByteStream(transport.stream(command, timeout=SILENCE))
        size = stream.read(_DIGITS)
        if not size.isdigit():
            raise BadArchive("it has no size")
    except CommandFailed as error:
        raise TransferFailed(f"{name} cannot be read: {error.fact}", error.hint) from None
    except BadArchive as error:
        raise _broken(transport, name, error) from None
    return Content(int(size), _parts(transport, name, stream, int(size)))


def _parts(transport: Transport, name: str, stream: ByteStream, size: int) -> Iterator[bytes]:
    try:
        yield from stream.pieces(size)
        stream.finish()
    except BadArchive as error:
        raise _broken(transport, name, error) from None


def _broken(transport: Transport, name: str, error: BadArchive) -> TransferFailed:
    return TransferFailed(f"{transport.where} did not send the whole of {name}: {error}", "Try again.")
