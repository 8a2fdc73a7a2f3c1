"""Log files on the remote host: what of their ends is read, and a file of its own for stderr."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmgen.remote.local import LocalTransport
from slurmgen.remote.transport import Transport
from slurmgen.slurm.replies import JobState
from slurmgen.status.failure import LOG_END, why
from slurmgen.status.logs import ends
from tests.conftest import Run
from tests.support.twins import Testbed, eventually

Call = Callable[..., "subprocess.CompletedProcess[str]"]
LOST = "RuntimeError: [pair.cc:545] Read error [127.0.0.1]:8107: Connection reset by peer"
SCRIPT = """import sys
print("epoch 1")
print("a warning", file=sys.stderr)
import nosuch
"""


def traceback(rank: int, error: str) -> str:
    """One as long as those of Lightning: 90 frames."""
    frame = (
        f'  File "/{"site-packages/" * 8}lightning/pytorch/trainer.py", line 1, in fit\n    self.advance()\n'
    )
    text = f"Traceback (most recent call last):\n{frame * 90}{error}\n"
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


def test_the_first_of_many_long_tracebacks_is_still_read(tmp_path: Path) -> None:
    log = traceback(3, "ValueError: loss is nan") + "".join(traceback(rank, LOST) for rank in range(4, 64))
    assert len(log) > 10 * LOG_END
    (tmp_path / "log").write_text("epoch\n" * 999_999 + log)  # more than is searched
    (end,) = ends(LocalTransport(), [str(tmp_path / "log")])
    found = why(JobState(id="12", state="FAILED", exit_code="1:0"), [end])
    assert found
    assert (found.what, found.line, found.number) == (
        "Python raised an error (rank 3): “ValueError: loss is nan”",
        "ValueError: loss is nan",
        999_999 + 182,
    )


@pytest.mark.parametrize(
    "after",
    [
        "".join(f"[rank{n}]: frame #{n}: c10d::f() + 0x1 (0x7f in libtorch_cuda.so)\n" for n in range(4000)),
        "GPU 0: use of 0 %, 1 of 80 GB\n" * 4000,
    ],
    ids=["frames of C++", "a report of the site"],
)
def test_a_failure_is_read_that_long_lines_follow(tmp_path: Path, after: str) -> None:
    (tmp_path / "log").write_text("epoch 1 loss 2\n" * 9999 + traceback(3, "KeyError: 'lr'") + after)
    (end,) = ends(LocalTransport(), [str(tmp_path / "log")])
    found = why(JobState(id="12", state="FAILED", exit_code="1:0"), [end])
    assert found
    assert (found.line, found.rank, found.number) == ("KeyError: 'lr'", 3, 9999 + 182)
    assert len(end.text) <= LOG_END


def test_the_ends_of_more_logs_are_read_than_one_command_can_name(
    transport: Transport, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 10_000 + "end\n")
    missing = [str(tmp_path / f"{'missing' * 30}{number}") for number in range(600)]
    *others, last = ends(transport, [*missing, str(log)])
    assert sum(map(len, missing)) > 131_072
    assert {one.text for one in others} == {""}
    assert last.text.endswith("xxend\n")


def test_the_end_of_a_log_of_any_bytes_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\0\xff\x9b caf\xe9 \0" * LOG_END + b"last line")
    read, missing = ends(LocalTransport(), [str(tmp_path / "log"), str(tmp_path / "none")])
    assert read.text.endswith(" last line")
    assert len(read.text) <= LOG_END
    assert missing.text == ""


@pytest.fixture
def call(slurmgen: Run, testbed: Testbed, tmp_path: Path) -> Call:
    """Run slurmgen in a project whose job fails, on a twin; with records of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    more = {"XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"], "HOME": str(tmp_path)}
    return lambda *args: slurmgen(*args, cwd=folder, env={**os.environ, **more})


def submitted(call: Call, testbed: Testbed, *options: str) -> str:
    """The id of a job that has failed; an array has the tasks 1 and 2."""
    job = ["--site", "generic", "--via", "twin", "--framework", "python", "--time", "00:05:00"]
    reply = call("submit", *job, "--script", "train.py", *options)
    assert reply.returncode == 0, reply.stderr
    job = reply.stdout.strip()
    for task in ("_1", "_2") if any("array" in option for option in options) else ("",):
        assert testbed.wait(job + task) == "FAILED"
    return job


