"""The size and shape of the code, against the goals of the architecture: `python benchmarks/house.py`.

A module is *passed* when one of its functions runs; what runs during an import does not count.
Without Slurm, `submit` and `status` are left out and the output says so.
"""

import ast
import contextlib
import inspect
import io
import os
import shutil
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from slurmgen import load_site, twin
from slurmgen.cli import main as command_line

ROOT = Path(__file__).parent.parent
LINES = {"slurmgen": 59_500, "tests": 49_800}
WORDS = 113_700
VALUES, LONGEST, FOLDER = 200, 60, 20
PASSED = {"render": 45, "submit": 80, "status": 25, "lint": 90}
SCRIPT = "#!/bin/bash\n#SBATCH --ntasks=2\n#SBATCH --gpus=2\n#SBATCH --time=1:00:00\nsrun python train.py\n"
DATA = ("Struct", "dataclass", "NamedTuple", "TypedDict")


def sources(folder: str) -> dict[Path, str]:
    """The text of each Python file of a folder."""
    return {path: path.read_text() for path in sorted((ROOT / folder).rglob("*.py"))}


def print_sizes() -> None:
    """Print the lines of Python and the words of the documentation."""
    for folder, goal in LINES.items():
        texts = sources(folder)
        lines = sum(text.count("\n") for text in texts.values())
        print(f"{folder}/: {lines:,} lines of Python in {len(texts)} files; budget {goal:,}")
    words = sum(len(path.read_text().split()) for path in (ROOT / "docs").rglob("*.md"))
    print(f"docs/: {words:,} words; budget {WORDS:,}")


def print_shape() -> None:
    """Print long functions, value types, full folders, and the share of lines with a comment."""
    texts = sources("slurmgen")
    nodes = [(path, node) for path, text in texts.items() for node in ast.walk(ast.parse(text))]
    classes = [node.name for _, node in nodes if isinstance(node, ast.ClassDef) and holds_data(node)]
    print(f"value types: {len(classes)}; goal at most {VALUES}")
    twice = sorted(name for name, count in Counter(classes).items() if count > 1 and not name.startswith("_"))
    print(f"names of several value types: {', '.join(twice) or 'none'}")
    for path, node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST:
                print(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines")
    for folder, count in Counter(path.parent for path in texts).most_common():
        if count > FOLDER and "rules" not in folder.parts:
            print(f"{folder.relative_to(ROOT)}/ has {count} modules; goal about {FOLDER}")
    tokens = (tokenize.generate_tokens(io.StringIO(text).readline) for text in texts.values())
    comments = sum(token.type == tokenize.COMMENT for part in tokens for token in part)
    total = sum(text.count("\n") for text in texts.values())
    print(f"lines with a comment: {100 * comments / total:.1f} %; goal 2 %")


def holds_data(node: ast.ClassDef) -> bool:
    """Whether a class is declared to carry values."""
    declared = [ast.unparse(part) for part in (*node.bases, *node.decorator_list)]
    return any(word in text for text in declared for word in DATA)


def passed(arguments: Sequence[str]) -> int:
    """The number of slurmgen's modules in which a function runs during a command."""
    modules: set[str] = set()
    importing = 0

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal importing
        if frame.f_code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
        name = frame.f_globals.get("__name__", "")
        if event == "call" and not importing and function and name.startswith("slurmgen"):
            modules.add(name)

    output = io.TextIOWrapper(io.BytesIO(), write_through=True)
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            command_line(list(arguments))
    except SystemExit as end:
        if end.code and arguments[0] != "lint":
            raise RuntimeError(output.buffer.getvalue().decode()) from end
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(modules)


@contextlib.contextmanager
def site() -> Iterator[list[str]]:
    """The options that lead to a twin of the generic cluster; it ends with the block."""
    started = twin.up(load_site("generic"), 1, ssh=True)
    try:
        yield ["--site", "generic", "--host", str(started.ssh_host), "--ssh-config", str(started.ssh_config)]
    finally:
        twin.down("generic")


def print_walks(folder: Path) -> None:
    """Print how many modules each common command passes."""
    (folder / "job.sbatch").write_text(SCRIPT)
    (folder / "train.py").write_text("print('trained')\n")
    walks = {"render": ["render", "--framework", "ddp", "--gpus", "4"], "lint": ["lint", "job.sbatch"]}
    for name, arguments in walks.items():
        print(f"{name} passes {passed(arguments)} modules; goal at most {PASSED[name]}")
    if shutil.which("slurmctld") is None:
        print("submit and status: not measured, Slurm is not installed")
        return
    with site() as where:
        job = ["--framework", "python", "--script", "train.py", "--gpus", "0", "--time", "1"]
        for name, arguments in {"submit": ["submit", *job, *where], "status": ["status", "last"]}.items():
            print(f"{name} passes {passed(arguments)} modules; goal at most {PASSED[name]}")


def main() -> None:
    """Print each figure beside its goal."""
    print_sizes()
    print_shape()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), name)
        with contextlib.chdir(name), patch.dict(os.environ, homes):
            print_walks(Path(name))


if __name__ == "__main__":
    main()
