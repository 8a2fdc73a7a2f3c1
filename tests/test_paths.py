"""The user's folders are private, and rejected if another user may write to them."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError
from slurmgen.files import (
    cache_folder,
    config_folder,
    controlled_by_others,
    make_private,
    require_private,
    state_folder,
    writable_by_others,
)

OTHER_USER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(autouse=True)
def any_umask() -> object:
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.parametrize("folder", [cache_folder, config_folder, state_folder])
def test_a_user_without_a_home_directory_reads_what_to_set(
    folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a systemd unit with DynamicUser."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(ConfigError, match="the home directory is unknown") as caught:
        folder()
    assert caught.value.hint.startswith("Set HOME or XDG_")


def test_created_folders_are_private(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_folder_that_others_may_write_to_is_rejected(tmp_path: Path, mode: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(mode)
    with pytest.raises(ConfigError, match="other users may write to"):
        make_private(tmp_path / "a")
    with pytest.raises(ConfigError, match="other users may write to"):
        make_private(tmp_path / "a" / "b")


def test_a_sticky_folder_above_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True, mode=0o700)
    (tmp_path / "a").chmod(0o1777)
    (tmp_path / "a" / "b").chmod(0o700)
    assert writable_by_others(tmp_path / "a" / "b") is None


@as_root
def test_a_link_of_another_user_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("mine")
    require_private(tmp_path / "link")
    os.chown(tmp_path / "link", OTHER_USER, OTHER_USER, follow_symlinks=False)
    with pytest.raises(ConfigError, match="belongs to user"):
        require_private(tmp_path / "link")


def test_the_target_of_a_link_is_checked(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open")
    with pytest.raises(ConfigError, match="other users may write to"):
        require_private(tmp_path / "link")


def test_group_write_access_does_not_give_control_of_a_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    assert controlled_by_others(tmp_path) is None


@pytest.mark.parametrize("mode", [0o1777, 0o757])
def test_a_world_writable_path_is_controlled_by_others(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    assert controlled_by_others(tmp_path) == f"every user may write to {tmp_path}"


@as_root
def test_a_link_is_controlled_by_its_owner_and_the_owner_of_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    assert controlled_by_others(link) is None
    for path in (target, link):
        os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)
        assert str(controlled_by_others(link)).startswith(f"{path} belongs to user")
        os.chown(path, 0, 0, follow_symlinks=False)
