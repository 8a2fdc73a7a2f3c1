"""submit --first: jobs wait at several sites, one runs its program, and whatever breaks, never two do."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from msgspec import structs

from slurmgen import Request, load_job, load_site, resolve, status, submit, wait
from slurmgen.errors import (
    CommandFailed,
    ConfigError,
    ConnectionFailed,
    RequestError,
    TransferFailed,
    Unresolved,
)
from slurmgen.job_spec import JobOptions, JobSpec
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.races import GATE_CLOSED, GATE_FILE, GATE_OPEN, Race, Races, close_gate, open_gate
from slurmgen.plan import requeue
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Completed, Transport
from slurmgen.render import render
from slurmgen.slurm.dependencies import parse
from slurmgen.status.report import Report
from slurmgen.submit import exactly_once
from slurmgen.submit import race as racing
from slurmgen.submit.dependencies import find
from slurmgen.submit.exactly_once import Closed, Submission, Submitted
from slurmgen.submit.first import fingerprint, new_race, takers
from slurmgen.submit.race import Runner
from slurmgen.submit.where import Option
from tests.cli.test_json import check
from tests.conftest import Run
from tests.support import first_faults
from tests.support.first_cuts import configure, stalled, write_config
from tests.support.first_faults import (
    FAULTS,
    finished,
    jobs_of,
    runs_of,
    settled,
    started,
    trial,
    user_of,
    words,
)
from tests.support.programs import write_programs
from tests.support.twins import PATIENCE, Testbed, eventually, twin
from tests.test_script import shellcheck

Sites = Mapping[str, Testbed]


@pytest.fixture(scope="module")
def sites(testbed: Testbed) -> Iterator[Sites]:
    with twin("daic", nodes=1) as daic:
        yield {"generic": testbed, "daic": daic}


@pytest.fixture
def project(sites: Sites) -> Iterator[Path]:
    with user_of(sites) as folder:
        yield folder


def state_of(sites: Sites, record: Record) -> str:
    return sites[record.site].wait(record.id)


def race_of(name: str) -> Race:
    record = Ledger().last(name)
    assert record
    race = Races().of(record)
    assert race
    return race


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(project: Path, name: str, step: str) -> Race:
    """The race of a client that was killed when it came to a function of its modules."""

    def prepare() -> None:
        setattr(racing, step, lambda *_, **__: killed())

    assert finished(started(project, name, prepare)) == -signal.SIGKILL
    return race_of(name)


def die_when_all_wait() -> None:
    """Let the client choose no job, and kill it when all are submitted."""

    def choose(races: Races, race: Race, _key: str) -> Race:
        if all(not one.pending for one in races.entries(race)):
            killed()
        return races.current(race)

    Races.choose = choose  # type: ignore[method-assign]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_one_program_runs_whatever_breaks(project: Path, sites: Sites, fault: Callable[..., bool]) -> None:
    name = f"{fault.__name__}-0"
    trial(project, sites, name, fault, seed=3)
    counts = settled(project, sites, [name])
    wrong = {what for what, number in counts.items() if number} - {
        "races with a choice whose program ran 1 times",
        "races without a choice whose program ran 0 times",
        "races of two sites",
    }
    assert (counts["races with a choice whose program ran 1 times"] > 0, wrong) == (True, set())


def test_a_second_open_gate_would_be_counted(project: Path, sites: Sites) -> None:
    """The trials can fail: here the client opens the gates of the losers instead of cancelling them."""

    def open_too(loser: Runner, _say: object) -> None:
        loser.tried(lambda transport: open_gate(transport, loser.record.folder))

    def prepare() -> None:
        racing._cancel = open_too  # type: ignore[assignment]

    assert finished(started(project, "twice", prepare)) == 0
    assert len(eventually(lambda: len(ran := runs_of(project, "twice")) == 2 and ran)) == 2
    counts = settled(project, sites, ["twice"])
    assert counts["races with a choice whose program ran 2 times"] == 1
    assert counts["programs of another job than the chosen one"] == 1


def test_the_first_job_to_start_runs_and_the_others_are_cancelled(
    project: Path, sites: Sites, slurmgen: Run
) -> None:
    def run(*args: str) -> "subprocess.CompletedProcess[str]":
        return slurmgen(*args, cwd=project, env=dict(os.environ))

    reply = run(*words("once"), "--json")
    assert reply.returncode == 0, reply.stderr
    printed = check("submit", reply.stdout)
    (other,) = printed["others"]
    assert {printed["site"], other["site"]} == {"generic", "daic"}
    assert other["cancelled"] is True
    waited = run("wait", "once", "--json")
    assert (waited.returncode, json.loads(waited.stdout)["id"]) == (0, printed["id"])
    assert runs_of(project, "once") == [printed["id"]]
    assert sites[other["site"]].wait(other["id"]) == "CANCELLED"
    both = json.loads(run("status", printed["race"], "--json").stdout)["jobs"]
    assert {(job["id"], job["state"]) for job in both} == {
        (printed["id"], "COMPLETED"),
        (other["id"], "CANCELLED"),
    }
    lost = {job["id"]: job["lost_to"] for job in both}
    assert lost == {printed["id"]: None, other["id"]: {"id": printed["id"], "site": printed["site"]}}
    words_of_loser = f"lost the race to job {printed['id']} at {printed['site']}"
    for shown in (run("status"), run("status", other["id"], "--site", other["site"])):
        assert shown.stdout.count(words_of_loser) == 1
    assert run("logs", "once").returncode == 0


@pytest.mark.parametrize("busy", ["daic", "generic"])
def test_the_site_that_has_free_nodes_wins(project: Path, sites: Sites, busy: str) -> None:
    nodes = len(sites[busy].twin.nodes)
    full = ("sbatch", "--parsable", "--exclusive", f"--nodes={nodes}", "--time=10", "--wrap=sleep 600")
    blocker = sites[busy].run(*full).strip()
    eventually(lambda: sites[busy].run("squeue", "--noheader", "--states=RUNNING", f"--jobs={blocker}"))
    try:
        assert finished(started(project, f"beside-{busy}")) == 0
    finally:
        sites[busy].run("scancel", blocker)
    race = race_of(f"beside-{busy}")
    states = {entry.site: state_of(sites, entry) for entry in Races().entries(race)}
    assert states == {**dict.fromkeys(sites, "COMPLETED"), busy: "CANCELLED"}


def test_a_client_that_is_killed_before_it_opens_the_gate_keeps_its_choice(
    project: Path, sites: Sites
) -> None:
    before = killed_at(project, "kept", "open_gate")
    assert before.chosen
    assert not before.over
    assert runs_of(project, "kept") == []
    assert finished(started(project, "kept")) == 0
    after = race_of("kept")
    assert (after.key, after.chosen, after.over) == (before.key, before.chosen, True)
    assert settled(project, sites, ["kept"])["races with a choice whose program ran 1 times"] == 1


def test_a_client_that_is_killed_before_it_cancels_leaves_a_program_that_runs_and_a_job_that_does_not(
    project: Path, sites: Sites
) -> None:
    before = killed_at(project, "opened", "cancel_jobs")
    eventually(lambda: runs_of(project, "opened"))
    assert finished(started(project, "opened")) == 0
    assert race_of("opened").chosen == before.chosen
    (loser,) = (entry for entry in Races().entries(before) if entry.key != before.chosen)
    assert state_of(sites, loser) == "CANCELLED"
    assert len(runs_of(project, "opened")) == 1


def test_if_the_chosen_job_has_ended_before_its_gate_was_opened_another_one_runs(
    project: Path, sites: Sites
) -> None:
    before = killed_at(project, "ended", "open_gate")
    chosen = Ledger().of_key(before.chosen)
    assert chosen
    sites[chosen.site].run("scancel", chosen.id)
    assert state_of(sites, chosen) == "CANCELLED"
    assert finished(started(project, "ended")) == 0
    after = race_of("ended")
    assert after.key == before.key
    assert after.chosen not in ("", before.chosen)
    log = (project.parent / "ended.log").read_text()
    assert f"job {chosen.id} at {chosen.site} has ended before its gate was opened" in log
    winner = Ledger().of_key(after.chosen)
    assert winner
    assert eventually(lambda: runs_of(project, "ended")) == [winner.id]


def test_without_the_client_the_jobs_end_and_the_same_command_submits_new_ones(
    project: Path, sites: Sites, slurmgen: Run
) -> None:
    def prepare() -> None:
        requeue.GATE_SECONDS = 20  # long enough for the client to see a job that runs
        die_when_all_wait()

    assert finished(started(project, "alone", prepare)) == -signal.SIGKILL
    first = race_of("alone")
    entries = Races().entries(first)
    assert [state_of(sites, entry) for entry in entries] == ["FAILED", "FAILED"]
    shown = slurmgen("status", "alone", cwd=project, env=dict(os.environ))
    assert shown.stdout.count("its gate was not opened, so that it did not run its program") == 2
    assert shown.stdout.count("exit code 76") == 2
    assert finished(started(project, "alone")) == 3
    assert "no job of 2 sites has run the program" in (project.parent / "alone.log").read_text()
    assert runs_of(project, "alone") == []
    assert finished(started(project, "alone")) == 0
    assert race_of("alone").key != first.key


def test_a_site_that_cannot_be_asked_is_left_out_and_named(project: Path, slurmgen: Run) -> None:
    more = ("--first", "olivia", "--dry-run")
    reply = slurmgen(*words("two"), *more, cwd=project, env=dict(os.environ))
    assert reply.returncode == 0, reply.stderr
    assert "without olivia: " in reply.stderr
    assert "would submit to 2 sites" in reply.stderr
    assert 'gate="../../submissions/' in reply.stdout
    assert Ledger().all() == ()


def test_a_loser_that_cannot_be_cancelled_is_reported_and_runs_nothing(project: Path, sites: Sites) -> None:
    def lost(*_: object) -> None:
        raise ConnectionFailed("the connection was lost")

    def prepare() -> None:
        racing.cancel_jobs = lost  # type: ignore[assignment]

    assert finished(started(project, "lost", prepare)) == 0
    race = race_of("lost")
    (loser,) = (entry for entry in Races().entries(race) if entry.key != race.chosen)
    log = (project.parent / "lost.log").read_text()
    assert f"job {loser.id} at {loser.site} was not cancelled" in log
    assert f"`slurmgen cancel {loser.id} --site {loser.site}` cancels it" in log
    eventually(lambda: runs_of(project, "lost"))
    sites[loser.site].run("scancel", loser.id)
    assert len(runs_of(project, "lost")) == 1


def test_before_the_choice_the_name_is_that_of_all_jobs(project: Path, sites: Sites, slurmgen: Run) -> None:
    assert finished(started(project, "open", die_when_all_wait)) == -signal.SIGKILL
    reply = slurmgen("cancel", "open", "--json", cwd=project, env=dict(os.environ))
    assert reply.returncode == 0, reply.stderr
    assert len(json.loads(reply.stdout)["jobs"]) == 2
    assert [jobs_of(sites[site], "open") != [] for site in sites] == [True, True]
    assert settled(project, sites, ["open"])["names without a run"] == 1


def test_until_the_race_is_over_its_name_cancels_all_jobs(project: Path, sites: Sites, slurmgen: Run) -> None:
    killed_at(project, "chosen", "open_gate")
    reply = slurmgen("cancel", "chosen", "--json", cwd=project, env=dict(os.environ))
    assert len(json.loads(reply.stdout)["jobs"]) == 2, reply.stderr
    states = {state_of(sites, entry) for entry in Races().entries(race_of("chosen"))}
    assert states <= {"CANCELLED", "FAILED"}  # a script whose gate is closed may end before it is cancelled
    assert runs_of(project, "chosen") == []
    cancelled = race_of("chosen")
    assert (cancelled.chosen, cancelled.over) == ("", True)
    assert finished(started(project, "chosen")) == 0
    assert race_of("chosen").key != cancelled.key


def test_a_site_that_is_not_reached_does_not_keep_the_other_jobs_from_being_cancelled(
    project: Path, sites: Sites, slurmgen: Run
) -> None:
    assert finished(started(project, "unreached", die_when_all_wait)) == -signal.SIGKILL
    lost, reached = Races().entries(race_of("unreached"))
    link = project.parent / "state/slurmgen/twin" / lost.site
    twin_folder = link.readlink()
    link.unlink()
    reply = slurmgen("cancel", "unreached", cwd=project, env=dict(os.environ))
    assert (reply.returncode, f"no twin of {lost.site} runs" in reply.stderr) == (3, True), reply.stderr
    assert state_of(sites, reached) == "CANCELLED"
    link.symlink_to(twin_folder)
    assert slurmgen("cancel", "unreached", cwd=project, env=dict(os.environ)).returncode == 0
    assert state_of(sites, lost) == "CANCELLED"
    assert runs_of(project, "unreached") == []


def at_submission(site: str, act: Callable[[Submission], object]) -> None:
    """Call `act` before the job is sent to a site."""
    send = exactly_once.submit

    def submit(transport: Transport, submission: Submission, *args: Any, **values: Any) -> Submitted:
        entry = Ledger().of_key(submission.key)
        if entry and entry.site == site:
            act(submission)
        return send(transport, submission, *args, **values)

    exactly_once.submit = submit


def given_up(submission: Submission) -> None:
    """Wait until the entry of a submission is gone."""
    eventually(lambda: Ledger().of_key(submission.key) is None)


def test_a_job_that_runs_does_not_wait_for_a_site_that_is_still_sent_to(project: Path, sites: Sites) -> None:
    def prepare() -> None:
        at_submission("daic", given_up)
        submitting, finish = threading.Event(), Races.finish

        def send(runner: Runner, *made: Any) -> None:
            try:
                submit(runner, *made)
            except Closed:
                (project.parent / "closed").touch()
                raise
            finally:
                if runner.route.site == "daic":
                    submitting.set()

        def late(races: Races, race: Race) -> None:
            assert submitting.wait(PATIENCE)
            finish(races, race)

        submit = Runner._submit
        Runner._submit = send  # type: ignore[method-assign]
        Races.finish = late  # type: ignore[method-assign]

    assert finished(started(project, "sending", prepare)) == 0
    assert (project.parent / "closed").exists()
    (entry,) = Races().entries(race_of("sending"))
    assert (entry.site, state_of(sites, entry)) == ("generic", "COMPLETED")
    assert runs_of(project, "sending") == [entry.id]
    assert jobs_of(sites["daic"], "sending") == []


@pytest.mark.parametrize("by", ["name", "key"])
def test_cancel_while_a_job_is_still_sent_stops_the_client_and_no_further_site_gets_a_job(
    by: str, project: Path, sites: Sites, slurmgen: Run
) -> None:
    name = f"stopped-by-{by}"

    def prepare() -> None:
        at_submission("daic", given_up)
        Races.choose = lambda races, race, _key: races.current(race)  # type: ignore[method-assign]

    client = started(project, name, prepare)
    eventually(lambda: jobs_of(sites["generic"], name))
    word = name if by == "name" else race_of(name).key
    reply = slurmgen("cancel", word, "--json", cwd=project, env=dict(os.environ))
    assert (reply.returncode, finished(client)) == (0, 3), reply.stderr
    found = {job["site"]: (job["state"], bool(job["id"])) for job in json.loads(reply.stdout)["jobs"]}
    assert found["daic"] == ("CANCELLED", False)
    log = (project.parent / f"{name}.log").read_text()
    assert "error: another command has cancelled or replaced the race" in log
    assert jobs_of(sites["daic"], name) == []
    (left,) = (entry for entry in Ledger().all() if entry.name == name)
    assert (left.site, state_of(sites, left)) == ("generic", "CANCELLED")
    assert runs_of(project, name) == []


def test_a_lost_connection_is_replaced_once_before_a_site_is_left_out(project: Path, sites: Sites) -> None:
    def prepare() -> None:
        lost = iter([Unresolved("the connection was lost")])

        def lose(_: Submission) -> None:
            for error in lost:
                raise error

        at_submission("daic", lose)
        die_when_all_wait()

    assert finished(started(project, "again", prepare)) == -signal.SIGKILL
    assert "daic: the connection was lost; connecting again" in (project.parent / "again.log").read_text()
    assert {entry.site for entry in Races().entries(race_of("again")) if not entry.pending} == set(sites)


def test_an_entry_that_may_have_a_job_stays_if_the_second_connection_fails(project: Path) -> None:
    def prepare() -> None:
        def lose(_: Submission) -> None:
            LocalTransport.run = unreachable  # type: ignore[method-assign]
            raise Unresolved("the connection was lost")

        def unreachable(*_: Any, **__: Any) -> Completed:
            raise ConnectionFailed("the host is down")

        at_submission("daic", lose)
        at_submission("generic", lose)

    assert finished(started(project, "kept-entries", prepare)) == 3
    assert [entry.pending for entry in Races().entries(race_of("kept-entries"))] == [True, True]


def test_if_all_sites_fail_for_the_same_reason_that_is_the_error(project: Path) -> None:
    def prepare() -> None:
        def lose(_: Submission) -> None:
            raise TransferFailed("data changed while it was sent", "Submit again.")

        at_submission("daic", lose)
        at_submission("generic", lose)

    assert finished(started(project, "same-reason", prepare)) == 3
    log = (project.parent / "same-reason.log").read_text()
    assert log.endswith("\nerror: data changed while it was sent. Submit again.\n")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_id_that_cannot_be_printed_is_in_the_error_and_printed_by_the_same_command(
    more: tuple[str, ...], project: Path
) -> None:
    def run(stdout: int) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "slurmgen", *words("unprinted"), *more]
        return subprocess.run(
            command, cwd=project, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=300
        )

    reader, closed = os.pipe()
    os.close(reader)
    first, again = run(closed), run(subprocess.PIPE)
    os.close(closed)
    record = Ledger().of_key(race_of("unprinted").chosen)
    assert record
    job = f"job {record.id} at {record.site} runs the program"
    assert (first.returncode, f"error: {job}, but its id could not be printed" in first.stderr) == (2, True)
    assert again.returncode == 0
    assert again.stdout == f"{record.id}\n" or json.loads(again.stdout)["id"] == record.id
    assert eventually(lambda: runs_of(project, "unprinted")) == [record.id]


@pytest.fixture
def job(project: Path, monkeypatch: pytest.MonkeyPatch) -> JobSpec:
    monkeypatch.setattr(racing, "FIRST_PAUSE", 0.2)
    asked = {"gpus": 0, "cpus": 2, "mem": "100M", "time": "00:05:00", "account": "a", "python_env": "none"}
    return load_job(project_dir=project, framework="python", script="train.py", **asked)


def test_python_gets_the_job_that_runs(project: Path, sites: Sites, job: JobSpec) -> None:
    record = submit(job, first=list(sites), via="twin", remote_dir=str(project.parent / "far"))
    assert wait(record).state == "COMPLETED"
    assert runs_of(project, record.name) == [record.id]
    (other,) = (entry for entry in Races().entries(race_of(record.name)) if entry.key != record.key)
    report = status(other.id, site=other.site)
    assert report.lost_to
    assert (report.lost_to.id, report.lost_to.site) == (record.id, record.site)


def test_python_refuses_what_belongs_to_one_site(job: JobSpec, project: Path) -> None:
    with pytest.raises(RequestError, match="a plan is for one site"):
        submit(job.plan(), project, first=["generic", "daic"])
    with pytest.raises(RequestError, match="the job names a site"):
        submit(load_job(site="daic", project_dir=project, script="train.py"), first=["generic"])
    with pytest.raises(RequestError, match="after and first exclude each other"):
        submit(job, first=["generic", "daic"], after=["12"])
    with pytest.raises(RequestError, match="cannot be the login host of 2 sites"):
        submit(job, first=["generic", "daic"], host="h")
    with pytest.raises(ConfigError, match="there is no site 'nosuch'"):
        submit(job, first="nosuch")


def test_what_no_site_can_run_for_the_same_reason_is_one_error(project: Path, sites: Sites) -> None:
    asked = {"gpus": 0, "cpus": 2, "mem": "100M", "time": "00:05:00", "account": "a", "python_env": "uv"}
    job = load_job(project_dir=project, framework="python", script="train.py", **asked)
    with pytest.raises(RequestError, match=r"^'pyproject.toml', which the Python env"):
        submit(job, first=list(sites), via="twin", remote_dir=str(project.parent / "far"))
    assert Ledger().all() == ()


@pytest.fixture
def needs_uv_at_daic(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, whose job needs a pyproject.toml at daic alone; it has none."""
    monkeypatch.setattr(first_faults, "OPTIONS", "train")
    (project / "slurmgen.toml").write_text(
        '[job.train]\nframework = "python"\nscript = "train.py"\ngpus = 0\ncpus = 2\nmem = "100M"\n'
        'time = "00:05:00"\naccount = "a"\npython_env = "none"\n[job.train.site.daic]\npython_env = "uv"\n'
    )
    return project


