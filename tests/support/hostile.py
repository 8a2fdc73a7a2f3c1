"""A login node that accepts every login and replies to every command in the same odd manner.

It is a stand-in, since no sshd does that.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import paramiko

from tests.scenarios.test_hostile_replies import EVIL
from tests.support.questions import GONE, serving
from tests.support.sshd import Server, keygen

Answer = Callable[[paramiko.Channel], int | None]
"Replies to a command on a channel, which is closed after it; returns its exit status, None without an end."

LARGE = "9" * 4000
FRAME = "\0slurmgen answers\0"


def says(out: str | bytes, err: str | bytes = b"", status: int = 0) -> Answer:
    """A command that writes something and ends."""

    def answer(channel: paramiko.Channel) -> int:
        channel.sendall(out if isinstance(out, bytes) else out.encode())
        channel.sendall_stderr(err if isinstance(err, bytes) else err.encode())
        return status

    return answer


def _endless(part: bytes, *, err: bool = False) -> Answer:
    def answer(channel: paramiko.Channel) -> None:
        while True:
            (channel.sendall_stderr if err else channel.sendall)(part)

    return answer


def _signal(channel: paramiko.Channel) -> None:
    message = paramiko.Message()
    message.add_byte(bytes([98]))  # SSH_MSG_CHANNEL_REQUEST
    message.add_int(channel.remote_chanid)
    message.add_string("exit-signal")
    message.add_boolean(False)
    for text in ("KILL\x1b[2J", "", ""):
        message.add_string(text)
    message.add_boolean(False)
    channel.get_transport()._send_user_message(message)


def _dropped(channel: paramiko.Channel) -> None:
    channel.get_transport().close()


def drips(channel: paramiko.Channel) -> None:
    """A command that writes a byte now and then."""
    while True:
        channel.sendall(b"1")
        time.sleep(0.2)


def is_silent(channel: paramiko.Channel) -> None:
    """A command that closes its output and does not end."""
    channel.shutdown_write()
    time.sleep(30)


def _rows(id_: str, number: str, text: str) -> str:
    """A job as squeue, sacct and scontrol show it, and partitions and room as sinfo and df do."""
    return f"""{id_}|FAILED|{text}|{number}:00|{number}:00|{text}|{text}|{text}
{id_}|FAILED|{number}:0|{number}:00|{number}|{text}|{text}|cpu={number},mem={number}G|{number}|mem={number}K|n
{id_}.0|FAILED|{number}:0|{number}:00|{number}|{text}|{text}|cpu={number}|{number}|mem={number}K|{text}

JobId={id_} ArrayJobId={number} ArrayTaskId={number} JobName={text}
   JobState=FAILED Reason={text}
   Requeue=1 ExitCode={number}:{number}
   RunTime={number} TimeLimit={number}
   StdOut=/{text}

slurm {number}
Slurmctld(primary) at {text} is UP
gpu*|up|{number}/{number}/{number}/{number}
fs {number} {number} {number} {number}% /
"""


def _framed(*texts: str) -> str:
    return FRAME + "".join(f"{text}\0" for text in texts)


OVER = {
    "ends without a status": lambda _: None,
    "ends by a signal": _signal,
    "writes for ever": _endless(b"12_1|RUNNING|" * 5000),
    "writes lines for ever": _endless(b"12|FAILED||||||\n" * 4000),
    "writes errors for ever": _endless(b"\x1b[2J" * 16000, err=True),
    "drops the connection": _dropped,
    "fails": says(b"", EVIL * 100_000, 255),
}
"Not a reply to any command: the remote host has failed."

ODD: dict[str, Answer] = {
    "writes nothing": says(b""),
    "writes noise": says(os.urandom(100_000), os.urandom(100_000)),
    "writes invalid UTF-8": says(b"\xff\xfe\x9b2J|\xc3(" * 1000, b"\xf0\x9f|\n" * 1000),
    "writes control characters": says(_rows("12", "1", EVIL) + _framed(*[EVIL] * 7), EVIL),
    "writes control characters and fails": says(_rows("12", "1", EVIL), f"squeue: error: {EVIL}\n", 1),
    "writes large numbers": says(
        _rows("12", LARGE, "n") + _framed("submitted", LARGE, "/f", "new", LARGE, "")
    ),
    "writes large ids": says(_rows(f"12_{LARGE}", "1", "n") + _rows("12_\u0663", "\u00b2", "n")),
    "writes a huge line": says("12|RUNNING|" + "x" * 8_000_000 + "\n"),
    "writes an answer of submit": says(_framed("submitted", "12", "/f", "new", "1", "h", EVIL)),
    "writes an answer of snapshots": says(_framed("", "run", "p", EVIL, LARGE, LARGE, "free", EVIL)),
    "writes many texts": says(_framed(*["ab"] * 1_000_000)),
    "ends with a huge status": says(_rows("12", "1", "n"), "", 2**32 - 1),
}
"A reply, but not a valid one."


class _Host(paramiko.ServerInterface):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        mark = re.search(rb"slurmgen-[0-9a-f]{32}", command)
        assert mark
        channel.get_transport().begin(self._execute, channel, mark[0])
        return True

    def _execute(self, channel: paramiko.Channel, mark: bytes) -> None:
        with suppress(*GONE):
            channel.sendall_stderr(mark + b" errors begin\n")
            channel.sendall(mark + b" begin\n")
            status = self.answer(channel)
            if status is not None:
                channel.sendall(b"%s end%03d\n" % (mark, status))
                channel.sendall_stderr(b"%s end%03d\n" % (mark, status))
                channel.send_exit_status(status)
        with suppress(*GONE):
            channel.close()


@contextmanager
def hostile(folder: Path, answer: Answer) -> Iterator[Server]:
    """Start a server with these replies; it ends with the block."""
    host_key = keygen(folder / "host_key")
    keygen(folder / "key")
    with serving(host_key, lambda: _Host(answer)) as port:
        yield Server(folder, port)
