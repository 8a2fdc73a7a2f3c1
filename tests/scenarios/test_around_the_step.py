"""What runs around the step of a job, on a real Slurm: own lines, staged data."""

import hashlib
import re
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.request.model import Then
from tests.scenarios.conftest import Site
from tests.support.twins import Testbed, eventually

DATA = bytes(range(256)) * 4096
READ = "cat $STAGED_DATA/own.bin $STAGED_DATA/inner/packed.bin | sha256sum; ls -A $STAGED_DATA"


class Jobs:
    """Requests on a twin with two nodes, submitted with sbatch."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed

    def submit(self, name: str, *options: str, **asked: object) -> str:
        folder = self.testbed.folder / name
        folder.mkdir()
        script = folder / "job.sbatch"
        script.write_text(render(resolve(Request(name=name, **asked), load_site("generic"))))  # type: ignore[arg-type]
        return self.testbed.run("sbatch", "--parsable", f"--chdir={folder}", *options, str(script)).strip()

    def ended(self, job: str) -> tuple[str, str, str]:
        """The state, the exit code and the log of a job."""
        state = self.testbed.wait(job, 240)
        record = self.testbed.run("scontrol", "--oneliner", "show", "job", job)
        fields = dict(re.findall(r"(\w+)=(\S*)", record))
        return state, fields["ExitCode"], Path(fields["StdOut"]).read_text()

    def run(self, name: str, **asked: object) -> tuple[str, str, str]:
        return self.ended(self.submit(name, **asked))


@pytest.fixture(scope="module")
def jobs(site: Callable[[str], Site]) -> Jobs:
    return Jobs(site("generic").testbed)


def shell(text: str) -> dict[str, object]:
    """A request for one process that runs some shell."""
    return {"framework": "python", "command": ("bash", "-c", text.replace("$", "$$"))}


STOPS = ("echo after $status", "false", "echo not reached")
CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, str, str]]] = {
    "succeeds": ("echo $FROM", ("echo after $status",), ("COMPLETED", "0:0", "line\nafter 0\n")),
    "fails": ("exit 3", ("echo after $status",), ("FAILED", "3:0", "after 3\n")),
    "line-fails": ("true", STOPS, ("FAILED", "1:0", "after 0\n")),
    "both-fail": ("exit 3", STOPS, ("FAILED", "3:0", "after 3\n")),
}
"What the step runs, the lines after it, and the end of the job."


@pytest.fixture(scope="module")
def ids(jobs: Jobs) -> dict[str, str]:
    """The jobs of all cases, which run at the same time."""
    before = ("export FROM=line",)
    return {
        name: jobs.submit(name, **shell(step), before=before, after=after)
        for name, (step, after, _) in CASES.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_lines_after_the_step_run_even_if_it_fails_and_the_job_keeps_its_exit_code(
    name: str, ids: dict[str, str], jobs: Jobs
) -> None:
    state, code, log = jobs.ended(ids[name])
    assert (state, code, without_srun(log)) == CASES[name][2]


def without_srun(log: str) -> str:
    """A log without the messages of Slurm."""
    return re.sub(r"^(srun|slurmstepd).*\n", "", log, flags=re.MULTILINE)


def test_a_line_before_the_step_that_fails_ends_the_job(jobs: Jobs) -> None:
    found = jobs.run("before", **shell("echo not reached"), before=("exit 7",), after=("echo not reached",))
    assert found == ("FAILED", "7:0", "")


@pytest.fixture(scope="module")
def data(jobs: Jobs) -> Path:
    """A folder with a file and an archive, and their checksums."""
    folder = jobs.testbed.folder / "data sets"
    (folder / "inner").mkdir(parents=True)
    (folder / "own.bin").write_bytes(DATA)
    (folder / "inner/packed.bin").write_bytes(DATA[::-1])
    with tarfile.open(folder / "packed.tar.gz", "w:gz") as archive:
        archive.add(folder / "inner", "inner")
    names = ("own.bin", "packed.tar.gz")
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums))
    return folder


def test_staged_data_is_whole_on_each_node_and_removed_at_the_end(jobs: Jobs, data: Path) -> None:
    both = {"stage": (f"{data}/own.bin",), "stage_archives": (f"{data}/packed.tar.gz",)}
    whole = hashlib.sha256(DATA + DATA[::-1]).hexdigest()
    script = jobs.testbed.folder / "read.sh"
    script.write_text(f"echo $STAGED_DATA >folder.$SLURM_PROCID; {READ}\n")
    state, _, log = jobs.run("staged", framework="srun", gpus=2, nodes=2, script=str(script), **both)
    assert (state, log.count(whole)) == ("COMPLETED", 2), log
    places = {path.read_text().strip() for path in (jobs.testbed.folder / "staged").glob("folder.*")}
    assert len(places) == 1
    assert not Path(places.pop()).exists()


def test_a_changed_file_ends_the_job_before_the_step(jobs: Jobs, data: Path) -> None:
    changed = jobs.testbed.folder / "changed"
    changed.mkdir()
    (changed / "own.bin").write_bytes(DATA[1:])
    (changed / "SHA256SUMS").write_text((data / "SHA256SUMS").read_text())
    state, _, log = jobs.run("damaged", **shell("echo not reached"), stage=(f"{changed}/own.bin",))
    assert state == "FAILED"
    assert f"{changed}/own.bin was not copied correctly: sha256sum is " in log
    assert "not reached" not in log


def test_a_link_in_the_place_of_the_folder_of_the_data_is_not_followed(jobs: Jobs, data: Path) -> None:
    target = jobs.testbed.folder / "target"
    target.mkdir()
    asked = {"stage": (f"{data}/own.bin",), "env": {"TMPDIR": str(jobs.testbed.folder)}}
    job = jobs.submit("linked", "--hold", **shell("echo not reached"), **asked)
    (jobs.testbed.folder / f"staged-{job}").symlink_to(target)
    jobs.testbed.run("scontrol", "release", job)
    state, _, log = jobs.ended(job)
    assert state == "FAILED"
    assert "is not ours" in log
    assert not list(target.iterdir())


def test_each_further_step_runs_once_the_one_before_has_succeeded(jobs: Jobs) -> None:
    then = (
        Then(command=("bash", "-c", "echo second $$SLURM_NTASKS")),
        Then(command=("bash", "-c", "echo third $$SLURM_NTASKS; exit 5"), framework="python"),
        Then(command=("echo", "not reached")),
    )
    first = shell("echo first $SLURM_NTASKS") | {"framework": "srun", "gpus": 4, "nodes": 2}
    *ended, log = jobs.run("then", **first, then=then, after=("echo after $status",))
    assert ended == ["FAILED", "5:0"]
    assert without_srun(log).splitlines() == ["first 4"] * 4 + ["second 4"] * 4 + ["third 1", "after 5"]


def test_an_unfinished_run_is_requeued_without_further_steps_and_lines(jobs: Jobs, data: Path) -> None:
    is_whole, again = 'cmp $STAGED_DATA/own.bin "$OWN"', '[ -n "$SLURM_RESTART_COUNT" ]'
    step = f"echo run ${{SLURM_RESTART_COUNT:-0}}; {is_whole} || exit; {again} || exit 75"
    own = f"{data}/own.bin"
    asked = {"requeue": True, "then": (Then(command=("echo", "second")),), "after": ("echo after",)}
    job = jobs.submit("requeued", **shell(step), **asked, stage=(own,), env={"OWN": own})
    eventually(lambda: "Reason=BeginTime" in jobs.testbed.run("scontrol", "show", "job", job))
    time.sleep(2)  # a node refuses a job in the second of its requeue
    jobs.testbed.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    *ended, log = jobs.ended(job)
    assert ended == ["COMPLETED", "0:0"]
    assert re.findall("^(?:run [01]|second|after)$", log, re.MULTILINE) == [
        "run 0",
        "run 1",
        "second",
        "after",
    ]
