"""Run a command under strace: which programs it starts, what it opens or changes, where it connects to."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer

MAX_MEMORY = 2 << 30
"Bytes of address space. A command that needs more fails, instead of the machine."

# A process counts the memory of the one that it was forked from, here the tests'. A small one stands between.
_LAUNCH = """
import os, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""

CHANGES = {
    *("creat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod", "mknodat", "truncate"),
    *("chmod", "fchmod", "fchmodat", "chown", "lchown", "fchown", "fchownat"),
    *("setxattr", "lsetxattr", "fsetxattr"),
}
FOLLOW_LINKS = {"truncate", "chmod", "fchmodat", "chown", "setxattr"}
OPENS = {"open", "openat", "openat2"}
STARTS = {"execve", "execveat"}
MOVES = {"chdir", "fchdir", "clone", "clone3", "fork", "vfork"}
TRACED = CHANGES | OPENS | STARTS | MOVES | {"connect", "bind"}
WRITING = "O_WRONLY|O_RDWR|O_CREAT|O_TRUNC"

_HEX = r"(?:\\x[0-9a-f]{2})*"
_CALL = re.compile(rf"(?P<name>\w+)\((?P<args>.*)\) += (?P<result>-?\w+)(?:<(?P<path>{_HEX})>)?")
_FORK = re.compile(r"^(?:fork|vfork|clone3?)\(.* = (\d+)$", re.MULTILINE)
_FOLDER_AND_NAME = re.compile(rf'(?:(?:AT_FDCWD|\d+)<(?P<folder>{_HEX})>, )?"(?P<name>{_HEX})"')
_OPEN_FILE = re.compile(rf"\d+<({_HEX})>")
_ADDRESS = re.compile(rf'sa_family=(?P<family>\w+)(?:.*?"(?P<address>{_HEX})")?')


@dataclass(frozen=True)
class Event:
    """One call that a program made, with the path or address it is about."""

    program: str
    call: str
    target: str

    def __str__(self) -> str:
        return f"{self.program}: {self.call} {self.target!r}"


@dataclass(frozen=True)
class Watched:
    """The recorded actions of a command."""

    exit_code: int | None
    "None if it did not end in time."
    cpu_seconds: float
    memory: int
    "Bytes, of the largest process."
    out: bytes
    err: bytes
    started: tuple[Event, ...]
    read: tuple[Event, ...]
    changed: tuple[Event, ...]
    connected: tuple[Event, ...]


def watch(argv: Sequence[str], cwd: Path, environ: Mapping[str, str], limit: float) -> Watched:
    """Run a command for at most `limit` seconds, and list what it and its children did."""
    with tempfile.TemporaryDirectory(prefix="trace-") as name:
        # One file per process: lines of several processes in one file interrupt each other.
        options = ["--follow-forks", "--output-separately", f"--output={name}/of", "--seccomp-bpf"]
        shown = ["--strings-in-hex=all", "--decode-fds=path", "--string-limit=4096", "--quiet=all"]
        calls = ["--signal=none", f"--trace={','.join(sorted(TRACED))}"]
        out, err, peak = Path(name, "stdout"), Path(name, "stderr"), Path(name, "peak")
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(peak), "prlimit", f"--as={MAX_MEMORY}"]
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*launch, "strace", *options, *shown, *calls, "--", *argv],
                cwd=cwd,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                process_group=0,
            )
        hung = Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        hung.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        hung.cancel()
        events = tuple(_events(Path(name), cwd))
        return Watched(
            exit_code=None if process.returncode == -signal.SIGKILL else process.returncode,
            cpu_seconds=used.ru_utime + used.ru_stime,
            memory=int(peak.read_text()) << 10 if peak.exists() else 0,
            out=out.read_bytes(),
            err=err.read_bytes(),
            started=tuple(event for event in events if event.call in STARTS),
            read=tuple(event for event in events if event.call == "read"),
            changed=tuple(event for event in events if event.call in CHANGES | {"write", "bind"}),
            connected=tuple(event for event in events if event.call == "connect"),
        )


@dataclass
class _Process:
    """The state of a process at one line of its trace."""

    cwd: str
    program: str = "?"


def _events(traces: Path, cwd: Path) -> Iterator[Event]:
    """The events of all traces. A process begins where its parent was when it forked."""
    texts = {int(path.suffix[1:]): path.read_text() for path in traces.glob("of.*")}
    forked = {int(pid) for text in texts.values() for pid in _FORK.findall(text)}
    begun = {pid: _Process(str(cwd)) for pid in texts.keys() - forked}
    assert len(begun) == 1, f"several processes without a parent: {sorted(begun)}"
    while begun:
        pid, process = begun.popitem()
        for line in texts[pid].splitlines():
            if (call := _CALL.match(line)) is None:
                continue
            if call["name"] in MOVES:
                _follow(process, call, begun, texts.keys())
            else:
                yield from _seen(process, call)


def _follow(process: _Process, call: re.Match[str], begun: dict[int, _Process], known: Set[int]) -> None:
    """Note a new folder of the process, or a new process."""
    if call["result"].startswith("-"):
        return
    if call["name"] in ("chdir", "fchdir"):
        (process.cwd,) = _paths(process, call["args"])
    elif int(call["result"]) in known:
        begun[int(call["result"])] = replace(process)


def _seen(process: _Process, call: re.Match[str]) -> Iterator[Event]:
    name, args = call["name"], call["args"]
    if name == "connect":
        address = _ADDRESS.search(args)
        assert address, args
        yield Event(process.program, name, f"{address['family']} {_text(address['address'] or '')}".strip())
    elif (name == "bind" and "AF_UNIX" not in args) or call["result"].startswith("-"):  # it makes no file
        return
    elif name in STARTS:
        process.program = os.path.realpath(_paths(process, args)[0])
        yield Event(process.program, name, process.program)
    elif name in OPENS:
        yield Event(process.program, "write" if re.search(WRITING, args) else "read", _text(call["path"]))
    else:
        paths = _paths(process, args)[name.startswith("symlink") :]  # not what the link is to hold
        follow = os.path.realpath if name in FOLLOW_LINKS else str
        yield from (Event(process.program, name, follow(path)) for path in paths)


def _paths(process: _Process, args: str) -> list[str]:
    """The paths in a call's arguments, absolute, with the links above them followed."""
    named = [
        Path(process.cwd, _text(match["folder"] or ""), _text(match["name"]))
        for match in _FOLDER_AND_NAME.finditer(args)
    ]
    found = named or [Path(_text(path)) for path in _OPEN_FILE.findall(args)]
    return [str(Path(os.path.realpath(path.parent), path.name)) for path in found]


def _text(escaped: str) -> str:
    return os.fsdecode(bytes.fromhex(escaped.replace("\\x", "")))
