"""Every command that uses the ledger, on a disk that is full, on a file that is locked, and the like."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

import slurmgen
from slurmgen.cli import _exit_code
from slurmgen.errors import ConfigError, SlurmgenError
from slurmgen.ledger import ledger
from slurmgen.ledger.bad_nodes import BadNodes, Place, bad_node
from slurmgen.ledger.ledger import Ledger
from slurmgen.ledger.places import Consents
from slurmgen.remote.route import Route
from slurmgen.web.jobs.board import Board
from tests.scenarios.test_failing_machines import mount, small
from tests.support.programs import write_programs
from tests.support.twins import Testbed
from tests.test_paths import OTHER_USER, as_root

Fault = Callable[[Path], AbstractContextManager[object]]
LOCK = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute(sys.argv[2]); input(print())"


@contextmanager
def full(path: Path) -> Iterator[None]:
    filler = path.with_name("filler")
    with filler.open("wb", 0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 512)
    yield
    filler.unlink()


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    mount(path.parents[1], "remount", "ro")
    yield
    mount(path.parents[1], "remount", "rw")


@contextmanager
def of_another_user(path: Path) -> Iterator[None]:
    os.chown(path, OTHER_USER, OTHER_USER)
    yield
    os.chown(path, os.geteuid(), os.getegid())


@contextmanager
def replaced(path: Path, content: bytes, beside: bytes = b"") -> Iterator[None]:
    before, journal = path.read_bytes(), path.with_name(f"{path.name}-journal")
    path.write_bytes(content)
    journal.write_bytes(beside)
    yield
    assert path.read_bytes() == content, "the remains are as they were"
    journal.unlink()
    path.write_bytes(before)


@contextmanager
def gone(path: Path) -> Iterator[None]:
    """Its journal is left, which SQLite would apply to a new file."""
    away, journal = path.with_name("away"), path.with_name(f"{path.name}-journal")
    journal.write_bytes(b"x" * 512)
    path.rename(away)
    yield
    assert not path.exists()
    journal.unlink()
    away.rename(path)


@contextmanager
def locked(path: Path, how: str = "BEGIN EXCLUSIVE") -> Iterator[int]:
    argv = [sys.executable, "-c", LOCK, str(path), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        yield other.pid
        other.communicate(b"\n")


def damaged(path: Path) -> AbstractContextManager[object]:
    return replaced(path, path.read_bytes()[:100] + b"\xff" * 8000)


@contextmanager
def newer(path: Path) -> Iterator[None]:
    def set_version(version: int) -> None:
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA user_version = {version}")

    set_version(99)
    yield
    set_version(len(Ledger.migrations))


NEW = "to start a new one; but a new one knows none of your jobs: `status` does not list them, and repeating"
READS = ("status", "status ID", "wait ID", "cancel ID", "fetch ID --to x --overwrite", "logs ID")
COMMANDS = (*READS, "submit", "resubmit ID", "forget 20200101-000000-00000000")
FAULTS: dict[str, tuple[Fault, bool, str]] = {
    "full": (full, True, "database or disk is full. Free space there, or in your quota"),
    "read-only": (read_only, True, "Let yourself write to it (`chmod u+rw "),
    "locked by a writer": (
        lambda path: locked(path, "BEGIN IMMEDIATE"),
        True,
        "database is locked by another slurmgen (process PID). Wait until that has ended, then repeat",
    ),
    "locked": (locked, False, "database is locked by another slurmgen (process PID). Wait until that has"),
    "of another user": (of_another_user, False, "belongs to user "),
    "damaged": (damaged, False, "Restore it from a backup, or repair a copy of it with `sqlite3 COPY"),
    "no database": (
        lambda path: replaced(path, b"text" * 999),
        False,
        f"file is not a database. RESTit away {NEW}",
    ),
    "newer": (newer, False, "was written by a newer slurmgen"),
    "empty": (
        lambda path: replaced(path, b""),
        False,
        f"is empty: the ledger is lost. RESTledger.sqlite away {NEW}",
    ),
    "empty beside its journal": (
        lambda path: replaced(path, b"", b"x" * 512),
        False,
        "is empty, but ledger.sqlite-journal beside it shows that it was in use: the ledger is lost. Restore",
    ),
    "gone beside its journal": (gone, False, "is gone, but ledger.sqlite-journal beside it shows that"),
}
"A fault, whether the ledger can still be read, and the message."


@pytest.fixture(scope="module")
def submitted(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """A job that has ended, a copy of the ledger from before that was seen, and its project."""
    root = tmp_path_factory.mktemp("ledger")
    project, home = root / "project", root / "home"
    project.mkdir()
    home.mkdir()
    (project / "train.py").write_text("print('done')\n")
    argv = [sys.executable, "-m", "slurmgen", "submit", *JOB]
    environ = os.environ | testbed.twin.environ() | {"HOME": str(home), "XDG_STATE_HOME": str(root / "state")}
    reply = subprocess.run(argv, cwd=project, env=environ, capture_output=True, text=True, timeout=300)
    assert reply.returncode == 0, reply.stderr
    assert testbed.wait(reply.stdout.strip()) == "COMPLETED"
    return reply.stdout.strip(), root / "state", project


JOB = (
    "--site generic --via local --framework python --python-env none --script train.py --time 0:10:00".split()
)


@pytest.fixture
def job(
    submitted: tuple[str, Path, Path], testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The same on a small file system of its own."""
    for name, text in (testbed.twin.environ() | {"HOME": str(submitted[1].parent / "home")}).items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(submitted[2])
    with small(tmp_path / "state", "size=400k"):
        subprocess.run(["cp", "-r", f"{submitted[1]}/slurmgen", tmp_path / "state"], check=True, timeout=60)
        yield submitted[0]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READ_PATIENCE", "PATIENCE", "BRIEFLY", "SAY_AFTER"):
        monkeypatch.setattr(ledger, name, 0.01)


