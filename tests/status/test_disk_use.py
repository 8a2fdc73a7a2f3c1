"""How much disk space submissions take on the remote host, and that no run sees what another one changes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen.ledger.ledger import Ledger
from slurmgen.sync.files import snapshot
from slurmgen.sync.manifest import manifest
from tests.scenarios.test_hostile_replies import WAY, Machine
from tests.support.twins import settled

MEGABYTE = 1_000_000
SIZE = 20 * MEGABYTE
ORDINARY_USER = ["setpriv", "--inh-caps=-dac_override", "--bounding-set=-dac_override,-dac_read_search"]
"Takes from root the right to write to read-only files."
USERS = ["user", "root"] if os.geteuid() == 0 else ["user"]
SBATCH = """
for script; do :; done
cd "${script%/*}" && python3 train.py >log 2>&1
date +%s%N | cut -c 6-16
"""
APPEND = "open('data/0', 'a').write('changed')\n"


class Project(Machine):
    """A project of which sbatch runs train.py at once."""

    def __init__(self, folder: Path, *, root: bool) -> None:
        super().__init__(folder, self._run)
        self.prefix = ORDINARY_USER if os.geteuid() == 0 and not root else []
        self.answers("sbatch", SBATCH)
        self.remote = self.home / "slurmgen/project"
        (self.project / "data").mkdir()

    def _run(self, *args: str, **options: object) -> "subprocess.CompletedProcess[str]":
        argv = [*self.prefix, sys.executable, "-m", "slurmgen", *args]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload,no-any-return]

    def write(self, mode: int, files: int = 4) -> None:
        for number in range(files):
            path = self.project / f"data/{number}"
            path.write_bytes(os.urandom(SIZE // files))
            path.chmod(mode)

    def train(self, program: str = "") -> Path:
        """Submit a job that runs this program; its run folder."""
        (self.project / "train.py").write_text(program)
        before = self.runs()
        code, _, err = self.submit()
        assert code == 0, err
        settled(self.remote)
        (made,) = self.runs() - before
        return made

    def runs(self) -> set[Path]:
        return set((self.remote / "runs").glob("*"))

    def spares(self) -> list[Path]:
        return list(self.remote.glob("staging/spare.*"))

    def used(self) -> int:
        listed = subprocess.run(["du", "-sk", self.remote], capture_output=True, check=True, timeout=60)
        return int(listed.stdout.split()[0]) * 1024

    def prune(self, squeue: str = "exit 0") -> None:
        self.answers("squeue", squeue)
        code, _, err = self.slurmgen("snapshots", *WAY, "--prune", "--older-than", "0", "--yes")
        assert code == 0, err

    def require_sound_snapshots(self) -> None:
        for folder in (self.remote / "snapshots").iterdir():
            if folder.is_dir():
                assert manifest(snapshot(folder)).hash == folder.name


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, root=False)


@pytest.fixture(params=USERS)
def any_user(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    return Project(tmp_path, root=request.param == "root")


def content(run: Path) -> list[bytes]:
    return [(run / f"data/{number}").read_bytes() for number in range(4)]


def test_read_only_data_is_on_the_disk_once_for_all_runs(project: Project) -> None:
    project.write(0o444)
    runs = [project.train(program) for program in ("", "", "print('changed')")]
    assert project.used() < 1.2 * SIZE
    assert [content(run) for run in runs] == [content(project.project)] * 3
    project.require_sound_snapshots()


def test_data_that_a_job_may_write_to_is_on_the_disk_once_for_each_run_and_once_for_the_snapshots(
    project: Project,
) -> None:
    project.write(0o644)
    for program in ("", "", "print('changed')"):
        project.train(program)
    assert project.used() < 4.1 * SIZE


def test_a_large_changed_file_is_on_the_disk_once_if_it_is_read_only(project: Project) -> None:
    project.write(0o444)
    project.train()
    (project.project / "data/more").write_bytes(os.urandom(10 * MEGABYTE))
    (project.project / "data/more").chmod(0o444)
    project.train()
    assert project.used() < 1.2 * (SIZE + 10 * MEGABYTE)


def test_where_the_file_system_has_reflinks_what_was_sent_is_not_kept(project: Project) -> None:
    """A stand-in for such a file system: `cp --reflink=always` copies."""
    real = 'case $1 in --reflink=always) shift; exec /bin/cp "$@" ;; *) exec /bin/cp "$@" ;; esac'
    project.answers("cp", f'echo "$@" >>"{project.home}/copies"; {real}')
    project.write(0o644)
    run = project.train(APPEND)
    copies = (project.home / "copies").read_text().splitlines()
    assert any(line.startswith("-pPR --reflink=auto snapshots/") and ".new" not in line for line in copies)
    assert content(run)[1:] == content(project.project)[1:]
    assert content(run)[0].endswith(b"changed")
    project.require_sound_snapshots()


@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_a_run_never_sees_what_another_one_writes_to_its_files(any_user: Project, mode: int) -> None:
    any_user.write(0o444)
    (any_user.project / "data/0").chmod(mode)
    runs = [any_user.train(APPEND) for _ in range(3)]
    appended = (content(any_user.project)[0] + b"changed", content(any_user.project)[0])
    writable = mode == 0o644 or (not any_user.prefix and os.geteuid() == 0)
    assert [content(run)[0] for run in runs] == [appended[0 if writable else 1]] * 3
    any_user.require_sound_snapshots()


def test_a_job_that_writes_to_a_read_only_file_gets_an_error(project: Project) -> None:
    project.write(0o444)
    assert "PermissionError" in (project.train(APPEND) / "log").read_text()


def test_a_job_may_replace_a_read_only_file_in_its_folder(project: Project) -> None:
    project.write(0o444)
    replaced = project.train("import os; os.remove('data/0'); open('data/0', 'w').write('mine')\n")
    other = project.train()
    assert (replaced / "data/0").read_text() == "mine"
    assert content(other) == content(project.project)
    project.require_sound_snapshots()


@pytest.mark.parametrize("next_program", ["", "print('changed')"])
def test_a_read_only_file_that_a_job_changed_all_the_same_is_not_used_again(
    project: Project, next_program: str
) -> None:
    project.write(0o444)
    project.train()
    changes = f"import os; os.chmod('data/0', 0o644); {APPEND}os.chmod('data/0', 0o444)\n"
    assert content(project.train(changes))[0].endswith(b"changed")
    assert content(project.train(next_program)) == content(project.project)
    assert content(project.train(changes + "#"))[1:] == content(project.project)[1:]
    assert content(project.train(next_program)) == content(project.project)


def test_a_spare_copy_with_a_read_only_file_that_a_job_changed_is_not_used(project: Project) -> None:
    project.write(0o444)
    first = project.train()
    project.train()
    assert project.spares()
    (first / "data/0").chmod(0o644)  # by a job that still runs
    (first / "data/0").write_bytes(b"changed")
    assert content(project.train()) == content(project.project)


def test_fetch_brings_no_file_that_the_run_shares_unless_the_job_replaced_it(project: Project) -> None:
    project.write(0o444)
    project.train()
    replace = "import os; os.remove('data/1'); open('data/1', 'w').write('mine')\nopen('made', 'w')\n"
    replaced = project.train(replace)
    project.train("print('the same files are linked once more')")
    job = (project.remote / f"submissions/{replaced.name}/job").read_text().split()[0]
    code, _, err = project.slurmgen("fetch", job, "--to", "results", *WAY[:2])
    assert code == 0, err
    fetched = [path for path in (project.project / "results").rglob("*") if path.is_file()]
    assert sorted(path.name for path in fetched) == [".gitignore", "1", "log", "made"]


def test_pruning_a_run_leaves_the_files_that_others_share_read_only(project: Project) -> None:
    project.write(0o444)
    first, second = project.train(), project.train("print('changed')")
    os.utime(second / "log", (2e9, 2e9))
    project.prune()
    assert not first.exists()
    assert (second / "data/0").stat().st_mode & 0o777 == 0o444
    assert content(second) == content(project.project)


def test_pruning_does_not_believe_that_a_starting_controller_lists_nothing(project: Project) -> None:
    run = project.train()
    (job,) = (record.id for record in Ledger().all())
    project.prune(f"[ -e ~/asked ] && echo {job} || touch ~/asked")
    assert run.exists()


def test_pruning_leaves_nothing_but_the_records(project: Project) -> None:
    project.write(0o444)
    project.train()
    project.train()
    project.prune()
    left = {path.relative_to(project.remote).parts[0] for path in project.remote.rglob("*") if path.is_file()}
    assert left == {"submissions"}
    assert not list(project.remote.glob("submissions/*/shared"))
    assert project.used() < MEGABYTE


@pytest.mark.parametrize("files", [4, 2000])
def test_a_project_has_one_spare_copy_unless_it_is_large_for_its_number_of_files(
    project: Project, files: int
) -> None:
    for program in ("1", "2", "2"):
        project.train(program)
        assert len(project.spares()) == 1
    project.write(0o644, files)
    run, *_ = project.train("3"), project.train("3")
    project.require_sound_snapshots()
    assert len(list((run / "data").iterdir())) == files
    assert any((path / "data/0").exists() for path in project.spares()) == (files > 4)
