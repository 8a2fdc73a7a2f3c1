"""The commit, and whether the project differs from it, without running programs that a repository names."""

import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurmgen.sync.git import Revision, repository, revision
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import JOB


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a git configuration of the user's own."""
    folder = tmp_path_factory.mktemp("git-home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    (folder / ".gitconfig").write_text('[user]\nname = n\nemail = e\n[protocol "file"]\nallow = always\n')
    return folder


def git(folder: Path, *words: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    reply = subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True)
    return reply.stdout.decode().strip()


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


def modified(project: Path) -> None:
    (project / "train.py").write_text("changed\n")


def modified_to_the_same_size(project: Path) -> None:
    (project / "train.py").write_text("train.pz\n")


def staged(project: Path) -> None:
    modified(project)
    git(project, "add", "train.py")


def staged_and_restored(project: Path) -> None:
    staged(project)
    (project / "train.py").write_text("train.py\n")


def untracked(project: Path) -> None:
    (project / "new").write_text("")


def deleted(project: Path) -> None:
    (project / "other").unlink()


def deleted_from_the_index(project: Path) -> None:
    git(project, "rm", "--cached", "--quiet", "other")
    (project / ".git/info/exclude").write_text("other\n")


def renamed(project: Path) -> None:
    git(project, "mv", "other", "another")


def executable(project: Path) -> None:
    (project / "train.py").chmod(0o755)


def a_link_now(project: Path) -> None:
    (project / "other").unlink()
    (project / "other").symlink_to("train.py")


CHANGES = [
    modified,
    modified_to_the_same_size,
    staged,
    staged_and_restored,
    untracked,
    deleted,
    deleted_from_the_index,
    renamed,
    executable,
    a_link_now,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_it_dirty(project: Path, change: Callable[[Path], None]) -> None:
    commit = git(project, "rev-parse", "HEAD")
    change(project)
    assert revision(project) == Revision(commit, dirty=True)


def ignored(project: Path, home: Path) -> None:
    (project / "a.log").write_text("")
    (project / "build").mkdir()
    (project / "build" / "x").write_text("")


def touched(project: Path, home: Path) -> None:
    os.utime(project / "train.py", (1, 1))


def excluded_in_the_repository(project: Path, home: Path) -> None:
    (project / ".git/info/exclude").write_text("mine\n")
    (project / "mine").write_text("")


def excluded_by_the_user(project: Path, home: Path) -> None:
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("mine\n")
    (project / "mine").write_text("")


def excluded_by_a_file_that_the_user_names(project: Path, home: Path) -> None:
    (home / "ignored").write_text("mine\n")
    git(project, "config", "--global", "core.excludesFile", "~/ignored")
    (project / "mine").write_text("")


def executable_where_modes_do_not_count(project: Path, home: Path) -> None:
    git(project, "config", "core.fileMode", "false")
    (project / "train.py").chmod(0o755)


def untracked_where_they_do_not_count(project: Path, home: Path) -> None:
    git(project, "config", "status.showUntrackedFiles", "no")
    (project / "mine").write_text("")


def other_line_ends(project: Path, home: Path) -> None:
    git(project, "config", "--global", "core.autocrlf", "true")
    checked_out_anew(project)


def checked_out_with_other_line_ends(project: Path, home: Path) -> None:
    (project / ".gitattributes").write_text("*.py text eol=crlf\n")
    commit_all(project)
    checked_out_anew(project)


def checked_out_anew(project: Path) -> None:
    (project / "train.py").unlink()
    git(project, "checkout", "train.py")
    assert (project / "train.py").read_bytes() == b"train.py\r\n"
    os.utime(project / "train.py", (1, 1))


def sparse(project: Path, home: Path) -> None:
    git(project, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    assert not (project / "sub").exists()


def with_a_split_index(project: Path, home: Path) -> None:
    git(project, "update-index", "--split-index")
    assert list((project / ".git").glob("sharedindex.*"))


def packed(project: Path, home: Path) -> None:
    git(project, "gc", "--quiet")
    assert (project / ".git/packed-refs").exists()


def without_a_branch(project: Path, home: Path) -> None:
    git(project, "checkout", "--quiet", "--detach")


def hooks_and_programs_of_the_user(project: Path, home: Path) -> None:
    git(project, "config", "--global", "core.fsmonitor", "false")
    git(project, "config", "--global", "core.pager", "false")


CLEAN = [
    ignored,
    touched,
    excluded_in_the_repository,
    excluded_by_the_user,
    excluded_by_a_file_that_the_user_names,
    executable_where_modes_do_not_count,
    untracked_where_they_do_not_count,
    other_line_ends,
    checked_out_with_other_line_ends,
    sparse,
    with_a_split_index,
    packed,
    without_a_branch,
    hooks_and_programs_of_the_user,
]


@pytest.mark.parametrize("arrange", CLEAN)
def test_what_git_calls_clean_is_clean(
    project: Path, home: Path, arrange: Callable[[Path, Path], None]
) -> None:
    arrange(project, home)
    assert git(project, "status", "--porcelain") == ""
    assert revision(project) == Revision(git(project, "rev-parse", "HEAD"), dirty=False)


def test_nothing_in_the_repository_is_written(project: Path) -> None:
    os.utime(project / "train.py", (1, 1))
    before = {path: path.lstat().st_mtime_ns for path in project.rglob("*")}
    revision(project)
    assert {path: path.lstat().st_mtime_ns for path in project.rglob("*")} == before


def test_only_changes_in_a_folder_that_is_the_project_count(project: Path) -> None:
    modified(project)
    assert revision(project / "sub") == Revision(git(project, "rev-parse", "HEAD"), dirty=False)
    (project / "sub/new").write_text("")
    assert revision(project / "sub").dirty


def test_a_work_tree_has_a_commit_of_its_own(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "branch", str(tmp_path / "tree"))
    (tmp_path / "tree/new").write_text("")
    commit = commit_all(tmp_path / "tree")
    assert revision(tmp_path / "tree") == Revision(commit, dirty=False) != revision(project)
    modified(tmp_path / "tree")
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
    untracked(module)
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


Trap = Callable[[Path, str], Path]


def monitor(project: Path, program: str) -> Path:
    git(project, "config", "core.fsmonitor", program)
    return project


def clean_filter(project: Path, program: str) -> Path:
    git(project, "config", "filter.f.clean", f"{program}; cat")
    return filtered(project)


def filter_process(project: Path, program: str) -> Path:
    git(project, "config", "filter.f.process", program)
    git(project, "config", "filter.f.required", "true")
    return filtered(project)


def filter_with_an_odd_name(project: Path, program: str) -> Path:
    git(project, "config", "filter.a=b.c.clean", f"{program}; cat")
    return filtered(project, "a=b.c")


def filtered(project: Path, name: str = "f") -> Path:
    (project / ".git/info/attributes").write_text(f"* filter={name}\n")
    for path in project.glob("*.py"):
        os.utime(path, (1, 1))
    return project


def attributes_elsewhere(project: Path, program: str) -> Path:
    clean_filter(project, program)
    (project / ".git/info/attributes").rename(project / ".git/attributes")
    git(project, "config", "core.attributesFile", str(project / ".git/attributes"))
    return project


def included(project: Path, program: str) -> Path:
    (project / ".git/more").write_text(f'[core]\nfsmonitor = "{program}"\n')
    git(project, "config", "include.path", "more")
    return project


def included_for_this_folder(project: Path, program: str) -> Path:
    (project / ".git/more").write_text(f'[core]\nfsmonitor = "{program}"\n')
    git(project, "config", f"includeIf.gitdir:{project}/.path", "more")
    return project


def monitor_of_a_work_tree(project: Path, program: str) -> Path:
    git(project, "config", "extensions.worktreeConfig", "true")
    git(project, "config", "--worktree", "core.fsmonitor", program)
    return project


def bare_repository_in_a_clone(project: Path, program: str) -> Path:
    """A folder of an ordinary clone that is a bare repository, with itself as its work tree."""
    bare = project / "exp"
    git(project, "clone", "--quiet", "--bare", str(project), str(bare))
    (bare / "config").write_text(
        f'[core]\nrepositoryformatversion = 0\nworktree = .\nfsmonitor = "{program}"\n'
    )
    (bare / "refs/heads/keep").write_text("")
    commit_all(project)
    clone = project.parent / "clone"
    git(project, "clone", "--quiet", str(project), str(clone))
    return clone / "exp"


def file_that_leads_elsewhere(project: Path, program: str) -> Path:
    monitor(project, program)
    (project / ".git").rename(project / "elsewhere")
    (project / ".git").write_text("gitdir: elsewhere\n")
    return project


def submodule(project: Path, program: str) -> Path:
    outer = project.parent / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    git(outer, "submodule", "--quiet", "add", str(project), "module")
    commit_all(outer)
    git(outer / "module", "config", "core.fsmonitor", program)
    return outer


def hook(project: Path, program: str) -> Path:
    path = project / ".git/hooks/post-index-change"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    os.utime(project / "train.py", (1, 1))
    return project


def hooks_elsewhere(project: Path, program: str) -> Path:
    hook(project, program)
    (project / ".git/hooks").rename(project / ".git/other-hooks")
    git(project, "config", "core.hooksPath", ".git/other-hooks")
    return project


def missing_objects_of_a_remote(project: Path, program: str) -> Path:
    """What is missing in a partial clone is fetched, by a program that the configuration names."""
    tree = git(project, "rev-parse", "HEAD^{tree}")
    (project / ".git/objects" / tree[:2] / tree[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://nowhere/x",
        "core.sshCommand": f"{program};",
    }.items():
        git(project, "config", key, value)
    return project


EFFECTIVE = [
    monitor,
    clean_filter,
    filter_process,
    filter_with_an_odd_name,
    attributes_elsewhere,
    included,
    included_for_this_folder,
    monitor_of_a_work_tree,
    bare_repository_in_a_clone,
    file_that_leads_elsewhere,
    submodule,
    hook,
    hooks_elsewhere,
    missing_objects_of_a_remote,
]
"Traps that `git status` steps into."


@pytest.mark.parametrize("trap", EFFECTIVE)
def test_no_program_that_a_repository_names_is_run(project: Path, marker: Path, trap: Trap) -> None:
    folder = trap(project, f"touch {marker}")
    marker.unlink(missing_ok=True)  # some commands that set the trap step into it
    found = revision(folder)
    assert not marker.exists()
    assert found.commit == git(repository(folder) or folder, "rev-parse", "HEAD")
    subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
    assert marker.exists()
    marker.unlink()


def diff_drivers(project: Path, program: str) -> Path:
    for key in ("diff.external", "diff.d.command", "diff.d.textconv", "merge.d.driver"):
        git(project, "config", key, program)
    (project / ".git/info/attributes").write_text("* diff=d merge=d\n")
    modified(project)
    return project


def other_programs(project: Path, program: str) -> Path:
    for key in (
        "core.pager",
        "pager.status",
        "core.askPass",
        "core.sshCommand",
        "credential.helper",
        "core.editor",
    ):
        git(project, "config", key, program)
    git(project, "config", "alias.status", f"!{program}")
    git(project, "config", "alias.rev-parse", f"!{program}")
    return project


@pytest.mark.parametrize("trap", [diff_drivers, other_programs])
def test_no_other_program_is_run_either(project: Path, marker: Path, trap: Trap) -> None:
    folder = trap(project, f"touch {marker}")
    marker.unlink(missing_ok=True)
    assert len(revision(folder).commit) == 40


def test_no_filter_of_the_user_is_run_since_it_may_depend_on_the_project(project: Path, marker: Path) -> None:
    git(project, "config", "--global", "filter.f.clean", f"touch {marker}; cat")
    assert len(revision(filtered(project)).commit) == 40


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
    git(project, "config", "filter.f.clean", "echo pointer")
    git(project, "config", "filter.f.smudge", "echo large")
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
    untracked(project)
    assert revision(project) == Revision(commit, dirty=True)


@pytest.mark.parametrize("command", ["submit", "doctor"])
def test_no_command_runs_what_a_folder_in_a_clone_names(
    project: Path, marker: Path, slurmgen: Run, command: str
) -> None:
    folder = bare_repository_in_a_clone(project, f"touch {marker}")
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
