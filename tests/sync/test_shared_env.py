"""Runs share a Python environment only if it cannot hold the code of another run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError
from slurmgen.sync.files import Snapshot, snapshot
from slurmgen.sync.shared_env import with_environment
from tests.conftest import Run
from tests.results.test_fetch import User
from tests.support.twins import Testbed, settled

PYPROJECT = '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.11"\n[tool.uv]\npackage = false\n'
WHERE = "import os, sys\nprint(sys.prefix, os.path.realpath('.venv'))\n"
PROGRAMS = Path(sys.executable).parent
LOCK = 'version = 1\n[[package]]\nname = "x"\nversion = "1"\nsource = { %s }\n'


@pytest.fixture
def user(tmp_path: Path, testbed: Testbed, slurmgen: Run, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user whose project has a real uv.lock without dependencies, so that nothing is fetched."""
    environ = testbed.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "UV_OFFLINE": "1"}
    made = User(tmp_path, Testbed(testbed.twin, environ, testbed.folder), slurmgen)
    (made.project / "pyproject.toml").write_text(PYPROJECT)
    (made.project / "where.py").write_text(WHERE)
    locked(made.project)
    return made


def submitted(user: User) -> list[str]:
    """What a job with `python_env = "uv"` prints of its environment: where it is, and where .venv leads."""
    options = "--framework python --script where.py --python-env uv --time 5 --site generic --via twin"
    job = user.slurmgen("submit", *options.split(), "--remote-dir", str(user.remote)).stdout.strip()
    assert user.testbed.wait(job) == "COMPLETED"
    settled(user.remote / user.project.name)
    return user.slurmgen("logs", job).stdout.splitlines()[-1].split()


def test_runs_of_the_same_lock_file_share_one_environment_until_both_are_pruned(user: User) -> None:
    first = submitted(user)
    (user.project / "where.py").write_text(f"# changed\n{WHERE}")
    assert submitted(user) == first
    (environment,) = (user.remote / "p" / "envs").glob("*/")
    assert first == [str(environment)] * 2
    assert [one["state"] for one in user.kept() if one["kind"] == "env"] == ["kept"]
    user.kept("--prune", "--older-than", "0")
    assert not environment.exists()


def test_another_lock_file_makes_another_environment(user: User) -> None:
    first = submitted(user)
    (user.project / "pyproject.toml").write_text(PYPROJECT.replace('"1"', '"2"'))
    locked(user.project)
    assert submitted(user)[0] != first[0]


def project_with(lock: str, tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir(exist_ok=True)
    (tmp_path / "p" / "uv.lock").write_text(lock)
    return tmp_path / "p"


def locked(project: Path) -> None:
    words = [PROGRAMS / "uv", "lock", "--offline", "--quiet"]
    subprocess.run(words, cwd=project, check=True, timeout=300)


def links(folder: Path, python_env: str = "uv") -> set[str]:
    files = snapshot(folder)
    return set(with_environment(files, python_env, (), folder.parent / "cache").files) - set(files.files)


@pytest.mark.parametrize(
    ("source", "shared"),
    [
        ('virtual = "."', True),
        ('git = "https://example.org/x.git?rev=1#1"', True),
        ('editable = "."', False),
        ('directory = "../x"', False),
        ('path = "x.whl"', False),
    ],
)
def test_an_environment_with_code_by_its_path_is_not_shared(
    tmp_path: Path, source: str, shared: bool
) -> None:
    assert links(project_with(LOCK % source, tmp_path)) == ({".venv", ".venv.lock"} if shared else set())


@pytest.mark.parametrize("text", [None, "", "not [ TOML", "package = 1", "[[package]]\nname = 'x'\n", "\0"])
def test_without_a_lock_file_that_can_be_read_nothing_is_shared(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "p").mkdir()
    if text is not None:
        (tmp_path / "p" / "uv.lock").write_text(text)
    assert links(tmp_path / "p") == set()


SLOW = {
    "dotted": ".".join("a" * 500_000) + " = 1",
    "deep": "x = " + "[" * 100_000,
    "large": "#" * 10_000_001,
    "large, of uv": LOCK % 'registry = "r"' + "#" * 10_000_000,
}


@pytest.mark.parametrize("text", SLOW)
def test_a_lock_file_that_takes_long_to_read_is_not_shared(tmp_path: Path, text: str) -> None:
    begun = time.process_time()
    assert links(project_with(SLOW[text], tmp_path)) == set()
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "python_env", ["none", "venv:.venv", "uv:/there", "uv:~/there", "uv:../there", "conda:x"]
)
def test_only_an_environment_of_uv_within_the_project_is_shared(tmp_path: Path, python_env: str) -> None:
    assert links(project_with(LOCK % 'virtual = "."', tmp_path), python_env) == set()


def test_a_link_in_a_folder_of_the_project_leads_to_the_same_place(tmp_path: Path) -> None:
    deep = tmp_path / "runs" / "r" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "uv.lock").write_text(LOCK % 'virtual = "."')
    found = with_environment(snapshot(tmp_path / "runs" / "r"), "uv:a/b", (), tmp_path / "cache").files[
        "a/b/.venv"
    ]
    assert (deep / Path(found).readlink()).resolve().parent == tmp_path / "envs"
    assert isinstance(with_environment(Snapshot({}), "uv", (), tmp_path / "cache"), Snapshot)


def test_the_folder_of_the_links_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert links(project_with(LOCK % 'registry = "r"', tmp_path)) == {".venv", ".venv.lock"}
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "cache").rglob("*") if not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "cache", *made)} == {0o700}
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(ConfigError, match="is not safe to use"):
        links(project_with(LOCK % 'registry = "r"', tmp_path))
