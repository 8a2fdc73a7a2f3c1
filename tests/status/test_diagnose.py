"""`slurmgen diagnose` finds what broke in any log: the cause, the line that proves it, and what to do."""

import json
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest

from slurmgen.status.diagnose import Binary, LogDiagnosis, diagnose
from slurmgen.status.failure import Why
from tests.conftest import Run
from tests.support.examples import Example, examples

EXIT = "srun: error: n3: task 0: Exited with exit code 1\n"
STEP = "slurmstepd: error: *** STEP 77.1 ON n3 CANCELLED AT 2026-01-04T17:33:05 ***\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 40, in <module>\n'
STEPS = "epoch 3 loss 0.71\nepoch 4 loss 0.70\n"
FOUND = examples(Path(__file__).parent / "logs/first_causes.txt")


def read(text: str | bytes) -> LogDiagnosis:
    return diagnose({"job.out": BytesIO(text.encode() if isinstance(text, str) else text)})


def cause(text: str | bytes) -> Why:
    found = read(text).cause
    assert found
    return found


@pytest.mark.parametrize("example", FOUND, ids=lambda example: example.name)
def test_the_first_cause_is_found_with_its_line(example: Example) -> None:
    found = cause(example.text)
    assert f"{found.number}: {found.what}" == example.expected


@pytest.mark.parametrize(
    "log",
    [
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<pip>: Failed to "
        "establish a new connection: [Errno 101] Network is unreachable')': /foo/\n",
        "slurm_script: line 12: module: command not found\nepoch 2 loss nan\n",
        "mkdir: cannot create directory '/scratch/shared': Permission denied\n" + STEPS,
        'step 10: sample answer: "OSError: [Errno 98] Address already in use" means: it is taken.\n',
        "Answer: CUDA out of memory. Tried to allocate 2 GiB.\n",
        "the text says `Disk quota exceeded` here\n",
        "CUDA out of memory. Trying a batch of 32.\n" + STEPS,
        f"{TRACEBACK}OSError: no tracker\n{STEPS * 3}",
        "",
    ],
)
def test_what_is_quoted_warned_of_or_followed_by_progress_does_not_count(log: str) -> None:
    assert read(log + "done, and not good enough\n").cause is None
    found = cause(log + "0.31 is below the required 0.50\n" + EXIT)
    assert found.what == "task 0 on n3 ended with exit code 1"
    assert found.line.endswith("0.31 is below the required 0.50")


def test_the_logs_of_ranks_are_read_together() -> None:
    lost = f"{TRACEBACK}torch.distributed.DistBackendError: NCCL error: remote process exited\n"
    ranks = {f"job-7-{rank}.err": lost for rank in (0, 1, 3)}
    ranks["job-7-2.err"] = f"{TRACEBACK}KeyError: 'lr'\n"
    found = diagnose({name: BytesIO(text.encode()) for name, text in ranks.items()}).cause
    assert found
    assert (found.what, found.file, found.number, found.rank) == (
        "Python raised an error (rank 2): “KeyError: 'lr'”",
        "job-7-2.err",
        3,
        2,
    )


def test_of_two_ranks_the_earlier_one_by_its_time_counts() -> None:
    text = "2026-01-04 17:33:{}1 step\n" + TRACEBACK + "KeyError: {}\n"
    logs = {f"{rank}.err": BytesIO(text.format(5 - rank, rank).encode()) for rank in range(3)}
    assert getattr(diagnose(logs).cause, "rank", None) == 2


def test_colours_carriage_returns_and_bytes_do_no_harm() -> None:
    text = b"\xff\xfe caf\xe9\r 10%|#  | 1/9 [00:01<00:08]\r"
    text += b"\x1b[31m[rank1]: Traceback (most recent call last):\x1b[0m\r\n"
    found = cause(text + b"[rank1]: \x1b[1mKeyError\x1b[0m: \x1b[1m'lr'\x1b[0m\r\n")
    assert (found.line, found.number, found.rank) == ("KeyError: 'lr'", 2, 1)


def test_a_large_log_is_read_in_little_memory_with_the_number_of_its_line() -> None:
    frames = "".join(
        f"[rank{rank}]: frame #{n}: c10d::f() + 0x1 (0x7f in libtorch_cuda.so)\n"
        for rank in range(64)
        for n in range(999)
    )
    line = "step {}: loss 2.31 and some more text that fills the line until it is long enough\n"
    text = (
        "".join(map(line.format, range(200_000)))
        + f"{TRACEBACK}KeyError: 'lr'\n{frames}"
        + "GPU use: 0 %\n" * 9999
    )
    tracemalloc.start()
    found = cause(text.encode() + EXIT.encode())
    assert found.number == 200_003
    assert tracemalloc.get_traced_memory()[1] < (64 << 20) + 2 * len(text)
    tracemalloc.stop()


def test_any_bytes_are_read() -> None:
    for step in range(1, 40):
        assert read(bytes(number * step % 255 + 1 for number in range(3000))).files == ["job.out"]
    with pytest.raises(Binary):
        read(b"\x7fELF\0\0")


def test_the_command_prints_the_cause_and_its_exit_code_says_whether_there_is_one(
    slurmgen: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.out").write_text(f"{STEPS}{TRACEBACK}ModuleNotFoundError: No module named 'ray'\n")
    (tmp_path / "b.out").write_text(STEPS)
    shown = slurmgen("diagnose", "a.out", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert shown.stdout.splitlines()[:2] == ["why: Python has no module ray", "at:  a.out:5"]
    assert "\ndo:  " in shown.stdout
    whole = json.loads(slurmgen("diagnose", "a.out", "b.out", "--json", cwd=tmp_path).stdout)
    assert whole["cause"]["number"] == 5
    assert [one["kind"] for one in whole["evidence"]] == ["exception"]
    nothing = slurmgen("diagnose", "b.out", cwd=tmp_path)
    assert (nothing.returncode, nothing.stdout.splitlines()[0]) == (0, "why: no cause of a failure is seen")
    assert "epoch 4 loss 0.70" in nothing.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.out", "none.out does not exist"), (".", ". is a folder"), ("a.bin", "a.bin is not a text file")],
)
def test_what_cannot_be_read_is_an_error(slurmgen: Run, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x7fELF\0")
    shown = slurmgen("diagnose", name, cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith(f"error: {message}. ")
