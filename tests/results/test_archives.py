"""What GNU tar packs is fetched unchanged."""

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    again = fetch(LocalTransport(), str(results), to)
    assert (again.new, len(again.same)) == ((), len(result.new))


def test_tar_options_in_the_environment_have_no_effect(results: Path, tmp_path: Path) -> None:
    transport = LocalTransport({"TAR_OPTIONS": "--exclude=empty --gzip"})
    assert "empty" in fetch(transport, str(results), tmp_path / "to").new


@pytest.mark.parametrize("sparse", [[], ["--sparse"]])
@pytest.mark.parametrize("form", ["gnu", "oldgnu", "pax"])
def test_each_format_is_read(results: Path, tmp_path: Path, form: str, sparse: list[str]) -> None:
    result = fetched(packed(results, f"--format={form}", *sparse), tmp_path / "to")
    assert not result.refused
    assert as_fetched(tmp_path / "to") == as_fetched(results)


@pytest.mark.parametrize("form", ["v7", "ustar"])
def test_formats_with_short_names_are_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "from" / ("d" * 40)).mkdir(parents=True)
    (tmp_path / "from" / ("d" * 40) / ("n" * 40)).write_text("x")
    (tmp_path / "from/l").symlink_to("d" * 40)
    fetched(packed(tmp_path / "from", f"--format={form}"), tmp_path / "to")
    assert as_fetched(tmp_path / "to") == as_fetched(tmp_path / "from")


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_a_file_with_many_holes_is_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "from").mkdir()
    with_holes(tmp_path / "from/holes", 300)
    fetched(packed(tmp_path / "from", f"--format={form}", "--sparse"), tmp_path / "to")
    assert as_fetched(tmp_path / "to") == as_fetched(tmp_path / "from")


@pytest.mark.parametrize("version", ["0.0", "0.1"])
def test_an_old_format_of_sparse_files_is_refused_and_the_rest_is_fetched(
    results: Path, tmp_path: Path, version: str
) -> None:
    data = packed(results, "--format=pax", "--sparse", f"--sparse-version={version}")
    result = fetched(data, tmp_path / "to")
    assert result.refused == ("data.lmdb",)
    assert (tmp_path / "to/empty").is_file()


@pytest.mark.parametrize("mtime", [-1, 0, 1.5, 1 << 40, -(1 << 60)])
def test_a_file_may_have_any_time(tmp_path: Path, mtime: float) -> None:
    form = tarfile.PAX_FORMAT if mtime == 1.5 else tarfile.GNU_FORMAT
    assert fetched(archive(("x", {"mtime": mtime}), form=form), tmp_path / "to").new == ("x",)


def test_an_archive_in_parts_of_any_size_is_the_same(tmp_path: Path) -> None:
    whole = archive(("a", {}), ("d/b", {}))

    def parts() -> Iterator[bytes]:
        for at in range(0, len(whole), 7):
            yield whole[at : at + 7]

    assert fetch(Sender(*parts()), "/f", tmp_path / "to").new == ("a", "d/b")  # type: ignore[arg-type]