def jobs_of(testbed: Testbed) -> int:
    return len(testbed.run("squeue", "--noheader", "--states=all", "--format=%i").split())


@as_root
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", FAULTS)
def test_each_command_says_what_is_wrong_with_the_ledger_and_loses_nothing(
    name: str, job: str, testbed: Testbed, capfd: pytest.CaptureFixture[str]
) -> None:
    fault, is_readable, expected = FAULTS[name]
    before, jobs, path = Ledger().all(), jobs_of(testbed), Ledger().path
    with fault(path) as pid:
        text = expected.replace("PID", str(pid)).replace(
            "REST", "Restore it from a backup. If there is none, move "
        )
        for command in COMMANDS:
            argv = command.replace("ID", job).split()
            code = _exit_code([*argv, *(JOB if command == "submit" else [])])
            out, err = capfd.readouterr()
            if is_readable and command in READS:
                assert (code, "error" in err) == (0, False), (command, err)
                assert "done" in out or "COMPLETED" in out or "fetch" in command, command
            else:
                assert (code, out) == (2, ""), (command, err)
                assert text in err or "no unsettled submission" in err, command
                assert "Traceback" not in err
        with nullcontext() if is_readable else pytest.raises(ConfigError, match=r"\."):
            assert slurmgen.status(job).state == "COMPLETED"
        with nullcontext() if is_readable else pytest.raises(SlurmgenError):
            Board().rows()
    assert [one.key for one in Ledger().all()] == [one.key for one in before]
    assert jobs_of(testbed) == jobs, "a command that could not be recorded submitted nothing"


FILLS = 'dd if=/dev/zero of="$XDG_STATE_HOME/slurmgen/filler" bs=512 2>/dev/null'
LOCKS = (
    f'cd "$XDG_STATE_HOME/slurmgen"; mkfifo end; {sys.executable} -c "{LOCK}" ledger.sqlite "BEGIN IMMEDIATE"'
    " <>end >locks 2>/dev/null & until [ -s locks ]; do sleep 0.1; done"
)


