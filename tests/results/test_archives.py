"""What GNU tar packs is fetched unchanged."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.errors import TransferFailed
from slurmgen.remote.local import LocalTransport
from slurmgen.results.fetch import fetch
from tests.support.archives import Sender, archive, contents, fetched, packed

NON_UTF8 = os.fsdecode(b"caf\xe9")
LONG = f"{'l' * 200}/{'m' * 200}/{'n' * 200}"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """What a job may leave: links of both kinds, holes, long names and names that are not UTF-8."""
    run = tmp_path / "remote/p/runs/KEY"
    records = tmp_path / "remote/p/submissions/KEY"
    records.mkdir(parents=True)
    (records / "intent.1").symlink_to("x")
    os.utime(records / "intent.1", (1, 1), follow_symlinks=False)
    (run / "out").mkdir(parents=True)
    (run / LONG).parent.mkdir(parents=True)
    (run / LONG).write_text("long")
    (run / "out/model.pt").write_bytes(os.urandom(100_000))
    os.utime(run / "out/model.pt", (1_600_000_000, 1_600_000_000))
    os.link(run / "out/model.pt", run / "same.pt")
    (run / "last").symlink_to("out/model.pt")
    (run / "out/up").symlink_to("../last")
    (run / "out/target").symlink_to(LONG[:190])
    (run / "0link").symlink_to("out")
    os.link(run / "0link", run / "m", follow_symlinks=False)
    (run / "line\nfeed").write_text("x")
    (run / NON_UTF8).write_text("x")
    (run / "empty").touch()
    (run / "program").write_text("x")
    (run / "program").chmod(0o755)
    os.utime(run / "program", (1_500_000_000, 1_500_000_000))
    with_holes(run / "data.lmdb", 2)
    return run


def with_holes(path: Path, parts: int) -> None:
    """Make a file of parts with a hole behind each."""
    with path.open("wb") as file:
        for number in range(parts):
            file.seek(number << 16)
            file.write(b"x" * 4096)
        file.truncate(parts << 16)
    assert path.stat().st_blocks * 512 < parts << 16


def as_fetched(folder: Path) -> dict[str, object]:
    """Content, type and permissions of all but folders."""
    return {name: one for name, one in contents(folder).items() if not stat.S_ISDIR(one[0])}


def test_the_results_of_a_job_are_fetched_unchanged(results: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    result = fetch(LocalTransport(), str(results), to)
    assert not result.refused
    assert as_fetched(to) == as_fetched(results)
    assert (to / "m").readlink() == Path("out")
    assert (to / "same.pt").samefile(to / "out/model.pt")
    assert (to / "out/model.pt").stat().st_mtime == 1_600_000_000
    assert (to / "program").stat().st_mtime == 1_500_000_000
    again = fetch(LocalTransport(), str(results), to)
    assert (again.new, len(again.same)) == ((), len(result.new))


def test_tar_options_in_the_environment_have_no_effect(results: Path, tmp_path: Path) -> None:
    transport = LocalTransport({"TAR_OPTIONS": "--exclude=empty --gzip"})
    assert "empty" in fetch(transport, str(results), tmp_path / "to").new


@pytest.mark.parametrize("form", ["gnu", "oldgnu"])
def test_each_format_is_read(results: Path, tmp_path: Path, form: str) -> None:
    result = fetched(packed(results, f"--format={form}"), tmp_path / "to")
    assert not result.refused
    assert as_fetched(tmp_path / "to") == as_fetched(results)


@pytest.mark.parametrize("form", ["v7", "ustar"])
def test_formats_with_short_names_are_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "from" / ("d" * 40)).mkdir(parents=True)
    (tmp_path / "from" / ("d" * 40) / ("n" * 40)).write_text("x")
    (tmp_path / "from/l").symlink_to("d" * 40)
    fetched(packed(tmp_path / "from", f"--format={form}"), tmp_path / "to")
    assert as_fetched(tmp_path / "to") == as_fetched(tmp_path / "from")


def test_a_tar_that_was_built_for_another_format_is_asked_for_this_one(results: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tar").write_text('#!/bin/sh\nexec /usr/bin/tar --format=posix "$@"\n')
    (tmp_path / "bin/tar").chmod(0o755)
    transport = LocalTransport({"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert not fetch(transport, str(results), tmp_path / "to").refused
    assert as_fetched(tmp_path / "to") == as_fetched(results)


@pytest.mark.parametrize("options", [["--format=posix"], ["--sparse"]])
def test_an_archive_in_a_format_that_is_not_asked_for_is_an_error(
    results: Path, tmp_path: Path, options: list[str]
) -> None:
    with pytest.raises(TransferFailed, match="not in the format"):
        fetched(packed(results, *options), tmp_path / "to")


@pytest.mark.parametrize("mtime", [-1, 0, 1 << 40, -(1 << 60)])
def test_a_file_may_have_any_time(tmp_path: Path, mtime: int) -> None:
    assert fetched(archive(("x", {"mtime": mtime})), tmp_path / "to").new == ("x",)


def test_an_archive_in_parts_of_any_size_is_the_same(tmp_path: Path) -> None:
    whole = archive(("a", {}), ("d/b", {}))

    def parts() -> Iterator[bytes]:
        for at in range(0, len(whole), 7):
            yield whole[at : at + 7]

    assert fetch(Sender(*parts()), "/f", tmp_path / "to").new == ("a", "d/b")  # type: ignore[arg-type]
