"""`logs` by line: the last ones, those of one rank, and those of several jobs; `wait --then`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from slurmgen.remote.transport import Transport
from slurmgen.status.logs import OfRank, last_lines, read
from tests.conftest import Run
from tests.support.sshd import Server
from tests.support.twins import Testbed, eventually

Call = Callable[..., "subprocess.CompletedProcess[str]"]
RANKS = 'import os\nfor line in ("a", "b"):\n    print(os.environ["RANK"], line, flush=True)\n'
WORKS = "import sys\nprint('one')\nprint('two', sys.argv[1])\nsys.exit(int(sys.argv[2]))\n"
PROGRAMS = str(Path(sys.executable).parent)


@pytest.fixture
def call(slurmgen: Run, tmp_path: Path, testbed: Testbed, login_node: Server) -> Call:
    """Run slurmgen in a project; `via` is the route of a submission to the same twin."""
    (tmp_path / "works.py").write_text(WORKS)
    (tmp_path / "ranks.py").write_text(RANKS)
    routes = {
        "ssh": ["--host", "far", "--ssh-config", login_node.config(tmp_path)],
        "twin": ["--via", "twin"],
        "": [],
    }
    environ = {**os.environ, "XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}
    environ |= {"HOME": str(login_node.home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}

    def run(*args: str, via: str = "") -> "subprocess.CompletedProcess[str]":
        return slurmgen(args[0], *routes[via], *args[1:], env=environ)

    return run


def test_the_last_lines_of_a_log_and_of_a_rank(cluster: Transport, tmp_path: Path) -> None:
    log = tmp_path / "a log"
    log.write_text("0: a\n1: b\n[rank1]:c\n 01: d\n10: e\nrest")

    def start(lines: int, rank: int | None = None) -> int:
        return last_lines(cluster, str(log), lines, rank)[0]

    whole = log.read_bytes()
    assert [whole[start(lines) :] for lines in (1, 2, 99)] == [b"rest", b"10: e\nrest", whole]
    assert whole[start(2, rank=1) :].startswith(b"[rank1]:c\n")
    assert start(2, rank=7) == last_lines(cluster, str(tmp_path / "none"), 2)[0] == 0


def grown(log: Path, before: int) -> bool:
    return log.stat().st_size > before


@pytest.mark.parametrize("rank", [None, 1])
def test_the_last_lines_of_a_log_that_grows_are_exactly_so_many(
    rank: int | None, cluster: Transport, tmp_path: Path
) -> None:
    """With progress bars, which write carriage returns, and whether the last line has an end or not."""
    log = tmp_path / "log"
    log.write_text("1: first\n" * 9)
    grow = f"while :; do printf '1: 10 %%\r1: 20 %%'; printf '\n1: line\n'; done >>{log}"
    with subprocess.Popen(["bash", "-c", grow], process_group=0) as writer:
        try:
            for number in (1, 2, 5):
                start, end = last_lines(cluster, str(log), number, rank)
                eventually(partial(grown, log, log.stat().st_size))
                text = b"".join(read(cluster, str(log), start, end))
                assert len(text.removesuffix(b"\n").split(b"\n")) == number
        finally:
            writer.kill()


def test_lines_of_a_rank_are_found_in_whatever_parts_they_arrive() -> None:
    text = b"0: a\n1: b\n[rank1]:c\n 01: d\n10: e\nx\n1: " + b"y" * 70_000
    for size in (7, 1_000, 100_000):
        parts: list[bytes] = []
        lines = OfRank(parts.append, 1)
        for at in range(0, len(text), size):
            lines(text[at : at + size])
        lines.finish()
        shown = b"".join(parts)
        assert shown.startswith(b"1: b\n[rank1]:c\n 01: d\n1: yyy")
        assert b"10: e" not in shown


def test_each_line_of_a_job_with_label_ranks_names_its_rank(call: Call, tmp_path: Path) -> None:
    for framework, label in {"srun": "1: ", "ddp": "[rank1]:"}.items():
        job = ["--site", "generic", "--framework", framework, "--script", "ranks.py", "--gpus", "2"]
        submitted = call("submit", *job, "--label-ranks", "--time", "00:05:00", via="twin").stdout.strip()
        followed = call("logs", "-f", submitted, "--rank", "1")
        assert (followed.returncode, followed.stdout) == (0, f"{label}1 a\n{label}1 b\n"), followed.stderr
        assert call("logs", submitted, "--rank", "1", "--tail", "1").stdout == f"{label}1 b\n"
    none = call("logs", submitted, "--rank", "7")
    assert none.stdout == ""
    assert "no line is labelled with rank 7; with --label-ranks" in none.stderr


def test_a_log_that_ends_before_the_first_byte_is_reported_as_such(call: Call) -> None:
    job = ["--site", "generic", "--framework", "python", "--script", "works.py", "--time", "00:05:00"]
    submitted = call("submit", *job, "--", "A", "0", via="twin").stdout.strip()
    assert call("wait", submitted).returncode == 0
    reply = call("logs", submitted, "--start", "9999")
    assert (reply.returncode, reply.stdout) == (0, "")
    assert ".out has no byte 9999 or does not exist\n" in reply.stderr


def test_jobs_of_two_routes_are_followed_together(call: Call) -> None:
    job = ["--site", "generic", "--framework", "python", "--script", "works.py", "--time", "00:05:00"]
    good, bad = (
        call("submit", *job, "--", name, code, via=via).stdout.strip()
        for via, name, code in (("ssh", "A", "0"), ("twin", "B", "3"))
    )
    both = call("logs", "-f", good, bad)
    assert both.returncode == 1
    lines = [f"{good}: one", f"{good}: two A", f"{bad}: one", f"{bad}: two B"]
    assert sorted(line for line in both.stdout.splitlines() if " srun: " not in line) == sorted(lines)
    assert f"job {good} (works) is COMPLETED" in both.stderr
    assert f"job {bad} (works) is FAILED" in both.stderr
    last = call("logs", "-f", good, bad, "--tail", "1").stdout.splitlines()
    assert [line for line in last if line.startswith(good)] == [lines[1]]
    assert len(last) == 2

    # The command of --then runs once, without a shell, whatever the end of the jobs.
    code = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k[:9] == 'SLURMGEN_'}))"
    waited = call("wait", good, bad, "--json", "--then", f'{sys.executable} -c "{code}" ; $HOME')
    assert waited.returncode == 3
    assert len(json.loads(waited.stdout)["jobs"]) == 2
    assert json.loads(waited.stderr) == {
        "SLURMGEN_JOB_ID": f"{good} {bad}",
        "SLURMGEN_JOB_NAME": "works works",
        "SLURMGEN_STATE": "COMPLETED FAILED",
        "SLURMGEN_EXIT_CODE": "0 3",
    }
    assert call("wait", good, "--then", "sh -c 'exit 7'").returncode == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("logs 1 --tail 2 --start 3", "--tail and --start exclude each other"),
        ("logs 1 --rank 2 --json", "--json shows no lines"),
        ("logs -f 1 --json", "--follow goes without --json"),
        ("wait 1 --then 'x", "is not a command: No closing quotation"),
        ("wait 1 --then no-such-program", "there is no program 'no-such-program' on this machine"),
        ("render --mail end,started", "--mail: 'started' is not an event"),
        ("render --mail end --mail-user a;b@c", "--mail-user 'a;b@c' is not an address"),
        ("render --mail end --sbatch mail-type=FAIL", "--mail and --sbatch mail-type exclude each other"),
        ("render --framework spawn --script x.py --label-ranks", "--label-ranks has no effect with spawn"),
    ],
)
def test_what_has_no_effect_is_refused(slurmgen: Run, words: str, message: str) -> None:
    reply = slurmgen(*words.split())
    assert (reply.returncode, reply.stdout) == (2, "")
    assert message in reply.stderr


def test_mail_goes_to_the_address_of_the_user_but_not_from_a_checked_in_script(
    slurmgen: Run, config_dir: Path, tmp_path: Path
) -> None:
    (config_dir / "personal.toml").write_text('[generic]\nmail_user = "me@example.org"\n')
    (config_dir / "personal.toml").chmod(0o600)
    (tmp_path / "slurmgen.toml").write_text('[job.a]\nscript = "a.py"\nmail = "end, time_limit_80"\n')
    (tmp_path / "a.py").touch()
    shown = slurmgen("render", "a").stdout
    assert "#SBATCH --mail-type=END,TIME_LIMIT_80\n#SBATCH --mail-user=me@example.org\n" in shown
    assert slurmgen("render", "a", "--write").returncode == 0
    written = (tmp_path / "slurm" / "a.generic.sbatch").read_text()
    assert "--mail-type=END,TIME_LIMIT_80\n" in written
    assert "example.org" not in written
    assert "mail" not in slurmgen("render", "a", "--mail", "none").stdout.replace("--mail none", "")
