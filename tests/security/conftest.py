"""A place for traps, with a user who has a home, and no cluster."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.ground import SECRET, Ground, remove
from tests.security.place import Place
from tests.support.twins import environment


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hostile-")).resolve()
    yield folder
    remove(folder)


@pytest.fixture
def place(root: Path) -> Iterator[Place]:
    ground = Ground(root / "project", root / "outside")
    ground.project.mkdir()
    ground.outside.mkdir()
    (ground.outside / "secret.toml").write_text(f"secret = '{SECRET}'\n")
    (ground.outside / "dos.sbatch").write_bytes(b"#!/bin/bash\r\nsrun hostname\r\n")
    # Slurm's commands would ask the name server for a cluster if there were no configuration.
    environ = environment(root / "user") | {"SLURM_CONF": os.devnull}
    yield Place(ground, environ | folders(root / "user"), (root / "user",))
    remove(ground.project)
    remove(ground.outside)


def folders(user: Path) -> dict[str, str]:
    """Variables that lead to a user's own folders, which are made, and to a secret."""
    found = {"HOME": user / "home", "TMPDIR": user / "tmp"}
    for folder in found.values():
        folder.mkdir(exist_ok=True, parents=True, mode=0o700)
    user.chmod(0o700)
    return {name: str(path) for name, path in found.items()} | {"MY_SECRET": SECRET}