WITHOUT_DAIC = "without daic: 'pyproject.toml', which the Python environment"


def test_a_site_that_cannot_run_the_request_is_left_out_and_the_others_go_on(
    needs_uv_at_daic: Path, sites: Sites
) -> None:
    assert finished(started(needs_uv_at_daic, "possible")) == 0
    (entry,) = Races().entries(race_of("possible"))
    assert (entry.site, state_of(sites, entry)) == ("generic", "COMPLETED")
    assert WITHOUT_DAIC in (needs_uv_at_daic.parent / "possible.log").read_text()


def test_a_dry_run_leaves_out_the_same_sites(needs_uv_at_daic: Path, slurmgen: Run) -> None:
    reply = slurmgen(*words("shown"), "--dry-run", cwd=needs_uv_at_daic, env=dict(os.environ))
    assert reply.returncode == 0, reply.stderr
    assert WITHOUT_DAIC in reply.stderr
    assert "would submit to 1 site, of which the first to start would keep its job: generic" in reply.stderr


def test_a_repeated_command_goes_on_without_a_site_that_cannot_run_the_request_any_more(
    needs_uv_at_daic: Path, sites: Sites
) -> None:
    def prepare() -> None:
        at_submission("daic", lambda _: killed())
        Races.choose = lambda races, race, _key: races.current(race)  # type: ignore[method-assign]

    project = needs_uv_at_daic
    (project / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\n')
    assert finished(started(project, "later", prepare)) == -signal.SIGKILL
    race = race_of("later")
    (project / "pyproject.toml").unlink()
    assert finished(started(project, "later")) == 0
    log = (project.parent / "later.log").read_text()
    assert f"continuing the race {race.key}" in log
    assert WITHOUT_DAIC in log
    (entry,) = Races().entries(race)
    assert (entry.site, state_of(sites, entry)) == ("generic", "COMPLETED")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--sweep", "lr=1,2", "--sbatch", "array=1-2"], "error: --sweep and --sbatch array exclude each"),
        (["--mem", "9999G"], "error: no site could run the job: daic: the job needs 9999G per node"),
    ],
)
def test_a_request_that_is_wrong_at_all_sites_is_refused_without_a_connection(
    more: list[str], error: str, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "train.py").touch()
    sites = "submit --first daic --first olivia --via twin --script train.py --account a --gpus 1".split()
    reply = slurmgen(*sites, *more)
    assert (reply.returncode, reply.stderr.startswith(error)) == (2, True), reply.stderr


