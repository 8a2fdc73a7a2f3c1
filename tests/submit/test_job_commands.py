"""submit, status, logs and cancel as the user types them, over SSH and locally, with a real Slurm."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.commands import JobId
from slurmgen.status.job import Job
from slurmgen.status.logs import Shown, follow
from slurmgen.status.report import Report
from slurmgen.status.wait import wait
from tests.conftest import Run
from tests.support.sshd import Server, closed_port
from tests.support.twins import Testbed, eventually

Reply = subprocess.CompletedProcess[str]
Call = Callable[..., Reply]

TRAIN = 'import sys, time\nprint("first", sys.argv[1:], flush=True)\ntime.sleep(1)\nprint("last")\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "killed.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    (folder / "import.py").write_text("import nosuch\n")
    (folder / "fail.py").write_text("raise SystemExit(3)\n")
    (folder / "sleep.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(300)\n")
    (folder / ".gitignore").write_text("secret\n")
    (folder / "secret").write_text("x")
    return folder


@pytest.fixture(params=["ssh", "twin"])
def call(
    request: pytest.FixtureRequest,
    slurmgen: Run,
    project: Path,
    testbed: Testbed,
    login_node: Server,
    tmp_path: Path,
) -> Call:
    """Run slurmgen in the project; a `submit` or any command with --site goes each way in turn."""
    kind = request.param
    where = {
        "ssh": ["--host", "far", "--ssh-config", login_node.config(tmp_path)],
        "twin": ["--via", "twin"],
    }[kind]
    more = {"HOME": str(login_node.home), "XDG_STATE_HOME": str(tmp_path / "state")}
    if kind == "twin":
        more["XDG_STATE_HOME"] = testbed.environ["XDG_STATE_HOME"]

    def run(command: str, *args: str, new: bool = True) -> Reply:
        way = ["--site", "generic", *where] if new else []
        job = ["--framework", "python", "--time", "00:05:00"] if command == "submit" else []
        return slurmgen(command, *way, *job, *args, cwd=project, env={**os.environ, **more})

    return run


def submitted(call: Call, script: str, *args: str) -> str:
    reply = call("submit", "--script", script, *args)
    assert reply.returncode == 0, reply.stderr
    assert re.fullmatch(r"\d+\n", reply.stdout)
    return reply.stdout.strip()


def test_a_job_from_submission_to_its_end(call: Call) -> None:
    job = submitted(call, "train.py", "--", "a b")
    followed = call("logs", "-f", job, new=False)
    assert followed.stdout == "first ['a b']\nlast\n"
    assert followed.returncode == 0
    assert f"job {job} (train) is COMPLETED" in followed.stderr
    assert call("logs", job, new=False).stdout == followed.stdout
    assert f"job {job} (train) is COMPLETED" in call("status", job, new=False).stdout
    assert job in call("status", new=False).stdout


@pytest.mark.parametrize("call", ["ssh"], indirect=True)
def test_several_jobs_of_a_site_take_one_login(call: Call, login_node: Server, testbed: Testbed) -> None:
    jobs = [submitted(call, "train.py"), submitted(call, "train.py")]
    for job in jobs:
        assert testbed.wait(job) == "COMPLETED"

    def logins() -> int:
        return (login_node.folder / "sshd.log").read_text().count("Accepted publickey")

    for command, *options in (["logs"], ["logs", "--json"], ["fetch"], ["status"], ["cancel"]):
        before = logins()
        reply = call(command, *jobs, *options, new=False)
        assert reply.returncode == 0, reply.stderr
        assert logins() == before + 1, command


def test_follow_exits_with_0_only_if_the_job_completed(call: Call) -> None:
    good, bad = (
        call("submit", "--script", "train.py", "--follow"),
        call("submit", "--script", "fail.py", "--follow"),
    )
    assert (good.returncode, bad.returncode) == (0, 1)
    assert re.fullmatch(r"\d+\n", good.stdout)
    assert "first []\nlast\n" in good.stderr
    assert "is FAILED" in bad.stderr


def test_wait_exits_with_the_exit_code_of_the_job_without_accounting(call: Call) -> None:
    killed, bad = submitted(call, "killed.py"), submitted(call, "fail.py")
    assert call("wait", bad, new=False).returncode == 3  # as fail.py ends
    assert call("wait", killed, new=False).returncode == 137
    both = call("wait", killed, bad, "--json", new=False)
    assert both.returncode == 137
    assert [one["state"] for one in json.loads(both.stdout)["jobs"]] == ["FAILED", "FAILED"]


@pytest.mark.parametrize("call", ["ssh"], indirect=True)
def test_an_ended_job_is_reported_without_its_ssh_config(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, config = submitted(call, "fail.py"), tmp_path / "ssh_config"
    assert call("wait", job, new=False).returncode == 3
    config.rename(tmp_path / "moved")
    for missing in (None, "/no/such/config"):
        if missing:
            (tmp_path / "moved").rename(config)
            monkeypatch.setenv("SLURMGEN_SSH_CONFIG", missing)
        waited, shown = call("wait", job, new=False), call("status", job, new=False)
        assert waited.returncode == 3, missing
        assert shown.returncode == 0, missing
        for text in (waited.stdout, shown.stdout):
            assert f"job {job} (fail) is FAILED" in text, missing
        assert "FAILED" in call("status", "--all", new=False).stdout


def test_wait_pauses_less_than_a_second_before_it_reports_an_ended_job(
    cluster: Transport, testbed: Testbed
) -> None:
    job = JobId(testbed.run("sbatch", "--parsable", "--output=quick-%j.log", "--wrap=echo quick").strip())
    assert testbed.wait(job.number) == "COMPLETED"
    pauses: list[float] = []
    reports: list[Report] = []
    jobs = [Job(job, Route(site="generic", via="local"))]

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    assert wait(jobs, lambda _route: cluster, lambda _text: None, reports.append, sleep=sleep) == []
    assert sum(pauses) < 1
    assert [report.state for report in reports] == ["COMPLETED"]


def test_following_the_log_of_an_ended_job_shows_all_of_it(cluster: Transport, testbed: Testbed) -> None:
    job = JobId(testbed.run("sbatch", "--parsable", "--output=quick-%j.log", "--wrap=echo quick").strip())
    assert testbed.wait(job.number) == "COMPLETED"
    parts: list[bytes] = []
    states = follow(cluster, job, f"{testbed.folder}/quick-{job}.log", Shown(parts.append))
    assert ([one.state for one in states], parts) == (["COMPLETED"], [b"quick\n"])


def test_the_reason_of_a_failure_outlives_the_run_folder(call: Call, testbed: Testbed) -> None:
    job = submitted(call, "import.py")
    assert testbed.wait(job) == "FAILED"
    assert "Python has no module nosuch" in call("status", new=False).stdout
    assert call("snapshots", "--prune", "--older-than", "0").returncode == 0
    for ids in ([], [job]):
        shown = call("status", *ids, new=False).stdout
        assert "Python has no module nosuch" in shown
        assert not ids or "its script ended" not in shown
    for options in ([], ["-f"]):
        log = call("logs", job, *options, new=False)
        assert (log.returncode, log.stdout) == (1, "")
        assert f"job {job} was pruned" in log.stderr
    reply = call("logs", job, "--json", new=False)
    assert (reply.returncode, json.loads(reply.stdout)["size"]) == (1, None)
    assert f"job {job} was pruned" in reply.stderr


def test_the_failure_of_a_pruned_job_says_that_its_log_is_gone(call: Call, testbed: Testbed) -> None:
    job = submitted(call, "import.py")
    assert testbed.wait(job) == "FAILED"
    assert call("snapshots", "--prune", "--older-than", "0").returncode == 0
    shown = call("status", job, new=False).stdout
    assert "its script ended with exit code 1" in shown
    assert "the folder of this log does not exist any more; it was pruned or moved" in shown


def test_cancel_ends_a_job(call: Call) -> None:
    job = submitted(call, "sleep.py")
    # A job that is still starting would take Slurm's KillWait to end.
    eventually(lambda: "up" in call("logs", job, new=False).stdout)
    assert call("cancel", job, new=False).returncode == 0
    assert call("logs", "-f", job, new=False).returncode == 1
    assert "is CANCELLED" in call("status", job, new=False).stdout
    assert "is CANCELLED" in call("cancel", job, new=False).stdout


def test_the_last_known_state_of_a_job_is_shown_when_its_site_is_not_reached(
    project: Path, login_node: Server, testbed: Testbed, tmp_path: Path, slurmgen: Run
) -> None:
    config = tmp_path / "ssh_config"
    route = ["--site", "generic", "--host", "far", "--ssh-config", login_node.config(tmp_path)]
    script = ["--framework", "python", "--time", "5", "--script", "sleep.py"]
    job = slurmgen("submit", *route, *script, cwd=project).stdout.strip()
    eventually(lambda: "RUNNING" in slurmgen("status", job).stdout)
    config.write_text(config.read_text().replace(f"Port {login_node.port}", f"Port {closed_port()}"))
    one, some, all_ = (slurmgen("status", *args) for args in ([job], [], ["--all"]))
    assert [reply.returncode for reply in (one, some, all_)] == [3, 3, 3]
    for text in (one.stdout, some.stdout, all_.stdout):
        assert re.search(r"^  last known: RUNNING \d+ (s|min) ago$", text, re.MULTILINE)
        assert "UNKNOWN" in text
    assert "error: cannot connect to " in one.stderr
    single, listed = (json.loads(slurmgen("status", *args, "--json").stdout) for args in ([job], []))
    assert single["last_known"] == listed["jobs"][0]["last_known"]
    assert (single["state"], single["last_known"]["state"]) == ("UNKNOWN", "RUNNING")
    testbed.run("scancel", job)


def test_test_only_submits_no_job_and_adds_no_record(call: Call) -> None:
    good = call("submit", "--script", "train.py", "--test-only")
    assert (good.returncode, good.stdout) == (0, "")
    assert "generic would accept the job: it would start at" in good.stderr
    bad = call("submit", "--script", "train.py", "--test-only", "--partition", "nope")
    assert (bad.returncode, bad.stdout) == (3, "")
    assert "error: sbatch: invalid partition specified: nope." in bad.stderr


def test_a_job_that_slurm_does_not_know_is_gone(call: Call) -> None:
    for command in ("status", "cancel"):
        reply = call(command, "999999")
        assert "job 999999 is gone from the records of generic" in reply.stdout
        assert "RUNNING" not in reply.stdout


def test_logs_shows_a_job_that_was_submitted_with_sbatch(call: Call, testbed: Testbed) -> None:
    job = testbed.run("sbatch", "--parsable", "--output=by hand-%j.log", "--wrap=echo by hand").strip()
    testbed.wait(job)
    assert call("logs", job).stdout == "by hand\n"


def test_ignored_files_are_not_sent_but_the_bundled_script_is(call: Call, login_node: Server) -> None:
    reply = call("submit", "--script", "training/train_ddp.py")
    assert reply.returncode == 0, reply.stderr
    folder = Path(re.search(r"is (/.*)", reply.stderr)[1])  # type: ignore[index]
    call("cancel", reply.stdout.strip(), new=False)
    assert folder.is_relative_to(login_node.home / "slurmgen/my_project")
    assert (folder / "train.py").exists()
    assert not (folder / "secret").exists()
    assert (folder / "training").is_dir()


def test_a_dry_run_connects_to_no_host(
    slurmgen: Run, project: Path, tmp_path: Path, login_node: Server
) -> None:
    closed = Server(login_node.folder, closed_port()).config(tmp_path)
    way = ["--site", "generic", "--host", "far", "--ssh-config", closed]
    job = ["--framework", "python", "--script", "train.py"]
    reply = slurmgen("submit", *way, *job, "--dry-run", cwd=project)
    assert reply.returncode == 0
    assert reply.stdout.startswith("#!/bin/bash\n# train on generic")
    assert "  train.py\n" in reply.stderr
    assert "secret" not in reply.stderr
    assert slurmgen("status", cwd=project).stdout == ""
    refused = slurmgen("submit", *way, *job, cwd=project)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "Traceback" not in refused.stderr


def test_submitting_on_a_login_node_needs_no_ssh(
    slurmgen: Run, project: Path, testbed: Testbed, tmp_path: Path
) -> None:
    env = {**os.environ, **testbed.twin.environ(), "HOME": str(tmp_path)}
    job = ["--site", "generic", "--framework", "python", "--script", "train.py", "--time", "00:05:00"]
    reply = slurmgen("submit", *job, "--remote-dir", "it's $(here)", "--follow", cwd=project, env=env)
    assert reply.returncode == 0, reply.stderr
    assert list((tmp_path / "it's $(here)/my_project").glob(f"runs/*/train-{reply.stdout.strip()}.out"))


def test_a_host_with_an_unknown_key_gets_no_data(
    slurmgen: Run, project: Path, tmp_path: Path, login_node: Server
) -> None:
    config = login_node.config(tmp_path, known="")
    job = ["--site", "generic", "--framework", "python", "--script", "train.py"]
    reply = slurmgen("submit", *job, "--host", "far", "--ssh-config", config, cwd=project)
    assert (reply.returncode, reply.stdout) == (3, "")
    assert "SHA256:" in reply.stderr


def test_a_home_folder_is_not_sent(slurmgen: Run, project: Path) -> None:
    env = {**os.environ, "HOME": str(project / "home")}
    reply = slurmgen("submit", "--script", "train.py", "--dry-run", cwd=project, env=env)
    assert reply.returncode == 2
    assert "which contains your home folder" in reply.stderr


def test_personal_toml_overrides_the_recorded_client_and_ssh_config(
    slurmgen: Run, tmp_path: Path, login_node: Server, config_dir: Path
) -> None:
    from slurmgen.ledger.ledger import Ledger, Record

    job, gone = "999999", str(tmp_path / "gone")
    route = {"site": "generic", "via": "ssh", "host": "far", "ssh_config": gone}
    Ledger().add(Record(id=job, name="n", folder="/f", output="o", submitted="t", **route))  # type: ignore[arg-type]
    assert gone in slurmgen("status", job).stderr
    # Only OpenSSH's client accepts the option.
    config = login_node.config(tmp_path, more="KnownHostsCommand /bin/true")
    (config_dir / "personal.toml").write_text(f'[generic]\nssh_client = "openssh"\nssh_config = "{config}"\n')
    assert "gone from the records" in slurmgen("status", job).stdout
    assert "KnownHostsCommand" in slurmgen("status", job, "--ssh-client", "paramiko").stderr


def test_a_variable_may_name_the_ssh_config(
    slurmgen: Run, project: Path, tmp_path: Path, login_node: Server
) -> None:
    env = {**os.environ, "SLURMGEN_SSH_CONFIG": login_node.config(tmp_path)}
    reply = slurmgen("status", "999999", "--site", "generic", "--host", "far", cwd=project, env=env)
    assert "gone from the records" in reply.stdout


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["submit", "--script", "none.py", "--dry-run"], 2, "the script 'none.py' is not among the files"),
        (["submit", "--script", "secret", "--dry-run"], 2, "the script 'secret' is not among the files"),
        (
            ["submit", "--script", "train.py", "--python-env", "uv:x", "--dry-run"],
            2,
            "'x/pyproject.toml', which the Python",
        ),
        (["submit", "--script", "train.py", "--via", "ssh"], 2, "site generic has no login host"),
        (["submit", "--script", "train.py", "--dry-run", "--follow"], 2, "exclude each other"),
        (["submit", "--script", "train.py", "--host", "a b"], 2, "'a b' is not a host name"),
        (["submit", "--script", "train.py", "--remote-dir", "a%b"], 2, "the remote folder 'a%b'"),
        (["submit", "--script", "train.py", "--via", "twin"], 3, "twin"),
        (["submit", "--script", "train.py", "--remote-dir", "{project}/x"], 2, "inside the project itself"),
        (["status", "12"], 2, "job 12 is not in your records"),
        (["logs", "x"], 2, "no job called 'x' was submitted from this machine"),
        (["cancel", "12; rm"], 2, "no job called '12; rm' was submitted from this machine"),
    ],
)
def test_an_invalid_request_is_reported_in_one_line(
    slurmgen: Run, project: Path, args: list[str], code: int, message: str
) -> None:
    reply = slurmgen(*(arg.format(project=project) for arg in args), cwd=project)
    assert (reply.returncode, reply.stdout) == (code, "")
    assert message in reply.stderr
    assert "Traceback" not in reply.stderr


def test_an_id_at_two_sites_needs_a_site(slurmgen: Run, project: Path) -> None:
    from slurmgen.ledger.ledger import Ledger, Record

    for site in ("daic", "generic"):
        Ledger().add(Record(id="7", site=site, via="local", name="n", folder="/f", output="o", submitted="t"))
    reply = slurmgen("status", "7", cwd=project)
    assert reply.returncode == 2
    assert "job 7 is at several sites: daic, generic. Choose one with --site." in reply.stderr


def test_a_query_over_ssh_imports_only_what_it_needs(server: Server, tmp_path: Path) -> None:
    """Many commands at once take the time of their imports; sending a project and `invoke` are not needed."""
    argv = [sys.executable, "-X", "importtime", "-m", "slurmgen", "status", "12", "--site", "generic"]
    where = ["--host", "far", "--ssh-config", server.config(tmp_path)]
    times = subprocess.run([*argv, *where], capture_output=True, text=True, timeout=300, check=False).stderr
    names = {line.rpartition("|")[2].strip() for line in times.splitlines()}
    assert "paramiko.transport" in names
    assert not {"invoke.tasks", "jinja2"} & names


def test_importing_the_commands_does_not_import_paramiko(project: Path) -> None:
    code = "import sys, slurmgen.cli.submit, slurmgen.cli.status, slurmgen.cli.logs, slurmgen.cli.cancel\n"
    code += "sys.exit(int('paramiko' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=project, check=False).returncode == 0
