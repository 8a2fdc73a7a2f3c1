"""No disk space, no right to write, many at once, ^C, and hostile names."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from slurmgen import Request, load_site, remote_scripts, resolve
from slurmgen.errors import RemoteError, TransferFailed
from slurmgen.ledger.ledger import Ledger
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.transport import Completed, Transport
from slurmgen.results.fetch import fetch
from slurmgen.submit.exactly_once import Submission, Submitted, Timeouts, submit
from slurmgen.sync.files import snapshot
from slurmgen.sync.manifest import Sent, manifest, parent_folder
from tests.conftest import REPOSITORY
from tests.support.programs import write_programs
from tests.support.twins import Testbed, eventually, settled

TIMEOUTS = Timeouts(sbatch=60, grace=1, reply=300)
HELD = "#!/bin/bash\n#SBATCH --hold --output=%x-%j.out\n"


def submission(root: Path, remote_dir: str, key: str, script: str = HELD) -> Submission:
    files = snapshot(root)
    return Submission(
        name="hard",
        script=script,
        files=files,
        content=manifest(files),
        parent=parent_folder(remote_dir, "p"),
        key=key,
        output="%x-%j.out",
    )


def counted(testbed: Testbed) -> Counter[str]:
    rows = testbed.run("squeue", "--noheader", "--states=all", "--format=%k").split()
    return Counter(row.partition(":")[2] for row in rows)


@pytest.fixture
def transport(testbed: Testbed) -> Transport:
    return LocalTransport(testbed.twin.environ())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(30):
        (root / f"{number}").write_bytes(os.urandom(8192))
    return root


@dataclass
class Sender:
    """Submits the project of a test to a folder of its own."""

    transport: Transport
    project: Path
    folder: Path
    parts: list[int] = field(default_factory=list)
    "The bytes that the last submission sent."

    @property
    def remote(self) -> Path:
        """The folder of the project on the cluster."""
        return self.folder / "remote/p"

    def __call__(self, key: str, sent: str = "m") -> Submitted:
        self.parts.clear()
        one = submission(self.project, str(self.folder / "remote"), key)
        return submit(
            self.transport, one, Sent(self.folder / sent), TIMEOUTS, lambda part, _: self.parts.append(part)
        )


@pytest.fixture
def send(transport: Transport, project: Path, tmp_path: Path) -> Sender:
    return Sender(transport, project, tmp_path)


def mount(folder: Path, *options: str) -> None:
    argv = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(folder)]
    if os.geteuid():  # an ordinary user may, in a namespace of their own, which then has to last
        argv = ["sudo", "-n", *argv]
    subprocess.run(argv, check=True, timeout=120)


@contextmanager
def small(folder: Path, limit: str) -> Iterator[None]:
    """A small file system of its own, for the block."""
    folder.mkdir(exist_ok=True)
    mount(folder, limit, "mode=700")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=120)


CAUSES = ("left on device", "cannot make", "cannot write", "could not be written")
SIZES = [f"size={size}k" for size in range(32, 800, 48)]
FILES = [f"nr_inodes={count}" for count in range(3, 90, 6)]


@pytest.mark.parametrize("limits", [SIZES, FILES], ids=["full disk", "quota of files"])
def test_wherever_the_disk_is_full_there_is_one_job_once_there_is_space(
    transport: Transport, testbed: Testbed, project: Path, tmp_path: Path, limits: list[str]
) -> None:
    outcomes: Counter[str] = Counter()
    errors: list[str] = []
    for number, limit in enumerate(limits):
        remote = tmp_path / f"remote-{number}"
        one = submission(project, str(remote), f"room-{limit}")
        with small(remote, limit):
            try:
                outcomes[type(submit(transport, one, Sent(tmp_path / "m"), TIMEOUTS)).__name__] += 1
            except RemoteError as error:
                outcomes[type(error).__name__] += 1
                errors.append(error.fact)
            name = limit.partition("=")[0]
            mount(remote, "remount", f"{name}={'50m' if name == 'size' else 5000}")
            done = submit(transport, one, Sent(tmp_path / "m"), TIMEOUTS)
            assert (Path(done.folder) / "29").read_bytes() == (project / "29").read_bytes()
    assert all(any(cause in text for cause in CAUSES) for text in errors), errors
    jobs = counted(testbed)
    assert [jobs[f"room-{limit}"] for limit in limits] == [1] * len(limits)
    assert outcomes["TransferFailed"] > len(limits) / 2, outcomes
    assert outcomes["Submitted"] > 0, outcomes


def test_a_limit_on_the_size_of_files_is_an_error(testbed: Testbed, project: Path, tmp_path: Path) -> None:
    class Limited(LocalTransport):
        shell = ("bash", "-c")

        def run(self, argv: Sequence[str], **more: Any) -> Completed:
            limited = ["bash", "-c", "trap '' XFSZ; ulimit -f 4; exec \"$@\"", "bash", *argv]
            return super().run(limited, **more)

    one = submission(project, str(tmp_path / "remote"), "limit")
    with pytest.raises(TransferFailed, match=r"Wrote only|File too large"):
        submit(Limited(testbed.twin.environ()), one, Sent(tmp_path / "m"), TIMEOUTS)
    assert counted(testbed)["limit"] == 0


def test_a_folder_that_becomes_read_only_loses_no_job(send: Sender, testbed: Testbed) -> None:
    remote = send.folder / "remote"
    with small(remote, "size=50m"):
        first = send("read-only-1")
        mount(remote, "remount", "ro")
        assert send("read-only-1").job == first.job
        with pytest.raises(TransferFailed, match=r"Read-only|could not be written|cannot"):
            send("read-only-2")
        mount(remote, "remount", "rw")
        assert send("read-only-1").job == first.job
        send("read-only-2")
    jobs = counted(testbed)
    assert (jobs["read-only-1"], jobs["read-only-2"]) == (1, 1)


class Counting(LocalTransport):
    """This machine, with a count of commands."""

    commands = 0

    def run(self, argv: Sequence[str], **more: Any) -> Completed:
        self.commands += 1
        return super().run(argv, **more)


def test_a_submission_takes_one_round_trip_and_two_if_its_snapshot_is_missing(
    testbed: Testbed, project: Path, tmp_path: Path
) -> None:
    def trips(key: str) -> int:
        transport = Counting(testbed.twin.environ())
        Sender(transport, project, tmp_path)(key)
        return transport.commands

    first, unchanged = trips("trips-1"), trips("trips-2")
    (project / "0").write_text("changed")
    changed = trips("trips-3")
    shutil.rmtree(tmp_path / "m")  # as on another machine
    elsewhere = trips("trips-4")
    shutil.rmtree(settled(tmp_path / "remote/p") / "snapshots")  # as pruned meanwhile
    shutil.rmtree(tmp_path / "remote/p/staging")
    assert (first, unchanged, changed, elsewhere, trips("trips-5")) == (1, 1, 1, 1, 2)


def test_a_project_that_the_host_has_already_is_not_sent_to_its_end(send: Sender) -> None:
    (send.project / "large").write_bytes(bytes(300_000_000))
    send("there-1")
    send("there-2", sent="elsewhere")
    assert sum(send.parts) < 30_000_000


def test_only_what_changed_is_sent_and_the_snapshot_is_what_it_would_be(send: Sender) -> None:
    project = send.project
    (project / "d/e").mkdir(parents=True)
    (project / "d/e/f").write_text("f")
    before = send("base")
    (project / "1").write_text("changed")
    (project / "2").unlink()
    (project / "3").unlink()
    (project / "3").mkdir()  # a file becomes a folder
    (project / "3/x").write_text("x")
    (project / "d/e/f").unlink()
    (project / "d/e").rmdir()
    (project / "d").rmdir()
    (project / "d").write_text("a folder becomes a file")
    (project / "4").chmod(0o755)
    (project / "5").unlink()
    (project / "5").symlink_to("6")
    done = send("next")
    assert sum(send.parts) < 20_000
    assert done.snapshot == manifest(snapshot(project)).hash
    for each in (before, done):  # they share files, and neither changed the other
        kept = settled(send.remote) / "snapshots" / each.snapshot
        assert manifest(snapshot(kept)).hash == each.snapshot
    (Path(done.folder) / "hard.sbatch").unlink()
    assert manifest(snapshot(Path(done.folder))).hash == done.snapshot
    assert all((Path(done.folder) / name).stat().st_nlink == 1 for name in ("6", "7"))
    assert [path.name for path in kept.iterdir() if path.is_dir()] == ["3"]


@contextmanager
def no_snapshots_made() -> Iterator[None]:
    """As on a login node that ends all processes of a user who logs out."""
    with patch.object(remote_scripts, "program", lambda name: real(name).replace("(finish)", "(true)")):
        yield


real = remote_scripts.program


def test_what_was_sent_replaces_the_snapshot_until_one_is_made_from_it(send: Sender) -> None:
    with no_snapshots_made():
        first = send("first")
        (send.project / "1").write_text("changed")
        (send.project / "2").unlink()
        second = send("second")
    snapshots = send.remote / "snapshots"
    made = [path.name for path in snapshots.iterdir() if path.is_dir()]
    assert made == [first.snapshot]  # the next one is based on it
    third = send("third")
    assert sum(send.parts) < 4096  # none of the files
    assert third.snapshot == second.snapshot
    for each in (second, third):
        assert contents(each) == each.snapshot
    kept = snapshots / second.snapshot
    eventually(kept.is_dir)
    assert manifest(snapshot(kept)).hash == second.snapshot != first.snapshot


def contents(done: Submitted) -> str:
    """The hash of a run folder without its script."""
    (Path(done.folder) / "hard.sbatch").unlink()
    return manifest(snapshot(Path(done.folder))).hash


@pytest.mark.parametrize("lost", ["tar", "gone", ""])
def test_a_damaged_copy_of_what_was_sent_is_not_used(send: Sender, lost: str) -> None:
    send("first")
    settled(send.remote)
    for name in "123":
        (send.project / name).unlink()
    with no_snapshots_made():
        second = send("second")
    (kept,) = (send.remote / "staging").glob("sent.*")
    if lost:
        os.truncate(kept / lost, (kept / lost).stat().st_size // 2)
    else:
        shutil.rmtree(kept)
    third = send("third")
    assert contents(third) == third.snapshot == second.snapshot


def test_a_copy_of_what_was_sent_with_a_hole_in_it_is_not_kept(
    testbed: Testbed, project: Path, tmp_path: Path
) -> None:
    """As on a file server that reports a quota only when the file is closed."""
    tee = 'head -c 20480 >"$1.all"; cat "$1.all"; head -c 20480 /dev/zero >"$1"; tee -a "$1"; exit 1'
    write_programs(tmp_path / "bin", {"tee": f"PATH={os.environ['PATH']}\n{tee}"})
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    send = Sender(LocalTransport(testbed.twin.environ() | path), project, tmp_path)
    first, second = send("one"), send("two")
    assert contents(first) == contents(second) == first.snapshot == second.snapshot
    assert not list((send.remote / "staging").glob("sent.*"))


def test_a_base_that_is_removed_before_the_snapshot_is_made_does_no_harm(send: Sender) -> None:
    first = send("first")
    settled(send.remote)
    (send.project / "1").write_text("changed")
    with no_snapshots_made():
        send("second")
    shutil.rmtree(send.remote / "snapshots" / first.snapshot)
    third = send("third")
    assert contents(third) == third.snapshot != first.snapshot


def test_where_snapshots_are_never_made_in_the_background_nothing_accumulates(send: Sender) -> None:
    with no_snapshots_made():
        for number in range(5):
            (send.project / "1").write_text(f"{number}")
            done = send(f"pile-{number}")
    assert len(list((send.remote / "staging").iterdir())) == 1
    assert contents(done) == done.snapshot


def test_the_rights_that_a_folder_grants_to_a_group_are_not_inherited(send: Sender) -> None:
    granted = ((1, 7, -1), (4, 7, -1), (16, 7, -1), (32, 5, -1))  # setfacl -m d:u::rwx,d:g::rwx,d:o::rx
    shared = send.folder / "remote"
    shared.mkdir()
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in granted)
    os.setxattr(shared, "system.posix_acl_default", acl)
    (shared / "new").mkdir()
    assert (shared / "new").stat().st_mode & 0o070  # whatever the umask
    send("granted")
    assert send.remote.stat().st_mode & 0o777 == 0o700


AT_ONCE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from slurmgen import Request, load_site, resolve, submit

site = load_site("generic")
def one(number):
    request = Request(framework="python", script="0", name=f"{sys.argv[2]}-{number}", sbatch={"hold": ""})
    return submit(resolve(request, site), sys.argv[1], via="twin", remote_dir=sys.argv[3]).id
with ThreadPoolExecutor(5) as pool:
    print(*pool.map(one, range(5)))
"""


