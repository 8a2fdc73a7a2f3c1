"""What reads text that others wrote, each with inputs that it could be given."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from slurmgen import lint
from slurmgen.config.project import load_project
from slurmgen.remote.ssh import host_keys
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.transport import Completed, Transport
from slurmgen.results.fetch import fetch
from slurmgen.sites.profiles import load_profile
from slurmgen.slurm import replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status import evidence
from slurmgen.status.failure import why
from slurmgen.status.prune import kept
from slurmgen.status.report_text import describe
from slurmgen.status.slurm import query_states
from slurmgen.sync.files import snapshot
from tests.fuzz.archives import Archive, archives
from tests.fuzz.pieces import Piece, joined, pieces


@dataclass(frozen=True)
class Target:
    """A reader, and what to give it."""

    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], object]
    known: tuple[Any, ...] = ()
    "Inputs that it failed on before."


class Remote:
    """A remote host that replies the same to every command."""

    where = "the remote host"
    login = ""
    shell = ("bash", "-c")

    def __init__(self, reply: bytes, status: int = 0) -> None:
        self._reply, self._status = reply, status

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        return Completed(self._status, self._reply, self._reply)

    def stream(self, argv: Sequence[str], **_: object) -> Iterator[bytes]:
        yield from (self._reply[at : at + 5000] for at in range(0, len(self._reply), 5000))


@contextmanager
def folder(name: str, text: str) -> Iterator[Path]:
    """A new folder with one file."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as path:
        Path(path, name).write_bytes(encoded(text))
        yield Path(path)


def encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def read_script(given: list[Piece]) -> None:
    with folder("train.py", "Trainer(devices=2)\n") as path:
        lint(f"#!/bin/bash\n{joined(given)}", "generic", path / "job.sbatch")


def read_training_script(given: list[Piece]) -> None:
    with folder("train.py", joined(given)) as path:
        lint("#!/bin/bash\nsrun python train.py\n", "generic", path / "job.sbatch")


def read_project(given: list[Piece]) -> None:
    with folder("slurmgen.toml", joined(given)) as path:
        load_project(path / "slurmgen.toml")


def read_profile(given: list[Piece]) -> None:
    with folder("lab.toml", joined(given)) as path:
        load_profile(path / "lab.toml", path)


def read_states(given: list[Piece]) -> None:
    reply, job = joined(given), JobId("12")
    remote: Transport = Remote(encoded(reply))  # type: ignore[assignment]
    states = query_states(remote, [job])[job]
    describe(states, job, remote.where)
    for one in states:
        why(one, reply)
    replies.job_id(reply)
    replies.log_path(reply)
    replies.trial(reply)
    replies.complaint(reply, "sbatch")


def read_snapshots(given: list[Piece]) -> None:
    remote: Transport = Remote(b"\0slurmgen answers\0" + encoded(joined(given)) + b"\0")  # type: ignore[assignment]
    kept(remote, "folder")


def read_log(given: list[Piece]) -> None:
    why(JobState(id="12", state="FAILED", exit_code="1:0"), [evidence.Piece(joined(given)[-32_768:])])


def read_ignore_file(given: list[Piece]) -> None:
    with folder(".gitignore", joined(given)) as path:
        for name in ("a" * 250, "aaab", "a/a/b/train.py", "a/\n"):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).touch()
        snapshot(path)


def read_known_hosts(given: list[Piece]) -> None:
    with folder("known_hosts", joined(given)) as path:
        (path / "config").write_text(f"Host *\n  UserKnownHostsFile {path}/known_hosts\n")
        with without_ssh():
            to = destination("login.example.org", str(path / "config"))
        host_keys.known(to)


def read_ssh_config(given: list[Piece]) -> None:
    with folder("config", joined(given)) as path, without_ssh():
        destination("user@login", str(path / "config"))


@contextmanager
def without_ssh() -> Iterator[None]:
    """Without a program `ssh`, which would run the commands of `Match exec`."""
    with patch.dict(os.environ, {"PATH": "/nonexistent"}):
        yield