def test_the_log_of_an_array_is_not_followed(project: Path, slurmgen: Run) -> None:
    more = ("--follow", "--sbatch", "array=1-2")
    reply = slurmgen(*words("followed"), *more, cwd=project, env=dict(os.environ))
    assert (reply.returncode, "--follow shows one log" in reply.stderr) == (2, True), reply.stderr


@pytest.mark.parametrize("command", ["shell", "port", "top", "path", "ssh"])
def test_a_command_for_one_job_asks_which_job_of_a_race_is_meant(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurmgen: Run
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    races, race = Races(), new_race("command")
    own = [entry("a", race), structs.replace(entry("b", race), site="olivia")]
    races.enter(race, own)
    races.settle_all([structs.replace(one, id=str(n), state="submitted") for n, one in enumerate(own, 11)])
    reply = slurmgen(command, "n", *(["8888"] if command == "port" else []), env=dict(os.environ))
    assert (reply.returncode, reply.stderr) == (
        2,
        "error: n is 2 jobs: 11, 12. Name one of them, such as 11.\n",
    )


def test_a_winner_that_could_not_be_recorded_is_recorded_later_and_not_cancelled(
    project: Path, sites: Sites
) -> None:
    def prepare() -> None:
        settle_all = Ledger.settle_all

        def full(ledger: Ledger, records: Sequence[Record]) -> None:
            if len(records) == 1:  # each job after its submission
                raise ConfigError("the disk is full")
            settle_all(ledger, records)

        Ledger.settle_all = full  # type: ignore[method-assign]

    assert finished(started(project, "late", prepare)) == 0
    assert settled(project, sites, ["late"])["races with a choice whose program ran 1 times"] == 1


def test_a_command_whose_race_another_one_has_given_up_ends(project: Path, sites: Sites) -> None:
    def prepare() -> None:
        def closed(_transport: object, folder: str) -> bool:
            assert close_gate(LocalTransport(), folder)
            race = race_of("given-up")
            Races().enter(structs.replace(race, key="other"), [], again=True)
            return False

        racing.open_gate = closed

    assert finished(started(project, "given-up", prepare)) == 3
    assert (
        "another command has cancelled or replaced the race" in (project.parent / "given-up.log").read_text()
    )
    assert settled(project, sites, ["given-up"])["names without a run"] == 1


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--site", "daic"], "--site and --first exclude each other"),
        (["--after", "any:12"], "--after and --first exclude each other"),
        (["--test-only"], "--test-only and --first exclude each other"),
        (["--host", "h"], "cannot be the login host of 2 sites"),
        (["own.sbatch"], "own.sbatch is a batch script"),
    ],
)
def test_what_belongs_to_one_site_is_refused(
    more: list[str], error: str, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "own.sbatch").write_text("#!/bin/bash\n")
    reply = slurmgen("submit", "--first", "generic", "--first", "daic", *more)
    assert (reply.returncode, error in reply.stderr) == (2, True), reply.stderr


