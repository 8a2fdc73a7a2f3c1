"""Reading and writing in folders that another user prepared."""

import os
from pathlib import Path

import pytest

from slurmgen.files import (
    NotPlainFile,
    OutsideFolder,
    is_inside,
    read_bytes,
    read_inside,
    read_text,
    write_inside,
)


def test_a_fifo_is_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(NotPlainFile, match="not a regular file"):
        read_bytes(tmp_path / "fifo")


def test_a_link_to_a_device_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(NotPlainFile, match="not a regular file"):
        read_text(tmp_path / "zero")


def test_a_file_over_the_limit_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_bytes(tmp_path / "file", limit=5) == b"12345"
    with pytest.raises(NotPlainFile, match="larger than 4 bytes"):
        read_bytes(tmp_path / "file", limit=4)


def test_all_line_endings_are_read_as_line_feeds(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\r\nb\rc\n")
    assert read_text(tmp_path / "file") == "a\nb\nc\n"


def test_writing_replaces_a_link_and_keeps_its_target(tmp_path: Path) -> None:
    target, folder = tmp_path / "target", tmp_path / "folder"
    folder.mkdir()
    target.write_text("mine")
    (folder / "file").symlink_to(target)
    write_inside(folder, "file", b"new")
    assert target.read_text() == "mine"
    assert not (folder / "file").is_symlink()
    assert (folder / "file").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["../file", "a/../../file", "/etc/slurmgen-test", "link/file", ".."])
def test_nothing_is_written_outside_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to("..")
    with pytest.raises(OutsideFolder):
        write_inside(folder, name, b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o750)
    write_inside(tmp_path, "file", b"new")
    assert path.stat().st_mode & 0o777 == 0o750


def test_missing_folders_are_made(tmp_path: Path) -> None:
    assert write_inside(tmp_path, "a/b/file", b"new").read_bytes() == b"new"


@pytest.mark.parametrize(
    "name", ["link", "below/file", "../secret", "folder/../../secret", "/etc/passwd", "loop"]
)
def test_a_file_is_not_read_through_a_link_or_outside_the_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("token")
    (folder / "file").write_text("mine")
    (folder / "link").symlink_to("file")
    (folder / "below").symlink_to(".")
    (folder / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=r"it is a link, or below one|Too many levels"):
        read_inside(folder, name)
    assert read_inside(folder, "file") == b"mine"


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    (tmp_path / "link").symlink_to("folder")
    assert read_inside(tmp_path / "link", "file") == b"mine"


def test_a_circular_link_counts_as_inside(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert is_inside(tmp_path / "loop", tmp_path)