@as_root
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("fault", "expected"), [(FILLS, "disk is full"), (LOCKS, "is locked by another")])
def test_a_job_that_cannot_be_recorded_any_more_is_printed_and_found_again(
    fault: str,
    expected: str,
    job: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    testbed: Testbed,
    capfd: pytest.CaptureFixture[str],
) -> None:
    write_programs(tmp_path, {"sbatch": f'({fault})\nexec /usr/bin/sbatch "$@"'}, "#!/bin/bash")
    path, jobs = os.environ["PATH"], jobs_of(testbed)
    monkeypatch.setenv("PATH", f"{tmp_path}:{path}")
    assert _exit_code(["submit", *JOB]) == 0
    out, err = capfd.readouterr()
    assert f"warning: job {out.strip()} is submitted, in " in err
    assert expected in err
    monkeypatch.setenv("PATH", path)
    folder = Ledger().path.parent
    if (folder / "end").exists():
        (folder / "end").write_text("\n")
    (folder / "filler").unlink(missing_ok=True)
    assert (_exit_code(["submit", *JOB]), capfd.readouterr().out) == (0, out)
    assert jobs_of(testbed) == jobs + 1


@as_root
def test_on_a_full_disk_no_ledger_is_begun_and_nothing_remains(tmp_path: Path) -> None:
    with small(tmp_path / "state", "size=8k"):
        ledger = Ledger(tmp_path / "state/slurmgen/ledger.sqlite")
        with pytest.raises(ConfigError, match="Free space there"):
            ledger.check()
        assert list(ledger.path.parent.iterdir()) == []


@pytest.mark.parametrize("file", [Ledger, BadNodes, Consents])
def test_a_new_file_is_never_empty(file: type[Ledger | BadNodes | Consents]) -> None:
    def use() -> None:
        one = file()
        match one:
            case Ledger():
                one.check()
            case BadNodes():
                one.add([bad_node(Place("daic"), "n1", "no GPU")])
            case Consents():
                one.add("p", "n", Route(site="s", via="local"))

    use()
    path = file().path
    assert path.stat().st_size
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match=rf"is empty: the .* is lost\. .* new one; but {file.loss}"):
        use()
    assert path.stat().st_size == 0


def test_a_hot_journal_is_rolled_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state/ledger.sqlite")
    ledger.check()
    code = (
        "import os, sqlite3, sys\nd = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "d.execute('PRAGMA cache_size = 1'); d.execute('BEGIN IMMEDIATE')\n"
        "for n in range(200): d.execute('INSERT INTO races VALUES (?, ?, ?, 0)', (str(n), 'x' * 4000, ''))\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(ledger.path)], check=False, timeout=300)
    assert ledger.path.with_name("ledger.sqlite-journal").stat().st_size
    assert ledger.all() == ()
    with closing(sqlite3.connect(ledger.path)) as database:
        assert database.execute("SELECT count(*) FROM races").fetchone() == (0,)


def test_a_command_that_waits_for_the_ledger_says_so_and_ends_on_ctrl_c() -> None:
    Ledger().check()
    argv = [sys.executable, "-m", "slurmgen", "status"]
    with locked(Ledger().path) as pid, subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr
        line = waiting.stderr.readline()
        assert line == f"waiting for the ledger, which another slurmgen (process {pid}) uses\n"
        waiting.send_signal(2)
        began = time.monotonic()
        assert (waiting.wait(300), waiting.stderr.read().strip()) == (130, "")
        assert time.monotonic() - began < ledger.READ_PATIENCE - ledger.SAY_AFTER


def test_a_command_goes_on_when_the_lock_is_released() -> None:
    Ledger().check()
    argv = [sys.executable, "-m", "slurmgen", "status", "--json"]
    with ExitStack() as stack:
        stack.enter_context(locked(Ledger().path))
        waiting = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr
        assert waiting.stderr.readline().startswith("waiting for the ledger")
        stack.close()
        assert (waiting.communicate(timeout=300), waiting.returncode) == (('{"jobs": []}\n', ""), 0)


def test_no_command_waits_for_long_without_a_word() -> None:
    assert max(ledger.BRIEFLY, ledger.SAY_AFTER) < 10
