"""The stored data of twins."""

import os
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError
from slurmgen.twin import store
from slurmgen.twin.store import Twin


def written(site: str) -> Twin:
    folder = store.root() / site
    folder.mkdir()
    twin = Twin(site=site, folder=folder, run=folder, nodes=("n1",), daemons=())
    store.save(twin)
    return twin


def test_the_folders_are_private_with_any_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = os.umask(0)
    try:
        with store.locked():
            pass
    finally:
        os.umask(before)
    modes = [
        (tmp_path / name).stat().st_mode & 0o777
        for name in ("state", "state/slurmgen", "state/slurmgen/twin")
    ]
    assert modes == [0o700] * 3


@pytest.mark.parametrize("place", ["slurmgen", "slurmgen/twin", "slurmgen/twin/daic"])
def test_a_twin_that_other_users_may_change_is_rejected(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with store.locked():
        twin = written("daic")
    assert store.load("daic") == twin
    (tmp_path / place).chmod(0o777)
    for use in (lambda: store.load("daic"), store.running):
        with pytest.raises(ConfigError, match="is not safe to use: other users may write to"):
            use()


def test_only_regular_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with store.locked():
        folder = written("daic").folder
    (folder / "twin.json").unlink()
    os.mkfifo(folder / "twin.json")
    assert store.load("daic") is None