def test_the_first_option_of_each_site_takes_part() -> None:
    """They are in the order of their estimated start."""
    options = [
        Option(site="a", partition="p", wait=1),
        Option(site="b", partition="q", wait=2),
        Option(site="a", partition="r", wait=3),
        Option(site="c", refused="too large"),
    ]
    assert takers(options) == options[:2]
    with pytest.raises(CommandFailed, match=r"no site could run the job: a: too large; b: down\."):
        takers([*[Option(site="a", refused="too large.")] * 2, Option(site="b", error="down")])


def test_a_command_has_one_fingerprint_in_any_order_of_its_sites_and_another_one_in_another_folder(
    tmp_path: Path,
) -> None:
    from slurmgen.job_spec import load_spec

    jobs = [
        load_spec(JobOptions(site=site, request=Request(script="a.py")), tmp_path)
        for site in ("daic", "olivia")
    ]
    assert (
        fingerprint(jobs, ["x", "y"]) == fingerprint(jobs[::-1], ["y", "x"]) != fingerprint(jobs, ["x", "z"])
    )


def entry(key: str, race: Race) -> Record:
    return Record(
        id="",
        site="daic",
        via="ssh",
        name="n",
        folder="/f",
        output="o",
        submitted="2026-01-01",
        key=key,
        state="pending",
        part_of=race.key,
    )


