"""Where traps are set, and the tools to set them."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SECRET = "tok_0123456789"  # noqa: S105
"Is in the environment and in the files that traps lead to, and in no other place."


@dataclass(frozen=True)
class Ground:
    """A project, and a folder beside it that no command may use."""

    project: Path
    outside: Path

    def payload(self, name: str) -> str:
        """A shell command that leaves a mark outside."""
        return f"touch {self.outside}/ran-{name}"

    def hostile(self, name: str) -> str:
        """A value that runs the payload wherever a shell reads it, within quotes too."""
        return f"x$({self.payload(name)})`{self.payload(name)}`'; {self.payload(name)}; \""

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self._cleared(name)
        path.write_text(text)
        path.chmod(mode)

    def link(self, name: str, target: Path | str) -> None:
        self._cleared(name).symlink_to(target)

    def fifo(self, name: str) -> None:
        os.mkfifo(self._cleared(name))

    def _cleared(self, name: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(path)
        return path


Builder = Callable[[Ground], None]
"Sets one kind of trap."


def written(name: str, text: str) -> Builder:
    return lambda ground: ground.write(name, text)


def linked(name: str, target: str) -> Builder:
    """A link; `{outside}` stands for the folder outside."""
    return lambda ground: ground.link(name, target.format(outside=ground.outside))


def removed(name: str) -> Builder:
    return lambda ground: remove(ground.project / name)


def fifo(name: str) -> Builder:
    return lambda ground: ground.fifo(name)


def toml(data: Mapping[str, object]) -> str:
    """Data as TOML, one line for each value."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in _lines(data))


def _lines(data: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{above}{json.dumps(key)}.")
        else:
            yield above + json.dumps(key), value


def git(folder: Path, *words: str) -> str:
    """Run git in a repository of our own."""
    who = ["-c", "user.name=x", "-c", "user.email=x", "-c", "init.defaultBranch=main"]
    argv = ["git", *who, *words]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path) -> None:
    """A repository with a commit and a change since."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "--quiet")
    (folder / "tracked").write_text("x\n")
    git(folder, "add", "tracked")
    git(folder, "commit", "--quiet", "--message=x")
    (folder / "tracked").write_text("y\n")


def remove(folder: Path) -> None:
    """Remove a folder, however deep; shutil.rmtree recurses."""
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)
