"""Commands as copies of one process that has imported slurmgen, which takes half a second of CPU."""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["tests.campaign.preloaded"])


@dataclass(frozen=True)
class Done:
    code: int | None
    out: str
    err: str


@dataclass(frozen=True)
class Process:
    """A command that runs; its output is in files."""

    process: ForkServerProcess
    output: Path

    @property
    def out(self) -> str:
        return _text(self.output.with_suffix(".out"))

    @property
    def runs(self) -> bool:
        return self.process.is_alive()

    def interrupt(self) -> None:
        os.kill(self.process.pid or 0, signal.SIGINT)

    def done(self, seconds: float) -> Done:
        self.process.join(seconds)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
        return Done(code, self.out, _text(self.output.with_suffix(".err")))


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def start(function: str, argv: Sequence[str], environ: Mapping[str, str], cwd: Path, output: Path) -> Process:
    for end in (".out", ".err"):
        output.with_suffix(end).touch()
    process = SERVER.Process(target=_run, args=(function, list(argv), dict(environ), str(cwd), str(output)))
    process.start()
    return Process(process, output)


def _run(function: str, argv: list[str], environ: dict[str, str], cwd: str, output: str) -> None:
    from tests.campaign import preloaded

    for number, end in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(output + end, os.O_WRONLY | os.O_APPEND), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode) for n, mode in ((0, "r"), (1, "w"), (2, "w")))
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    getattr(preloaded, function)(argv)