def test_twenty_at_once_from_four_processes_are_twenty_jobs_and_entries(
    testbed: Testbed, project: Path, tmp_path: Path
) -> None:
    environ = {**testbed.environ, "PYTHONPATH": str(REPOSITORY)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, str(project), f"at-once-{number}", str(tmp_path / "remote")],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    numbers = [job for one in started for job in one.communicate(timeout=600)[0].split()]
    assert len(set(numbers)) == 20
    entries = [one for one in Ledger(_ledger(testbed)).all() if one.name.startswith("at-once")]
    assert sorted(one.id for one in entries) == sorted(numbers)
    jobs = counted(testbed)
    assert {jobs[one.key] for one in entries} == {1}
    snapshots = (settled(tmp_path / "remote/project") / "snapshots").iterdir()
    assert len([path for path in snapshots if path.is_dir()]) == 1


BEGUN = "from slurmgen.cli import main; print('begun', flush=True); main()"


def _ledger(testbed: Testbed) -> Path:
    return Path(testbed.environ["XDG_STATE_HOME"], "slurmgen/ledger.sqlite")


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_at_any_moment_leaves_one_job_a_key(
    testbed: Testbed, project: Path, tmp_path: Path, blow: signal.Signals
) -> None:
    way = ["--site", "generic", "--via", "twin", "--remote-dir", str(tmp_path / "remote")]
    job = ["--framework", "python", "--script", "0", "--sbatch", "hold"]
    environ = {**testbed.environ, "PYTHONPATH": str(REPOSITORY)}

    def ended(number: int) -> str:
        name = f"ended-{blow.name}-{number}"
        argv = [sys.executable, "-c", BEGUN, "submit", *way, *job, "--name", name]
        with subprocess.Popen(
            argv, cwd=project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as one:
            assert one.stdout
            assert one.stdout.readline() == "begun\n"  # before that, Python itself reports ^C
            time.sleep(0.05 + number * 0.12)
            one.send_signal(blow)
            errors = one.communicate(timeout=300)[1]
        assert "Traceback" not in errors
        assert one.returncode in (0, 130, -blow), errors
        if one.returncode:
            subprocess.run(argv, cwd=project, env=environ, check=True, capture_output=True, timeout=600)
        return name

    with ThreadPoolExecutor(2) as pool:
        names = set(pool.map(ended, range(12)))
    entries = [one for one in Ledger(_ledger(testbed)).all() if one.name in names]
    jobs = counted(testbed)
    assert {one.name for one in entries} == names
    assert not [one for one in entries if one.pending or jobs[one.key] != 1]
    listed = testbed.run("squeue", "--noheader", "--states=all", "--format=%j").split()
    assert sum(name in names for name in listed) == len(entries)


WORDS = (
    r"""-rf -- - -T @x $HOME ${IFS} ~ ~root * ? [a-z] {a,b} ! !! #x %s%n %j \ \n ' " it's "quoted" '' \' """
    "$'x' é e\u0301 ☃ 名 ... ..a .hidden a..b CON nul a:b a=b a,b a;b a&b a|b <a> (a) "
    "job closed complete intent.1 record.json hard.sbatch.x sbatch snapshots"
)
SPACED = (
    *("--checkpoint-action=exec=touch pwned", "--to-command=touch pwned", "$(touch pwned)", "`touch pwned`"),
    *("; touch pwned", "&& touch pwned", "| touch pwned", "> pwned", "a b", " a", "a ", "  ", "\t", "a\tb"),
    *("a\nb", "\n", "\r", "\x1b[2J", "\x1b]0;pwned\x07", "\x7f", "\x01", "\u202egpj.exe", "\u200b"),
)


def hostile_names() -> list[str]:
    """A hundred names of files, each with a special meaning for some program."""
    words = [*WORDS.split(" "), *SPACED, "x" * 240]
    more = [f"{word}.{number}" for number, word in enumerate(words)]
    return list(dict.fromkeys((*words, *more)))[:100]


LIST = """cat > made.py <<'END'
import os, pathlib
pathlib.Path("made").mkdir()
for name in sorted(os.listdir(b"names")):
    pathlib.Path(os.fsdecode(b"made/" + name)).write_bytes(open(b"names/" + name, "rb").read())
END
"$SLURMGEN_PYTHON" made.py
"""


def test_a_hundred_hostile_names_are_sent_and_fetched_unchanged(
    cluster: Transport, testbed: Testbed, tmp_path: Path
) -> None:
    root = tmp_path / "p"
    (root / "names").mkdir(parents=True)
    names = hostile_names()
    assert len(names) == 100
    for name in names:
        (root / "names" / name).write_bytes(name.encode())
    script = HELD.replace("--hold ", "") + LIST.replace("$SLURMGEN_PYTHON", sys.executable)
    sent, remote = Sent(tmp_path / "m"), f"hostile-{tmp_path.name}"

    def round_trip(key: str) -> set[str]:
        done: Submitted = submit(
            cluster, submission(root, remote, f"{tmp_path.name}-{key}", script), sent, TIMEOUTS
        )
        assert testbed.wait(str(done.job)) == "COMPLETED"
        to = tmp_path / f"back-{key}"
        came = fetch(cluster, done.folder, to)
        assert not came.refused
        made = {path.name: path.read_bytes() for path in (to / "made").iterdir()}
        assert all(text == name.encode() for name, text in made.items())
        return set(made)

    assert round_trip("all") == set(names)
    for name in names[::2]:  # the list of removed names removes these
        (root / "names" / name).unlink()
    assert round_trip("half") == set(names[1::2])
    assert not [path for path in tmp_path.rglob("*") if path.name == "pwned"]


def test_a_hundred_hostile_arguments_reach_the_script_unchanged(testbed: Testbed, tmp_path: Path) -> None:
    root = tmp_path / "it's $(touch pwned); p"
    root.mkdir()
    (root / "show.py").write_text("import sys\nopen('args', 'w').write('\\0'.join(sys.argv[1:]))\n")
    printable = [name for name in hostile_names() if name.isprintable()]
    words = tuple(f"{word}{number}" for number in range(2) for word in printable)[:100]
    assert len(words) == 100
    environ = {**testbed.environ, "PATH": f"{Path(sys.executable).parent}:{testbed.environ['PATH']}"}
    with patch.dict(os.environ, environ, clear=True):
        import slurmgen

        plan = resolve(
            Request(
                framework="python",
                script="show.py",
                script_args=tuple(word.replace("$", "$$") for word in words),
                time="00:05:00",
            ),
            load_site("generic"),
        )
        job = slurmgen.submit(plan, root, via="twin", remote_dir=str(tmp_path / "`touch pwned`"))
    assert testbed.wait(job.id) == "COMPLETED"
    assert (Path(job.folder) / "args").read_text().split("\0") == list(words)
    assert not [path for path in tmp_path.rglob("*") if path.name == "pwned"]