@pytest.fixture
def races(tmp_path: Path) -> Races:
    return Races(tmp_path / "state/ledger.sqlite")


def test_the_same_command_joins_a_race_until_it_is_over(races: Races) -> None:
    first, second = new_race("command"), new_race("command")
    assert races.enter(first, [entry("a", first)]) == first
    assert races.enter(second, [entry("b", second)]) == first
    assert races.open_race("command") == first
    assert [one.key for one in races.entries(first)] == ["a"]
    races.finish(first)
    assert races.open_race("command") is None
    assert races.enter(second, [entry("b", second)]) == second


def test_a_connection_that_is_made_after_the_end_of_a_race_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    connecting, ended, closed = threading.Event(), threading.Event(), threading.Event()

    def connect(_: Route) -> Transport:
        connecting.set()
        assert ended.wait(60)
        return cast("Transport", SimpleNamespace(close=closed.set))

    monkeypatch.setattr(racing, "query_site", lambda _, jobs, **__: [Report(job=jobs[0], state="PENDING")])
    race = new_race("")
    submitted = structs.replace(entry("k", race), id="1", state="submitted")
    one = Runner(race, submitted, Route(site="daic", via="local"), never, connect, print)
    one.start(SimpleQueue())
    assert connecting.wait(60)
    one.end()
    ended.set()
    assert closed.wait(60)


