"""The commit, and whether the project differs from it, without running programs that a repository names."""

import os
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.sync.git import Revision, repository, revision
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import JOB
from tests.support.examples import examples


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a git configuration of the user's own."""
    folder = tmp_path_factory.mktemp("git-home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    (folder / ".gitconfig").write_text('[user]\nname = n\nemail = e\n[protocol "file"]\nallow = always\n')
    return folder


def git(folder: Path, *words: str) -> str:
    reply = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return reply.stdout.decode().strip()


FUNCTIONS = """
commit_all() { git add --all; git commit --quiet --allow-empty --message x; }
with_filter() { echo "* filter=$1" >.git/info/attributes; touch -d @1 *.py; }
with_monitor() { printf '%s\\n' '[core]' repositoryformatversion=0 worktree=. "fsmonitor = $program"; }
with_hook() {
  mkdir -p .git/hooks; printf '#!/bin/sh\\n%s\\n' "$program" >.git/hooks/post-index-change
  chmod 755 .git/hooks/*; touch -d @1 train.py
}
anew() { rm train.py; git checkout --quiet train.py; grep -q $'\\r' train.py; touch -d @1 train.py; }
"""


def shell(folder: Path, script: str, program: str = "") -> None:
    environ = {**os.environ, "program": program}
    subprocess.run(["bash", "-ec", FUNCTIONS + script], cwd=folder, env=environ, check=True)


def commit_all(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    for name in ("train.py", "sub/data", "other"):
        (folder / name).write_text(f"{name}\n")
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    git(folder, "init", "--quiet")
    commit_all(folder)
    return folder


def test_an_unchanged_project_is_at_its_commit(project: Path) -> None:
    assert revision(project) == Revision(git(project, "rev-parse", "HEAD"), dirty=False)


REPOSITORIES = {one.name: one for one in examples(Path(__file__).with_name("repositories.txt"))}


def names(kind: str) -> list[str]:
    """Those that are `dirty` or `clean`, or a `trap` that `git status` steps into."""
    return [one.name for one in REPOSITORIES.values() if one.expected == kind]


@pytest.mark.parametrize("change", names("dirty"))
def test_a_change_makes_it_dirty(project: Path, change: str) -> None:
    commit = git(project, "rev-parse", "HEAD")
    shell(project, REPOSITORIES[change].text)
    assert revision(project) == Revision(commit, dirty=True)


@pytest.mark.parametrize("arrange", names("clean"))
def test_what_git_calls_clean_is_clean(project: Path, arrange: str) -> None:
    shell(project, REPOSITORIES[arrange].text)
    assert git(project, "status", "--porcelain") == ""
    assert revision(project) == Revision(git(project, "rev-parse", "HEAD"), dirty=False)


def test_nothing_in_the_repository_is_written(project: Path) -> None:
    os.utime(project / "train.py", (1, 1))
    before = {path: path.lstat().st_mtime_ns for path in project.rglob("*")}
    revision(project)
    assert {path: path.lstat().st_mtime_ns for path in project.rglob("*")} == before


def test_only_changes_in_a_folder_that_is_the_project_count(project: Path) -> None:
    (project / "train.py").write_text("changed\n")
    assert revision(project / "sub") == Revision(git(project, "rev-parse", "HEAD"), dirty=False)
    (project / "sub/new").write_text("")
    assert revision(project / "sub").dirty


def test_a_work_tree_has_a_commit_of_its_own(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "branch", str(tmp_path / "tree"))
    (tmp_path / "tree/new").write_text("")
    commit = commit_all(tmp_path / "tree")
    assert revision(tmp_path / "tree") == Revision(commit, dirty=False) != revision(project)
    (tmp_path / "tree/train.py").write_text("changed\n")
    assert revision(tmp_path / "tree") == Revision(commit, dirty=True)
    assert not revision(project).dirty


def test_a_clone_that_shares_objects_has_a_commit(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--shared", str(project), "clone")
    assert revision(tmp_path / "clone") == revision(project)


def test_a_repository_with_long_hashes_has_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256")
    (tmp_path / "file").write_text("x")
    commit = commit_all(tmp_path)
    assert (len(commit), revision(tmp_path)) == (64, Revision(commit, dirty=False))


@pytest.fixture
def outer(project: Path, tmp_path: Path) -> Path:
    """A repository with `project` as the submodule `inner/module`."""
    folder = tmp_path / "outer"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "submodule", "--quiet", "add", str(project), "inner/module")
    commit_all(folder)
    return folder


def test_a_submodule_counts(outer: Path) -> None:
    module = outer / "inner/module"
    commit = git(outer, "rev-parse", "HEAD")
    assert revision(outer) == revision(outer / "inner") == Revision(commit, dirty=False)
    (module / "new").touch()
    assert revision(outer) == revision(outer / "inner") == Revision(commit, dirty=True)
    commit_all(module)
    assert revision(outer) == Revision(commit, dirty=True)
    assert revision(module) == Revision(git(module, "rev-parse", "HEAD"), dirty=False)
    commit_all(outer)
    assert not revision(outer).dirty


def test_a_submodule_that_is_not_checked_out_does_not_count(outer: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(outer), "clone")
    assert revision(tmp_path / "clone") == Revision(git(outer, "rev-parse", "HEAD"), dirty=False)


def test_there_is_no_revision_without_a_commit_or_without_git(tmp_path: Path) -> None:
    assert revision(tmp_path) == Revision()
    git(tmp_path, "init", "--quiet")
    assert revision(tmp_path) == Revision()


def test_there_is_no_revision_where_git_is_not_installed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert revision(project) == Revision()


def test_variables_of_git_do_not_lead_to_another_repository(
    project: Path, outer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = revision(project)
    for name, value in {"GIT_DIR": outer / ".git", "GIT_WORK_TREE": outer, "GIT_INDEX_FILE": "/none"}.items():
        monkeypatch.setenv(name, str(value))
    assert revision(project) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away takes root")
def test_a_repository_of_another_user_above_does_not_count(project: Path) -> None:
    os.chown(project / ".git", 65534, 65534)
    assert repository(project / "sub") is None
    assert revision(project / "sub") == Revision()
    os.chown(project / "sub", 65534, 65534)
    assert repository(project / "sub") == project


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """A file that only a trap makes."""
    yield (path := tmp_path / "TRAPPED")
    assert not path.exists()


FILTER = 'git config filter.f.clean "$program; cat"; with_filter f; '
ELSEWHERE = {"bare repository in a clone": "../clone/exp", "submodule": "../outer"}


@pytest.mark.parametrize("trap", names("trap"))
def test_no_program_that_a_repository_names_is_run(project: Path, marker: Path, trap: str) -> None:
    shell(project, REPOSITORIES[trap].text, f"touch {marker}")
    folder = (project / ELSEWHERE.get(trap, "")).resolve()
    marker.unlink(missing_ok=True)  # some commands that set the trap step into it
    found = revision(folder)
    assert not marker.exists()
    assert found.commit == git(repository(folder) or folder, "rev-parse", "HEAD")
    subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
    assert marker.exists()
    marker.unlink()


OTHERS = """
for key in diff.external diff.d.{command,textconv} merge.d.driver core.{pager,askPass,sshCommand,editor} \\
  pager.status credential.helper; do git config "$key" "$program"; done
git config alias.status "!$program"; git config alias.rev-parse "!$program"
echo '* diff=d merge=d' >.git/info/attributes; echo changed >train.py"""


def test_no_other_program_is_run_either(project: Path, marker: Path) -> None:
    shell(project, OTHERS, f"touch {marker}")
    marker.unlink(missing_ok=True)
    assert len(revision(project).commit) == 40


def test_no_filter_of_the_user_is_run_since_it_may_depend_on_the_project(project: Path, marker: Path) -> None:
    shell(project, FILTER.replace("config", "config --global"), f"touch {marker}")
    assert len(revision(project).commit) == 40


def test_no_git_in_the_project_is_run(project: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "git").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (project / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    assert len(revision(project).commit) == 40


def test_variables_name_no_program(project: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"touch {marker}")
    assert not revision(project).dirty


def test_a_filtered_file_is_clean_as_long_as_it_is_not_touched(project: Path) -> None:
    """Like LFS files: the checked-out content differs from the committed one."""
    (project / "weights").write_text("large\n")
    shell(project, "git config filter.f.clean 'echo pointer'; git config filter.f.smudge 'echo large'")
    (project / ".gitattributes").write_text("weights filter=f\n")
    for path in project.rglob("*"):
        os.utime(path, (1, 1))
    commit = commit_all(project)
    assert git(project, "cat-file", "blob", "HEAD:weights") == "pointer"
    assert revision(project) == Revision(commit, dirty=False)
    (project / "weights").write_text("other\n")
    assert revision(project) == Revision(commit, dirty=True)


PIPES = ["HEAD", "index", "config", "packed-refs", "info/exclude", "commondir"]


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_in_the_git_folder_does_not_hang(
    project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurmgen.sync.git.TIMEOUT", 200.0)
    (project / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(project / ".git" / name)
    begun = time.monotonic()
    revision(project)
    assert time.monotonic() - begun < 100


def test_git_has_a_time_limit(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(project, "rev-parse", "HEAD")
    monkeypatch.setattr("slurmgen.sync.git.TIMEOUT", 5.0)
    os.mkfifo(project / "sub/.gitignore")
    (project / "new").touch()
    assert revision(project) == Revision(commit, dirty=True)


@pytest.mark.parametrize("command", ["submit", "doctor"])
def test_no_command_runs_what_a_folder_in_a_clone_names(
    project: Path, marker: Path, slurmgen: Run, command: str
) -> None:
    shell(project, REPOSITORIES["bare repository in a clone"].text, f"touch {marker}")
    folder = project.parent / "clone/exp"
    marker.unlink(missing_ok=True)
    (folder / "train.py").write_text("")
    words = [command, *JOB, *(["--dry-run"] if command == "submit" else [])]
    reply = slurmgen(*words, cwd=folder)
    assert "train.py" in reply.stdout + reply.stderr


MEASURED = """import resource, sys
from pathlib import Path
from slurmgen.sync.git import revision
revision(Path(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def test_an_object_that_inflates_to_gigabytes_takes_no_memory(project: Path) -> None:
    entry, tree = b"100644 " + b"a" * (1 << 20) + b"\0" + b"\1" * 20, "1" * 40
    data = zlib.compressobj(1)
    parts = [data.compress(b"tree %d\0" % (len(entry) * 1500))]
    parts += [data.compress(entry) for _ in range(1500)]
    path = project / ".git/objects" / tree[:2] / tree[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join([*parts, data.flush()]))
    text = f"tree {tree}\nauthor x <x> 0 +0000\ncommitter x <x> 0 +0000\n\nx\n"
    (project / "commit").write_text(text)
    (project / ".git/HEAD").write_text(git(project, "hash-object", "-t", "commit", "-w", "commit") + "\n")
    command = [sys.executable, "-c", MEASURED, str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 350 << 10
