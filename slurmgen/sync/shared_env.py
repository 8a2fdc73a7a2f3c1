"""Which Python environment runs may share: one that is made from the same uv.lock, and only of packages.

In a run it is a link named .venv, which the batch script's `uv sync` follows. A lock file that names a
project's own code, which uv installs as a path, would make a run use the code of another run: then each run
makes its own.
"""

import os
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath

from slurmgen.files import NotPlainFile, make_private, read_bytes
from slurmgen.sync.files import Snapshot, readable

FOLDER = "envs"
"Beside the folder of the runs."
_MADE_FROM = ("uv.lock", "pyproject.toml", "uv.toml", ".python-version")
# uv's names for a package that is a folder or file of this machine (https://docs.astral.sh/uv/concepts/projects/layout/).
_PATHS = {b"directory", b"editable", b"path"}
_PACKAGE = re.compile(rb"^\[\[package\]\]\r?$", re.MULTILINE)
_SOURCE = re.compile(rb"^source = \{ (\w+) = ", re.MULTILINE)
"As uv writes them. Parsed as TOML, a few kilobytes of dots take minutes."
_LARGEST = 10_000_000
"Bytes of a file that an environment is made from."


def with_environment(files: Snapshot, python_env: str, modules: Sequence[str], cache: Path) -> Snapshot:
    """The files, with links to the environment if the run may share one.

    Args:
        python_env: `uv` or `uv:FOLDER`; nothing else is shared.
        modules: environment modules, which may select another Python.
        cache: a folder of slurmgen, for the links.

    Raises:
        TransferFailed: a file cannot be read.
    """
    kind, _, named = python_env.partition(":")
    folder = PurePosixPath(named or ".")
    if kind != "uv" or named.startswith(("/", "~/")) or ".." in folder.parts:
        return files
    sources = {name: path for name in _MADE_FROM if (path := files.files.get(str(folder / name)))}
    with readable():
        try:
            texts = {name: read_bytes(Path(path), _LARGEST) for name, path in sources.items()}
        except NotPlainFile:
            return files
    if not _is_shareable(texts.get("uv.lock", b"")):
        return files
    digest = sha256(repr((sorted(texts.items()), tuple(modules), str(folder))).encode()).hexdigest()
    links = _links(cache / digest, "../" * (2 + len(folder.parts)) + f"{FOLDER}/{digest}")
    return Snapshot({str(folder / name): str(path) for name, path in links.items()}).over(files)


def _is_shareable(lock: bytes) -> bool:
    """Whether each package has a source that is not a path; uv reports any other error."""
    packages, sources = _PACKAGE.findall(lock), _SOURCE.findall(lock)
    return bool(sources) and len(sources) == len(packages) and not _PATHS.intersection(sources)


def _links(folder: Path, target: str) -> dict[str, Path]:
    with readable():
        make_private(folder)
        for name, leads in {".venv": target, ".venv.lock": f"{target}.lock"}.items():
            new = folder / f"{name}.{os.getpid()}"
            new.unlink(missing_ok=True)
            new.symlink_to(leads)
            new.replace(folder / name)
    return {name: folder / name for name in (".venv", ".venv.lock")}