def never() -> NoReturn:
    raise AssertionError


def test_a_race_has_one_choice_until_it_is_taken_back(races: Races) -> None:
    race = races.enter(new_race("command"), [])
    assert races.choose(race, "a").chosen == "a"
    assert races.choose(race, "b").chosen == "a"
    assert races.take_back(structs.replace(race, chosen="b")).chosen == "a"
    assert races.take_back(races.current(race)).chosen == ""
    assert races.choose(race, "b").chosen == "b"


def test_a_new_race_ends_the_unfinished_one_of_the_same_command(races: Races) -> None:
    old = races.enter(new_race("command"), [])
    new = races.enter(new_race("command"), [], again=True)
    assert races.choose(old, "a") == structs.replace(old, over=True)
    assert races.choose(new, "b").chosen == "b"


def test_a_choice_is_taken_back_also_after_the_race_is_over(races: Races) -> None:
    old = races.choose(races.enter(new_race("command"), []), "a")
    races.enter(new_race("command"), [], again=True)
    assert races.take_back(old) == structs.replace(old, chosen="", over=True)


def test_a_race_whose_entries_are_all_gone_is_not_continued(races: Races) -> None:
    old, new = new_race("command"), new_race("command")
    races.enter(old, [entry("a", old)])
    races.drop("a")
    assert races.open_race("command") is None
    assert races.enter(new, [entry("b", new)]) == new
    assert races.current(old).over


