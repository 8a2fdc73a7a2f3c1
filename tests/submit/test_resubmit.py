"""resubmit: the recorded request again, from the same snapshot or the present files, exactly once."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import recorded_request
from slurmgen.slurm.replies import JobState, Usage
from slurmgen.status.job import states_text
from tests.conftest import Run
from tests.support.terminals import terminal
from tests.support.twins import Testbed, settled

Reply = subprocess.CompletedProcess[str]
Call = Callable[..., Reply]
TOML = """
site = "generic"
[job.train]
script = "train.py"
framework = "python"
gpus = 0
mem = "300M"
time = "00:05:00"
script_args = ["first"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("import sys\nprint('before', sys.argv[1:])\n")
    (folder / "slurmgen.toml").write_text(TOML)
    return folder


@pytest.fixture
def call(slurmgen: Run, project: Path, testbed: Testbed, tmp_path: Path) -> Call:
    """Run slurmgen in the project, with a ledger of its own, on the twin."""
    state = tmp_path / "state"
    (state / "slurmgen").mkdir(parents=True, mode=0o700)
    (state / "slurmgen/twin").symlink_to(Path(testbed.environ["XDG_STATE_HOME"], "slurmgen/twin"))
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(state)}

    def run(*args: str, cwd: Path = project) -> Reply:
        return slurmgen(*args, cwd=cwd, env=env)

    return run


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state/slurmgen/ledger.sqlite")


def submitted(call: Call, testbed: Testbed, *args: str) -> str:
    reply = call("submit", "train", "--via", "twin", *args)
    assert reply.returncode == 0, reply.stderr
    testbed.wait(reply.stdout.strip())
    return reply.stdout.strip()


def printed(reply: Reply, testbed: Testbed, ledger: Ledger) -> tuple[Record, str]:
    """The record and the log of the job that a command printed."""
    assert reply.returncode == 0, reply.stderr
    job = json.loads(reply.stdout)["id"] if reply.stdout.startswith("{") else reply.stdout.strip()
    assert testbed.wait(job) == "COMPLETED"
    (record,) = ledger.find(job)
    return record, (Path(record.folder) / f"{record.name}-{job}.out").read_text()


def test_a_job_runs_again_with_changes_from_its_snapshot_or_the_present_files(
    call: Call, project: Path, testbed: Testbed, ledger: Ledger, tmp_path: Path
) -> None:
    first = submitted(call, testbed)
    (project / "train.py").write_text("import sys\nprint('after', sys.argv[1:])\n")
    (project / "slurmgen.toml").write_text(TOML.replace("00:05:00", "00:50:00"))
    shown = call("resubmit", first, "--dry-run")
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr
    assert "the script is the same" in shown.stderr

    changed = ("resubmit", "last", "--time", "00:06:00")
    shown = call(*changed, "--dry-run", cwd=tmp_path)
    assert "-#SBATCH --time=00:05:00\n+#SBATCH --time=00:06:00\n" in shown.stdout
    assert "mem" not in shown.stdout
    reply = call(*changed, "--json", "--", "second", cwd=tmp_path)
    record, log = printed(reply, testbed, ledger)
    assert log == "before ['second']\n"
    assert f"job {first} (train)" in reply.stderr
    assert "the files that it ran" in reply.stderr
    original = ledger.find(first)[0]
    assert json.loads(reply.stdout)["resubmits"] == first
    assert recorded_request(record).resubmits == original.key != record.key
    assert record.snapshot == original.snapshot

    reply = call("resubmit", "last", "--present-files", "--again")
    record, log = printed(reply, testbed, ledger)
    assert log == "after ['second']\n"
    assert "the project as it is now" in reply.stderr
    assert recorded_request(record).request.time == "00:06:00"


@pytest.mark.parametrize("name", ["last", "train", "ID"])
def test_a_killed_resubmission_finds_its_job_when_it_is_repeated(
    call: Call, testbed: Testbed, ledger: Ledger, name: str
) -> None:
    original = submitted(call, testbed)
    command = ("resubmit", name.replace("ID", original), "--time", "00:07:00")
    record, _ = printed(call(*command), testbed, ledger)
    with closing(sqlite3.connect(ledger.path)) as database, database:
        # As after a kill between sbatch and the last write to the ledger.
        database.execute("UPDATE jobs SET id = '', state = 'pending' WHERE id = ?", (record.id,))
    again = call(*command)
    assert again.stdout.strip() == record.id, again.stderr
    assert "is the earlier submission" in again.stderr
    assert len(ledger.all()) == 2


