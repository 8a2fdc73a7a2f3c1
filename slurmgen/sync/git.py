"""The state of a project's git repository."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from slurmgen.files import read_bytes, read_text

_OF_ALL = (
    "objects",
    "refs",
    "reftable",
    "packed-refs",
    "info/attributes",
    "info/exclude",
    "info/sparse-checkout",
)
"The parts that the git folders of several work trees share."
_SETTINGS = re.compile(
    r"core\.(autocrlf|checkstat|eol|filemode|ignorecase|precomposeunicode|sparsecheckout|sparsecheckoutcone"
    r"|symlinks|trustctime)|status\.showuntrackedfiles"
)
_FORMAT = re.compile(r"extensions\.(objectformat|refstorage)")
_PLAIN = re.compile(r"[a-z0-9]+")
_MEMORY = 250 << 20
"Bytes."
_FILES = {"core.excludesfile": "ignore", "core.attributesfile": "attributes"}
"The settings that name files of the user, and the default names."


class Git:
    """Git for one work tree, run in a folder of it."""

    def __init__(self, git_folder: Path, tree: Path, folder: Path, deadline: float) -> None:
        self.folder, self.deadline = folder, deadline
        self._options: list[str] = []
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        path = [place for place in os.environ.get("PATH", os.defpath).split(":") if place.startswith("/")]
        self._environment = inherited | {
            "PATH": ":".join(path),
            "GIT_DIR": str(git_folder),
            "GIT_WORK_TREE": str(tree),
            "GIT_OPTIONAL_LOCKS": "0",
            "LC_ALL": "C",
        }

    def __call__(self, *words: str, data: bytes = b"", codes: tuple[int, ...] = (0,)) -> str:
        """The output of a git command.

        Raises:
            OSError: git was not found.
            subprocess.SubprocessError: it failed, or did not end before the deadline.
        """
        with subprocess.Popen(
            [*_limited_git(self._environment["PATH"]), *self._options, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=self._environment,
        ) as process:
            try:
                output, _ = process.communicate(data, max(self.deadline - time.monotonic(), 0))
            except BaseException:
                process.kill()
                raise
        if process.returncode not in codes:
            raise subprocess.CalledProcessError(process.returncode, "git")
        return os.fsdecode(output)

    def settings(self, *words: str, data: bytes = b"") -> dict[str, str]:
        """The settings in the user's configuration, or those in `data` with `--file -`."""
        found = self("config", *words, "-z", "--list", data=data, codes=(0, 1))
        pairs = (line.partition("\n") for line in found.split("\0"))
        return {key: value if separator else "true" for key, separator, value in pairs}

    def use(self, settings: dict[str, str]) -> None:
        """From now on, use these settings and no other configuration."""
        home = self._environment["GIT_DIR"]
        self._environment |= {"HOME": home, "XDG_CONFIG_HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}
        self._options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]


def _limited_git(path: str) -> list[str]:
    """Git with no more than `_MEMORY`, where util-linux is: an object of a megabyte may inflate to gigabytes.

    RLIMIT_DATA does not count the packs that git maps, which may be larger (man 2 getrlimit). prlimit sets it
    before git starts: git may take gigabytes in its first milliseconds.
    """
    git, prlimit = shutil.which("git", path=path), shutil.which("prlimit", path=path)
    if not git:
        raise FileNotFoundError("git was not found")
    return [prlimit, f"--data={_MEMORY}:{_MEMORY}", git] if prlimit else [git]


@contextmanager
def safe_git(tree: Path, folder: Path, deadline: float) -> Iterator[Git]:
    """Git for a folder of a work tree, until `deadline` by the monotonic clock.

    Raises:
        OSError, ValueError: it is not a work tree.
        subprocess.SubprocessError: git failed.
    """
    own = _git_folder(tree)
    common = own / read_text(own / "commondir").strip() if (own / "commondir").is_file() else own
    with TemporaryDirectory(prefix="slurmgen-git-") as name:
        made = Path(name)
        _link(made, own, common)
        git = Git(made, tree, folder, deadline)
        user = git.settings()
        theirs = git.settings("--file", "-", "--no-includes", data=_configuration(own, common))
        (made / "config").write_text(_format(theirs))
        git.use(_files(user) | _chosen(user) | _chosen(theirs))
        yield git