def test_the_reason_is_found_in_the_file_of_stderr(call: Call, testbed: Testbed) -> None:
    job = submitted(call, testbed, "--sbatch", "error=%x-%j.err", "--log-dir", "logs")
    report = json.loads(call("status", job, "--json").stdout)
    assert report["why"]["what"].startswith("Python has no module nosuch")
    assert report["why"]["file"].endswith(f"train-{job}.err")
    number = Path(report["why"]["file"]).read_text().splitlines().index(report["why"]["line"]) + 1
    assert report["why"]["number"] == number
    assert f"  at: {report['why']['file']}:{number}\n" in call("status", job).stdout
    assert report["log"].endswith(f"/logs/train-{job}.out")


def test_logs_shows_stdout_and_offers_the_file_of_stderr(call: Call, testbed: Testbed) -> None:
    job = submitted(call, testbed, "--sbatch", "error=%x-%j.err")
    for words in ([], ["-f"]):
        shown = call("logs", job, *words)
        assert shown.stdout == "epoch 1\n"
        assert re.search(rf"stderr is in /\S+/train-{job}\.err; `slurmgen logs {job} --stderr`", shown.stderr)
        shown = call("logs", job, "--stderr", *words)
        assert "a warning\nTraceback" in shown.stdout
        assert "stderr is in" not in shown.stderr
    path = json.loads(call("logs", job, "--stderr", "--json").stdout)["path"]
    assert path.endswith(f"/train-{job}.err")


def test_each_task_of_an_array_has_its_file_of_stderr(call: Call, testbed: Testbed) -> None:
    job = submitted(call, testbed, "--sbatch", "error=%x-%A_%a.err", "--sbatch", "array=1-2")
    assert call("logs", f"{job}_2", "--stderr").stdout.count("a warning\n") == 1
    whole = call("logs", job, "--stderr")
    assert (whole.returncode, whole.stdout) == (3, "")
    assert f"Name one task, such as {job}_0" in whole.stderr
    assert "no module nosuch" in call("status", f"{job}_1").stdout


def test_without_such_a_file_the_option_is_refused(call: Call, testbed: Testbed) -> None:
    job = submitted(call, testbed)
    refused = call("logs", job, "--stderr")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"job {job} writes stderr to its log. Leave out --stderr." in refused.stderr
    assert "stderr is in" not in call("logs", job).stderr


def test_slurm_is_queried_for_the_stderr_of_a_job_that_is_not_in_the_ledger(
    call: Call, testbed: Testbed
) -> None:
    words = ["--parsable", "--output=by-hand.out", "--error=by-hand.err", "--wrap=echo out; echo err >&2"]
    job = testbed.run("sbatch", *words).strip()
    assert testbed.wait(job) == "COMPLETED"
    where = ["--site", "generic", "--via", "twin"]
    assert call("logs", job, *where).stdout == "out\n"
    assert call("logs", job, *where, "--stderr").stdout == "err\n"


OUTPUTS = {
    "PROJECT/train-%j.out": [],
    "PROJECT/logs/%x/%A-%4a.log": ["--array=1-2"],
    "LINK/%N-%t.txt": ["--error=PROJECT/%%x.err"],
    "PROJECT/fixed.txt": [],
    "PROJECT/logs/%u-%j": [],
}


def test_logs_of_running_jobs_in_the_project_are_not_sent(
    call: Call, testbed: Testbed, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (tmp_path / "link").symlink_to(project)
    (project / "logs" / "write").mkdir(parents=True)
    (project / ".slurmgenignore").write_text("!fixed.txt\n")
    kept = ["other.out", "train-x.out", "logs/train-1.out", "%x.err.old"]
    for name in kept:
        (project / name).touch()
    text = "while sleep 0.01; do echo line; echo line >&2; done\n"
    jobs = []
    for output, more in OUTPUTS.items():
        options = "\n".join(f"#SBATCH {option}" for option in (f"--output={output}", *more))
        options = options.replace("PROJECT", str(project)).replace("LINK", str(tmp_path / "link"))
        (project / "write.sh").write_text(
            f"#!/bin/bash\n#SBATCH --job-name=write --time=5 --mem=20M\n{options}\n{text}"
        )
        reply = call("submit", "./write.sh", "--site", "generic", "--via", "twin")
        assert reply.returncode == 0, reply.stderr
        jobs.append(reply.stdout.strip())
    try:
        eventually(lambda: len(list(project.rglob("*"))) >= 9 + 7)
        reply = call("submit", "./write.sh", "--site", "generic", "--via", "twin", "--dry-run", "--json")
        assert reply.returncode == 0, reply.stderr
        assert {*json.loads(reply.stdout)["files"]} == {
            *kept,
            "train.py",
            "write.sh",
            ".slurmgenignore",
            "fixed.txt",
        }
        reply = call("submit", "./write.sh", "--site", "generic", "--via", "twin")
        assert reply.returncode == 0, reply.stderr
        jobs.append(reply.stdout.strip())
    finally:
        testbed.run("scancel", *jobs)