OWN = b"#!/bin/bash\n#SBATCH --mem=50M --time=5\n#SBATCH --output=own-%j.out\n# caf\xe9\ncat data.txt $0\n"


def test_a_batch_script_runs_again_as_it_was(
    call: Call, project: Path, testbed: Testbed, ledger: Ledger
) -> None:
    (project / "own.sbatch").write_bytes(OWN)
    (project / "data.txt").write_text("before\n")
    at = ("--site", "generic", "--via", "twin")
    first = call("submit", "own.sbatch", *at).stdout.strip()
    assert testbed.wait(first) == "COMPLETED"
    (project / "own.sbatch").write_text("#!/bin/bash\nfalse\n")
    (project / "data.txt").write_text("after\n")

    shown = call("resubmit", first, "--dry-run")
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr
    assert "the script is the same" in shown.stderr
    reply = call("resubmit", first)
    assert reply.returncode == 0, reply.stderr
    assert f"job {first} (own.sbatch)" in reply.stderr
    assert "the files that it ran" in reply.stderr
    (record,) = ledger.find(reply.stdout.strip())
    assert testbed.wait(record.id) == "COMPLETED"
    assert (Path(record.folder) / f"own-{record.id}.out").read_bytes() == b"before\n" + OWN

    with closing(sqlite3.connect(ledger.path)) as database, database:
        database.execute("UPDATE jobs SET id = '', state = 'pending' WHERE id = ?", (record.id,))
    repeated = call("resubmit", first)
    assert repeated.stdout.strip() == record.id, repeated.stderr
    assert len(ledger.all()) == 2

    for words, error in [
        (["--framework", "mpi"], "own.sbatch runs as it is: --framework would change more than its header"),
        (["--", "--lr", "1"], "own.sbatch runs as it is: arguments after -- would change more"),
        (["--present-files"], "which excludes --present-files. `slurmgen submit own.sbatch`"),
        (["--site", "daic"], "which excludes --site daic"),
        (["--failed"], "which excludes --failed"),
    ]:
        refused = call("resubmit", first, *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert error in refused.stderr
    parent = settled(Path(record.folder).parent.parent)
    for folder in (*parent.glob("snapshots/*"), *parent.glob("runs/*")):
        subprocess.run(["rm", "-rf", folder], check=True)
    gone = call("resubmit", first)
    assert (gone.returncode, gone.stdout) == (3, "")
    assert f"no longer has the files that job {first} ran, nor its script" in gone.stderr


LAUNCH = b"""#!/bin/bash
#SBATCH --job-name=first --nodes=1 --ntasks-per-node=2 --gres=gpu:2
#SBATCH --mem=150M --time=5 --output=%x-%j.out
srun bash -c 'echo "$SLURM_PROCID of $SLURM_NTASKS on $SLURM_NNODES"'
"""


def test_options_override_the_header_of_a_batch_script_and_its_text_stays(
    call: Call, project: Path, testbed: Testbed, ledger: Ledger
) -> None:
    (project / "own.sbatch").write_bytes(LAUNCH)
    at = ("--site", "generic", "--via", "twin")
    first = call("submit", "own.sbatch", *at, "--time", "6").stdout.strip()
    assert testbed.wait(first) == "COMPLETED"
    shown = call("resubmit", first, "--gpus", "4", "--nodes", "2", "--dry-run")
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr
    assert "sbatch would get --nodes=2 --time=6 --gres=gpu:2, which overrides" in shown.stderr

    words = ("--gpus", "4", "--nodes", "2", "--mem", "160M", "--name", "second", "--sbatch", "nice=7")
    reply = call("resubmit", first, *words)
    assert reply.returncode == 0, reply.stderr
    (second,) = ledger.find(reply.stdout.strip())
    assert testbed.wait(second.id) == "COMPLETED"
    lines = (Path(second.folder) / f"second-{second.id}.out").read_text().splitlines()
    assert sorted(lines) == [f"{rank} of 4 on 2" for rank in range(4)]
    facts = dict(
        word.split("=", 1)
        for word in testbed.run("scontrol", "show", "job", second.id).split()
        if "=" in word
    )
    names = ("JobName", "NumNodes", "TimeLimit", "MinMemoryNode", "Nice")
    assert [facts[name] for name in names] == ["second", "2", "00:06:00", "160M", "7"]
    assert (Path(second.folder) / "own.sbatch").read_bytes() == LAUNCH

    third = call("resubmit", second.id, "--time", "7", "--dry-run", "--json")
    options = ["--mem=160M", "--job-name=second", "--nodes=2", "--time=7", "--gres=gpu:2", "--nice=7"]
    assert sorted(json.loads(third.stdout)["sbatch_options"]) == sorted(options)
    assert len(ledger.all()) == 2


def test_an_option_replaces_an_earlier_one_that_means_the_same_or_excludes_it(
    call: Call, project: Path, testbed: Testbed
) -> None:
    (project / "own.sbatch").write_text("#!/bin/bash\n#SBATCH --time=5\ntrue\n")
    earlier = ("--sbatch", "time=6", "--sbatch", "mem-per-cpu=50M", "--sbatch", "nice=7")
    job = call("submit", "own.sbatch", "--site", "generic", "--via", "twin", *earlier).stdout.strip()
    shown = call("resubmit", job, "--time", "7", "--mem", "60M", "--dry-run", "--json")
    assert sorted(json.loads(shown.stdout)["sbatch_options"]) == ["--mem=60M", "--nice=7", "--time=7"]
    shown = call("resubmit", job, "--sbatch", "time=8", "--dry-run", "--json")
    options = ["--mem-per-cpu=50M", "--nice=7", "--time=8"]
    assert sorted(json.loads(shown.stdout)["sbatch_options"]) == options


def test_options_that_contradict_a_script_may_run_again_but_not_further_ones(
    call: Call, project: Path, testbed: Testbed
) -> None:
    (project / "own.sbatch").write_bytes(LAUNCH.replace(b"srun", b"torchrun --nproc-per-node=2 a.py; srun"))
    words = ("--site", "generic", "--via", "twin", "--gpus", "1")
    assert call("submit", "own.sbatch", *words).returncode == 2
    job = call("submit", "own.sbatch", *words, "--no-lint").stdout.strip()
    assert call("resubmit", job, "--time", "7", "--dry-run").returncode == 0
    refused = call("resubmit", job, "--sbatch", "gress=gpu:1", "--dry-run")
    assert (refused.returncode, "own.sbatch cannot run as it is with" in refused.stderr) == (2, True)


def ended(ledger: Ledger, job: str, state: str, **usage: int) -> None:
    """Let the ledger know how a job ended."""
    (record,) = ledger.find(job)
    end = JobState(id=job, state=state, time_limit="00:05:00", usage=Usage(cpus=1, **usage))
    ledger.save_final_states({record: (states_text([end]), "", "")})


def test_after_out_of_memory_more_is_proposed_and_never_submitted_unasked(
    call: Call, project: Path, testbed: Testbed, ledger: Ledger
) -> None:
    job = submitted(call, testbed)
    ended(ledger, job, "OUT_OF_MEMORY", memory=300, memory_used=290)
    refused = call("resubmit", job)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "`slurmgen resubmit --as-proposed " in refused.stderr
    assert "`slurmgen resubmit --unchanged " in refused.stderr
    assert "--mem 512M (an estimate)" in refused.stderr
    diff = call("resubmit", job, "--as-proposed", "--dry-run").stdout
    assert "-#SBATCH --mem=300M\n+#SBATCH --mem=512M\n" in diff
    assert call("resubmit", job, "--unchanged", "--dry-run").stdout == ""
    own = call("resubmit", job, "--mem", "310M", "--dry-run")
    assert (own.returncode, "mem=310M" in own.stdout) == (0, True)
    assert len(ledger.all()) == 1

    ended(ledger, job, "TIMEOUT")
    assert "+#SBATCH --time=00:10:00\n" in call("resubmit", job, "--as-proposed", "--dry-run").stdout
    environ = {**os.environ, "HOME": str(project.parent), "XDG_STATE_HOME": str(ledger.path.parent.parent)}
    for answer, sight in {
        "cancel": "nothing was submitted",
        "y": "+#SBATCH --time=00:10:00",
        "n": "the script is the same",
    }.items():
        with terminal(["resubmit", job, "--dry-run"], environ, project) as typed:
            typed.sees("y: submit it with --time 00:10:00; n: submit it as it was; cancel: submit nothing")
            typed.sees("Use --time 00:10:00? [y/n/cancel]:")
            typed.type(f"{answer}\n")
            typed.sees(sight)
            assert typed.ended("" if answer == "y" else "#SBATCH") == (130 if answer == "cancel" else 0)
    pruned = call("snapshots", "--site", "generic", "--via", "twin", "--prune", "--older-than", "0", "--yes")
    assert "removed 2 of 2" in pruned.stderr
    gone = call("resubmit", job)
    assert (gone.returncode, "proposed" in gone.stderr) == (3, False)
    assert "no longer has the files that the job ran" in gone.stderr
    ended(ledger, job, "COMPLETED")
    nothing = call("resubmit", job, "--as-proposed")
    assert nothing.returncode == 2
    assert f"nothing is proposed for job {job}: it is COMPLETED" in nothing.stderr


def test_more_is_proposed_for_a_batch_script_as_an_option_that_overrides_its_header(
    call: Call, project: Path, testbed: Testbed, ledger: Ledger
) -> None:
    (project / "own.sbatch").write_bytes(OWN)
    job = call("submit", "own.sbatch", "--site", "generic", "--via", "twin").stdout.strip()
    assert testbed.wait(job) == "FAILED"  # it has no data.txt
    ended(ledger, job, "TIMEOUT")
    refused = call("resubmit", job)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--time 00:10:00 (an estimate)" in refused.stderr
    ended(ledger, job, "OUT_OF_MEMORY", memory=50, memory_used=50)
    shown = call("resubmit", job, "--as-proposed", "--dry-run", "--json")
    assert json.loads(shown.stdout)["sbatch_options"] == ["--mem=256M"]
    for words in (["--unchanged"], ["--mem", "70M"], ["--sbatch", "mem=70M"]):
        assert call("resubmit", job, *words, "--dry-run").returncode == 0


def test_what_cannot_be_resubmitted_is_refused_with_what_can_be_done(
    call: Call, project: Path, testbed: Testbed, ledger: Ledger
) -> None:
    job = submitted(call, testbed, "--env", "HF_TOKEN=hunter2", "--not-secret", "HF_TOKEN")
    refused = call("resubmit", job, "--present-files")
    assert (
        "values of secrets are not recorded: HF_TOKEN. Give each again, as in --env HF_TOKEN="
        in refused.stderr
    )
    env = ("--env", "HF_TOKEN=hunter2")
    elsewhere = call("resubmit", job, *env, "--site", "daic", "--account", "a", "--via", "local", "--dry-run")
    assert elsewhere.returncode == 2
    assert f"the files that job {job} ran are at the twin of generic, and not at daic" in elsewhere.stderr
    assert "--present-files" in elsewhere.stderr
    (record,) = ledger.find(job)
    parent = settled(Path(record.folder).parent.parent)
    for folder in (*parent.glob("snapshots/*"), *parent.glob("staging/*")):
        subprocess.run(["rm", "-rf", folder], check=True)
    gone = call("resubmit", job, *env)
    assert (gone.returncode, gone.stdout) == (3, "")
    assert "no longer has the files that the job ran" in gone.stderr
    assert "--present-files" in gone.stderr
    assert [one.id for one in ledger.all()] == [job]


def test_an_entry_of_an_earlier_slurmgen_and_an_unknown_job_are_refused(call: Call, ledger: Ledger) -> None:
    ledger.add(
        Record(
            **{"id": "9", "site": "generic", "via": "twin", "name": "old", "folder": "/f", "output": "o"},
            submitted="2020-01-01T00:00:00",
            command="slurmgen submit old --time 1",
        )
    )
    old = call("resubmit", "old")
    assert old.returncode == 2
    assert "Repeat its command: slurmgen submit old --time 1" in old.stderr
    assert "no job called 'nosuch' was submitted" in call("resubmit", "nosuch").stderr
    assert "is one task of job 9" in call("resubmit", "9_1").stderr
    assert "`slurmgen resubmit 9` submits job 9 (old) again" in call("submit", "old", "--dry-run").stderr
    assert "`slurmgen resubmit 9` submits job 9 (old) again" in call("submit", "9", "--dry-run").stderr