def _git_folder(tree: Path) -> Path:
    place = tree / ".git"
    if place.is_dir():
        return place
    return tree / read_text(place).removeprefix("gitdir:").strip()


def _link(made: Path, own: Path, common: Path) -> None:
    (made / "info").mkdir()
    found = [(common / name, made / name) for name in _OF_ALL]
    found += [(path, made / path.name) for path in (own / "index", *own.glob("sharedindex.*"))]
    for path, link in found:
        if path.is_file() or path.is_dir():
            link.symlink_to(path)
    (made / "HEAD").write_bytes(read_bytes(own / "HEAD"))


def _configuration(own: Path, common: Path) -> bytes:
    paths = (common / "config", own / "config.worktree")
    return b"\n".join(read_bytes(path) for path in paths if path.exists())


def _format(settings: dict[str, str]) -> str:
    lines = ["[core]", "repositoryformatversion = 1", "[extensions]"]
    for key, value in settings.items():
        if _FORMAT.fullmatch(key) and _PLAIN.fullmatch(value):
            lines.append(f"{key.removeprefix('extensions.')} = {value}")
    return "\n".join([*lines, ""])


def _chosen(settings: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if _SETTINGS.fullmatch(key)}


def _files(user: dict[str, str]) -> dict[str, str]:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return {
        key: os.path.expanduser(user.get(key) or f"{folder}/git/{name}")  # noqa: PTH111 (Path fails without a home)
        for key, name in _FILES.items()
    }


TIMEOUT = 20.0
"Seconds for all git commands together."
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SUBMODULE = "160000 "
_FAILED = (OSError, ValueError, subprocess.SubprocessError)


class Revision(Struct, frozen=True):
    """A commit, and whether the project differs from it; empty without a repository or a commit."""

    commit: str = ""
    dirty: bool = False
    "True also if unknown: filters do not run, so a touched LFS file counts as changed."


def repository(folder: Path) -> Path | None:
    """The Git work tree of a folder, unless it belongs to another user than the folder."""
    folder = folder.resolve()
    owners = {0, os.geteuid(), folder.stat().st_uid}
    for tree in (folder, *folder.parents):
        if os.path.lexists(tree / ".git"):
            return tree if (tree / ".git").lstat().st_uid in owners else None
    return None


def revision(folder: Path) -> Revision:
    """The revision of a folder. Files that git ignores do not count."""
    deadline = time.monotonic() + TIMEOUT
    commit = ""
    try:
        if tree := repository(folder):
            with safe_git(tree, folder.resolve(), deadline) as git:
                commit = _commit(git)
                return Revision(commit, bool(commit) and _differs(git))
        return Revision()
    except _FAILED:
        return Revision(commit, dirty=bool(commit))


def _commit(git: Git) -> str:
    commit = git("rev-parse", "HEAD").strip()
    return commit if _COMMIT.fullmatch(commit) else ""


def _differs(git: Git) -> bool:
    # `dirty`: git would run itself in each submodule, with the configuration there.
    if git("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty", "--", "."):
        return True
    entries = git("ls-files", "--stage", "-z").split("\0")
    names = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
    return any(_submodule_differs(git.folder / name, git.deadline) for name in names)


def _submodule_differs(folder: Path, deadline: float) -> bool:
    if not os.path.lexists(folder / ".git"):  # it is not checked out
        return False
    if folder.resolve() != folder:
        raise ValueError(f"{folder} is behind a link")
    with safe_git(folder, folder, deadline) as git:
        return _differs(git)
