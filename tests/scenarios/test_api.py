"""The Python API on a real Slurm: every example of docs/api.md in its order, and what no example shows."""

import doctest
import json
import os
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import slurmgen
from slurmgen import Record, RequestError, api
from slurmgen.ledger.ledger import Ledger
from tests.conftest import REPOSITORY, Run
from tests.support.twins import Testbed

PAGE = (REPOSITORY / "docs" / "api.md").read_text()
FILES = dict(re.findall(r"```(?:toml|python)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def project(testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the page as the current folder, with a home folder of its own."""
    for name, value in testbed.environ.items():
        monkeypatch.setenv(name, value)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "home").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


def test_the_examples_of_the_page_print_what_it_shows(project: Path) -> None:
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL))
    assert text.count(">>>") > 30
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/api.md", None, 0)
    output: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append)
    assert not output, "".join(output)


def submitted(*args: str, **options: Any) -> Record:
    return slurmgen.submit(slurmgen.load_job("train", script_args=args), via="twin", **options)


@pytest.fixture
def command(slurmgen: Run) -> Run:
    """The command line."""
    return slurmgen


def test_the_command_line_finds_a_job_of_python_and_the_reverse(project: Path, command: Run) -> None:
    record = submitted()
    assert command("wait", "last", cwd=project).returncode == 0
    shown = json.loads(command("status", record.id, "--json", cwd=project).stdout)
    assert (shown["key"], shown["state"]) == (record.key, "COMPLETED")
    number = command("submit", "--via", "twin", cwd=project).stdout.strip()
    assert api.wait(int(number)).state == "COMPLETED"


def test_wait_returns_at_its_timeout_with_a_job_that_has_not_ended(project: Path) -> None:
    record = submitted("--epochs", "3000")
    report = api.wait(record, timeout=0)
    assert (report.ended, report.state in {"PENDING", "RUNNING"}) == (False, True)
    api.cancel([record, record])


def test_a_job_that_is_named_twice_is_reported_twice(project: Path) -> None:
    record = submitted()
    first, second = api.wait([record, record.id])
    assert first == second


def test_a_failed_job_has_its_exit_code_and_its_cause(project: Path) -> None:
    (project / "train.py").write_text("import nosuch")
    report = api.wait(submitted())
    assert (report.state, report.code) == ("FAILED", 1)
    assert report.why
    assert "nosuch" in report.why.what
    assert "No module named 'nosuch'" in "".join(api.logs("train"))


def test_logs_begin_at_a_byte_and_are_text(project: Path) -> None:
    (project / "train.py").write_text("import sys; sys.stdout.buffer.write(b'caf\\xc3\\xa9 \\xff\\n')")
    record = submitted()
    api.wait(record)
    log = "".join(api.logs(record))
    assert log.endswith("café \ufffd\n")
    assert "".join(api.logs(record, start=len(log.encode()) - len("café \ufffd\n".encode()))) in log


def test_follow_writes_the_log_of_a_running_job_to_its_end(project: Path) -> None:
    parts: list[str] = []
    report = api.follow(submitted("--epochs", "10"), parts.append)
    assert (report.state, report.ended) == ("COMPLETED", True)
    assert "".join(parts).endswith("".join(f"epoch {number}\n" for number in range(10)))
    assert api.status("last").state == "COMPLETED"


def test_fetch_overwrites_a_local_file_only_with_overwrite(project: Path) -> None:
    record = submitted()
    api.wait(record)
    Path("out").mkdir()
    Path("out/model.txt").write_text("mine")
    results = api.fetch(record, "out", only=["*.txt"])
    assert (results.kept, results.paths) == (("model.txt",), ())
    results = api.fetch(record, "out", only=["*.txt"], overwrite=True)
    assert [path.read_text() for path in results.paths] == ["weights"]
    assert api.fetch(record, "out", only=["*.txt"]).same == ("model.txt",)


def test_fetch_makes_a_folder_for_the_job_that_is_not_sent_with_the_next_one(project: Path) -> None:
    record = submitted()
    api.wait(record)
    results = api.fetch("last")
    assert results.folder == Path(f"train-{record.id}")
    assert Path("train-" + record.id, "model.txt") in results.paths
    assert "*" in (results.folder / ".gitignore").read_text()


def test_a_job_that_does_not_exist_is_a_request_error(project: Path) -> None:
    for call in (api.status, api.wait, api.cancel, api.fetch, api.logs):
        with pytest.raises(RequestError, match="no job called 'nosuch'"):
            call("nosuch")  # type: ignore[operator]


def test_a_plan_is_submitted_from_its_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    request = slurmgen.Request(framework="python", script="train.py", script_args=("--epochs", "1"))
    plan = slurmgen.resolve(request, slurmgen.load_site("generic"))
    assert api.wait(slurmgen.submit(plan, project, via="twin")).state == "COMPLETED"


def test_a_job_of_load_job_takes_no_other_project(project: Path) -> None:
    with pytest.raises(RequestError, match="Leave out project_dir"):
        slurmgen.submit(slurmgen.load_job("train"), project, via="twin")


def test_the_observer_counts_the_bytes_that_are_sent(project: Path) -> None:
    (project / "data").write_bytes(os.urandom(300_000))
    counted: list[tuple[int, int]] = []

    class Counter(slurmgen.Observer):
        def sending(self) -> Any:
            return nullcontext(lambda part, total: counted.append((part, total)))

    submitted(observer=Counter())
    assert sum(part for part, _ in counted) >= 300_000
    assert {total for _, total in counted} == {sum(path.stat().st_size for path in project.iterdir())}


def test_a_job_is_returned_although_the_ledger_breaks_and_the_log_names_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(observer: slurmgen.Observer, where: str, entry: Record) -> None:
        Ledger().path.write_bytes(bytes(9999))

    monkeypatch.setattr(slurmgen.Observer, "connected", breaks)
    record = submitted()
    assert f"job {record.id} is submitted, in {record.folder}, but not recorded" in caplog.text
    Ledger().path.unlink()
    assert api.wait(record).state == "COMPLETED"


def test_the_same_call_finds_the_job_of_an_interrupted_submission(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Ledger.settle_all

    def stop(ledger: Ledger, records: Sequence[Record]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "settle_all", stop)
    with pytest.raises(KeyboardInterrupt):
        submitted()
    monkeypatch.setattr(Ledger, "settle_all", settle)
    (entry,) = Ledger().all()
    assert entry.pending
    record = submitted()
    assert (record.key, [job.id for job in Ledger().all()]) == (entry.key, [record.id])