def test_only_a_job_that_another_one_has_beaten_is_a_loser(races: Races) -> None:
    race = new_race("command")
    first, second = entry("a", race), entry("b", race)
    races.enter(race, [first, second])
    assert races.losers([first, second]) == set()
    races.choose(race, "b")
    assert races.losers([first, second]) == {first}
    assert races.losers([first]) == set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with the records of its submission."""
    (tmp_path / "submissions/n-1").mkdir(parents=True)
    made = tmp_path / "runs/n-1"
    made.mkdir(parents=True)
    return made


def test_what_is_done_first_to_a_gate_counts_for_good(folder: Path) -> None:
    transport = LocalTransport()
    with pytest.raises(CommandFailed, match="cannot be set"):
        open_gate(transport, str(folder.parent))
    assert open_gate(transport, str(folder))
    assert not close_gate(transport, str(folder))
    (folder / "../../submissions/n-1/gate").unlink()
    assert close_gate(transport, str(folder))
    assert not open_gate(transport, str(folder))


def test_the_gate_of_a_run_folder_that_is_gone_can_be_closed(folder: Path) -> None:
    folder.rmdir()
    assert close_gate(LocalTransport(), str(folder))
    assert not open_gate(LocalTransport(), str(folder))


def script(seconds: int, **more: object) -> str:
    plan = resolve(Request(script="train.py", gpus=0, **more), load_site("generic"))  # type: ignore[arg-type]
    return render(structs.replace(plan, gate=seconds))


@pytest.mark.parametrize(("word", "runs"), [("open", True), ("closed", False), (None, False)])
def test_the_script_runs_its_program_only_with_an_open_gate(
    folder: Path, word: str | None, runs: bool
) -> None:
    write_programs(folder, {"srun": "echo ran"})
    link = folder / "../../submissions/n-1/gate"
    if word:
        link.symlink_to(word)
    text, env = script(1 if word is None else 600), {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == ((0, "ran\n") if runs else (requeue.GATE_SHUT, ""))
    assert ("the gate of this job was not opened" in ended.stderr) is not runs
    assert str(link.readlink()) == (word or GATE_CLOSED)


def test_the_template_has_the_words_of_the_client() -> None:
    text = script(requeue.GATE_SECONDS)
    for word in (
        f"exit {requeue.GATE_SHUT}\n",
        f'/{GATE_FILE}"',
        f"-sT {GATE_CLOSED} ",
        f"!= {GATE_OPEN} ]]",
        "600",
    ):
        assert word in text
    assert shellcheck("-", text=text) == ""
    many = script(1, segments=3, secrets=("HF_TOKEN",))
    assert shellcheck("-", text=many) == ""
    assert "gate" not in script(0)


def test_a_job_that_depends_on_one_of_several_sites_waits_for_the_chosen_one(
    races: Races, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(races.path.parent.parent))
    races = Races()
    race = new_race("command")
    at_daic, at_olivia = entry("a", race), structs.replace(entry("b", race), site="olivia")
    races.enter(race, [at_daic, at_olivia])
    races.settle_all([structs.replace(one, id=one.key, state="submitted") for one in (at_daic, at_olivia)])
    own = structs.replace(entry("c", race), part_of="", name="next")
    with pytest.raises(RequestError, match="n waits at several sites"):
        find(own, [parse("n")])
    races.choose(race, "a")
    assert [str(one.job.id) for one in find(own, [parse("n")])] == ["a"]
    races.take_back(races.current(race))
    races.choose(race, "b")
    with pytest.raises(RequestError, match="is at olivia, and a job at daic cannot wait for it"):
        find(own, [parse("n")])


@pytest.fixture(scope="module")
def far() -> Iterator[Sites]:
    """Two sites that are reached over SSH."""
    with twin("generic", ssh=True) as generic, twin("olivia", nodes=1, ssh=True) as olivia:
        yield {"generic": generic, "olivia": olivia}


@pytest.fixture
def far_project(far: Sites, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("SITES", "WAY"):  # `configure` sets them
        monkeypatch.setattr(first_faults, name, getattr(first_faults, name))
    with user_of(far) as project:
        yield project


def logins(sites: Sites) -> list[int]:
    return [(one.twin.folder / "sshd.log").read_text().count("Accepted") for one in sites.values()]


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_over_ssh_each_site_gets_one_login(client: str, far_project: Path, far: Sites, slurmgen: Run) -> None:
    configure(far_project, far)
    write_config(far_project, {site: one.twin for site, one in far.items()}, {})
    before = logins(far)
    reply = slurmgen(*words("far"), "--ssh-client", client, cwd=far_project, env=dict(os.environ))
    assert reply.returncode == 0, reply.stderr
    assert [after - one for one, after in zip(before, logins(far), strict=True)] == [1, 1]
    assert eventually(lambda: runs_of(far_project, "far")) == [reply.stdout.strip()]


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_over_ssh_a_stalled_transfer_delays_no_job_that_runs(
    client: str, far_project: Path, far: Sites
) -> None:
    with stalled(far_project, far, "olivia", 200_000):
        first_faults.WAY += f" --ssh-client {client}"
        (far_project / "data").write_bytes(os.urandom(1_000_000))
        assert finished(started(far_project, "stalled")) == 0
        (entry,) = Races().entries(race_of("stalled"))
        assert (entry.site, jobs_of(far["olivia"], "stalled")) == ("generic", [])
        assert eventually(lambda: runs_of(far_project, "stalled")) == [entry.id]
        assert "nothing was submitted at olivia" in (far_project.parent / "stalled.log").read_text()