def read_archive(given: Archive) -> None:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        outside = Path(name)
        (outside / "kept").write_text("x")
        (outside / "in").mkdir(0o700)
        before = _tree(outside)
        try:
            remote: Transport = Remote(given.content)  # type: ignore[assignment]
            fetch(remote, "folder", outside / "in" / "results", max_size=1 << 20)
        finally:
            assert _tree(outside) == before, "something outside of the folder of results changed"


def _tree(root: Path) -> list[tuple[str, int]]:
    """Names and modes, without the folder of results."""
    return sorted(
        (str(path), path.lstat().st_mode)
        for path in (root, *root.rglob("*"))
        if not path.is_relative_to(root / "in" / "results")
    )


SHELL = pieces(
    [
        *("\n", " ", ";", "&", "|", "#", "'", '"', "\\", "$", "$a", "${a}", "${a[@]}", "${!a}", "${a:-$b}"),
        *("`", "a=1", "a=$a$a", "a+=x", "a=(b c)", "export a=", 'bash -c "$a"', "eval $a", "srun "),
        *("python train.py", "torchrun --nproc-per-node=$a ", "accelerate launch ", "#SBATCH "),
        *("#SBATCH --nodes=", "--gres=gpu:", "--time=", "1-00:00:00", "99999999999999999999", "<<EOF\n"),
        *("EOF\n", "$((", "))", "*", "{1..9}", "[ ", " ]", "for a in 1 2; do ", "done\n", "if true; then "),
        *("fi\n", "f() {", "}\n", "set -e", "# slurmgen: ignore=SG1", "--a ", "-N 2 ", "=", "\t", "\r\n"),
        *("\0", "x" * 100, "é", "\udcff", "\u2028", "source a", "read a", "&&"),
    ],
    [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", "; }"),
        ("$((", "))"),
        ("${a:-", "}"),
        ('"', '"'),
        ("if true; then ", "\nfi\n"),
    ],
)
PYTHON = pieces(
    [
        *("x = 1\n", "Trainer(", "devices=", "num_nodes=", "2", "-", "+", "**", "*", "(", ")", "[", "]"),
        *(",", '"', "9" * 5000, "'''", "\n", " ", "def f():\n", "lambda: ", "a.b", "if x:", ":", "f'{x}'"),
        *("\\", "\0", "# é", "import torch\n", "accelerator = Accelerator()\n", "class A:", "@", "..."),
        *("1e999", "\udcff"),
    ],
    [("(", ")"), ("[", "]"), ("{", "}"), ("-", ""), ("not ", ""), ("a.", ""), ("f(", ")"), ("f'{", "}'")],
)
TOML = pieces(
    [
        *("\n", " = ", "=", '"', "'", '"""', "'''", ".", ",", "#", "[", "]", "{", "}", "a", "job", "site"),
        *("sites", 'site = "generic"\n', "[job.a]\n", "[[job]]\n", "[job.a.site.daic]\n", "[defaults]\n"),
        *("gpus = 2\n", "1_0", "template_dir = ", "script_dir = ", "env = {", 'name = "lab"\n'),
        *('extends = "generic"\n', "[partitions.a]\n", "[gpu.types.a]\n", "[modules]\ninit = [", '"a"'),
        *("1979-05-27", "nan", "0x", "9" * 5000, "\\u0000", "\\n", "-", "[login]\n", "host = ", "`", "$."),
        *("[...]", "expected `int`", "\r\n", "\0", "\udcff", "time = ", '"1:00"\n'),
    ],
    [("[", "]"), ("{a=", "}"), ("a.", ""), ("[a.", "]"), ("[[", "]]"), ('"', '"')],
)
SLURM = pieces(
    [
        *("|", "\n", "12", "12_3", "12_[1-9%2]", "12+1", "12.batch", "12;a", "COMPLETED", "CANCELLED by 0"),
        *("FAILED", "RUNNING", "0:0", "1:0", "0:53", "N/A", "Unknown", "00:00:01", "1-00:00:00"),
        *("UNLIMITED", "(null)", "cpu=2,mem=2G,gres/gpu=1", "mem=1e9K"),
        *("JobId=12 JobState=FAILED ExitCode=1:0", " StdOut=/a", "\n\n", "sbatch: error: "),
        *("Job 12 to start at ", "x" * 50, "\x1b[2J", "٣", "9" * 5000, " ", "\0", "\udcff", "\x85"),
        *("12|COMPLETED|0:0|00:01|1:00|Unknown|n1|cpu=2|00:01|mem=1K||||a\n",),
        *("12|RUNNING|None|0:01|1:00|N/A|n1|||||a\n",),
    ],
    [("|", "")],
)
SNAPSHOTS = pieces(
    [
        *("\0", "run", "snapshot", "env", "project", "a" * 64, "12", "kept", "free", "9" * 5000, "-1", "٣"),
        *("\n", "", "run\0p\0n\x00012\x0012\0kept\0d\0", "\udcff", "\x1b[2J", " ", "1e9", "."),
    ],
    [],
)
LOG = pieces(
    [
        *("\n", " ", ": ", "Traceback (most recent call last):\n", "  File x\n", "ValueError: x\n", "a"),
        *("a ", "Error", "[rank0]: ", "Root Cause (first observed failure):", "rank : 1"),
        *("PermissionError: ", "not found\n", "'", "ImportError: ", "version `"),
        *("cannot open shared object file", "bind ", "listen ", "Address already in use"),
        *("Timed out after ", "9", "Lmod has detected the following error:"),
        *("The following module(s) are unknown: ", "FileNotFoundError: ", "command not found"),
        *("Permission denied", "\x1b[2J", "\0", "\udcff", "A.", "_", "\r"),
    ],
    [],
)
IGNORE = pieces(
    [
        *("\n", "*", "**", "/", "**/", "/**", "?", "a", "b", "!", "\\", "[", "]", "[a-z]", "[!a]"),
        *("[[:alpha:]]", "[z-a]", "#", " ", "\\ ", "*a", ".env", "train.py", "\r", "\0", "\udcff", "é"),
        *("[]a]", "[[:x:]]", "[^"),
    ],
    [("[", "]"), ("*a", "")],
)
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIE" + "A" * 42
SSH = pieces(
    [
        *("\n", " ", "=", '"', "Host ", "Host *\n", "Match ", "all\n", "host ", "user ", "final\n"),
        *("Include ", "*", "HostName ", "login", "Port ", "22", "99999", "-1", "User ", "%h", "%", "%%r"),
        *("ProxyJump ", "a,b", "user@login", "ProxyCommand ", "none", "IdentityFile ", "~/x", "~other/x"),
        *("${A}", "ControlPath ", "ControlMaster ", "auto", "UserKnownHostsFile ", "/dev/null"),
        *("RevokedHostKeys ", "Ciphers ", "+aes", "HostKeyAlgorithms ", "#", "!", "CanonicalizeHostname "),
        *("yes", "RequiredRSASize ", "config", "\t", "'", "\0", "\udcff", "[::1]:22", "9" * 5000),
    ],
    [('"', '"')],
)
KNOWN_HOSTS = pieces(
    [
        *("\n", " ", ",", "*", "?", "!", "login.example.org", "[login.example.org]:22", "@revoked "),
        *("@cert-authority ", "ssh-ed25519 ", "ssh-rsa ", KEY, "AAAA", "=", "|1|", "|", "#", "\0"),
        *("\udcff", "[", "]", "[*]:*", "\r", f"login.example.org ssh-ed25519 {KEY}\n"),
    ],
    [("*", ""), ("[", "]")],
)

TARGETS = {
    "batch scripts": Target(SHELL, read_script),
    "training scripts": Target(PYTHON, read_training_script),
    "slurmgen.toml": Target(TOML, read_project),
    "site profiles": Target(TOML, read_profile),
    "Slurm's replies": Target(SLURM, read_states),
    "lists of snapshots": Target(SNAPSHOTS, read_snapshots),
    "ends of logs": Target(LOG, read_log),
    "ignore files": Target(IGNORE, read_ignore_file),
    "ssh_config": Target(SSH, read_ssh_config),
    "known_hosts": Target(KNOWN_HOSTS, read_known_hosts),
    "archives of results": Target(archives, read_archive),
}
