"""`slurmgen doctor`: every check, passed and failed, with a real sshd and a real Slurm."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurmgen.doctor import CHECKS
from tests.conftest import Run
from tests.remote.ssh.test_jump_hosts import Chain, chain, gates
from tests.scenarios.test_hostile_replies import EVIL, Machine, machine
from tests.support.sshd import Server, closed_port, keygen
from tests.support.twins import Testbed

__all__ = ["chain", "gates", "machine"]

JOB = ["--framework", "python", "--script", "train.py", "--time", "00:05:00"]
VERSION = "[ $1 != --version ] || exec echo slurm 24.11.5"
Examine = Callable[..., tuple[int, dict[str, dict[str, Any]]]]


@pytest.fixture
def examine(slurmgen: Run, tmp_path: Path) -> Examine:
    """The exit code and the steps by name."""
    (tmp_path / "train.py").write_text("")

    def run(*args: str, **more: str) -> tuple[int, dict[str, dict[str, Any]]]:
        reply = slurmgen("doctor", *JOB, "--json", *args, cwd=tmp_path, env={**os.environ, **more})
        assert reply.stderr == ""
        report = json.loads(reply.stdout)
        assert report["ok"] == (reply.returncode == 0)
        assert [step["step"] for step in report["steps"]] == [check.name for check in CHECKS]
        assert all(step["hint"] for step in report["steps"] if step["state"] == "failed")
        return reply.returncode, {step["step"]: step for step in report["steps"]}

    return run


def states(steps: dict[str, dict[str, Any]], state: str) -> list[str]:
    return [name for name, step in steps.items() if step["state"] == state]


def over_ssh(config: str, *more: str) -> list[str]:
    return ["--site", "generic", "--host", "far", "--ssh-config", config, *more]


def queued(testbed: Testbed) -> set[str]:
    return set(testbed.run("squeue", "--noheader", "--states=all", "--format=%i").split())


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_all_checks_pass_with_one_login_and_no_job(
    examine: Examine, login_node: Server, testbed: Testbed, tmp_path: Path, client: str
) -> None:
    log = login_node.folder / "sshd.log"
    before, jobs = log.read_text().count("Accepted "), queued(testbed)
    code, steps = examine(*over_ssh(login_node.config(tmp_path), "--ssh-client", client))
    assert (code, states(steps, "failed")) == (0, [])
    assert states(steps, "not checked") == ["container image", "modules", "python"]
    assert log.read_text().count("Accepted ") == before + 1
    assert queued(testbed) <= jobs
    assert list(login_node.home.glob("**/.slurmgen-doctor*")) == []
    assert steps["login"]["said"] == {"paramiko": str(login_node.key), "openssh": "publickey"}[client]
    assert steps["Slurm"]["said"].startswith("Slurm 2")
    assert steps["controller"]["said"].startswith("slurmctld responds on ")
    assert " is up, " in steps["partition"]["said"]
    assert steps["job"]["said"].startswith("it would start at ")
    assert steps["remote folder"]["said"].startswith("slurmgen is writable; ")


def test_a_twin_can_be_checked(examine: Examine, testbed: Testbed) -> None:
    more = {"XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}
    code, steps = examine("--site", "generic", "--via", "twin", **more)
    assert (code, states(steps, "failed")) == (0, [])
    assert steps["host key"]["said"] == "it is this machine"
    assert steps["job"]["said"].startswith("it would start at ")


def test_a_missing_twin_fails_with_the_command_that_starts_one(examine: Examine) -> None:
    code, steps = examine("--site", "generic", "--via", "twin")
    assert (code, states(steps, "failed")) == (3, ["login"])
    assert "slurmgen twin up" in steps["login"]["hint"]


def test_the_text_has_a_line_for_each_step_and_hints_below_failures(
    slurmgen: Run, server: Server, tmp_path: Path
) -> None:
    closed = Server(server.folder, closed_port()).config(tmp_path)
    reply = slurmgen("doctor", *over_ssh(closed))
    assert (reply.returncode, reply.stderr) == (3, "")
    lines = reply.stdout.splitlines()
    assert lines[0].startswith("ok           request          train_ddp on generic: ddp, 1 GPU on 1 node")
    at = next(number for number, line in enumerate(lines) if line.startswith("failed       port  "))
    assert "no connection to port" in lines[at]
    assert lines[at + 1].split()[:3] == ["Check", "that", "the"]
    assert "VPN" in lines[at + 1]
    assert "not checked  login            needs host key" in lines
    assert "\x1b" not in reply.stdout


def test_a_wrong_request_does_not_stop_the_checks_of_the_connection(
    examine: Examine, login_node: Server, tmp_path: Path
) -> None:
    code, steps = examine(*over_ssh(login_node.config(tmp_path)), "--gpus", "-1")
    assert (code, states(steps, "failed")) == (2, ["request"])
    assert steps["controller"]["state"] == "ok"
    assert steps["job"] == {"step": "job", "state": "not checked", "said": "needs request", "hint": None}


def test_an_unknown_site_is_an_error_without_steps(slurmgen: Run) -> None:
    reply = slurmgen("doctor", "--site", "dapc")
    assert (reply.returncode, reply.stdout) == (2, "")
    assert reply.stderr.startswith("error: there is no site 'dapc'")


BROKEN: dict[str, Callable[[Server, Path], str]] = {
    "ssh_config": lambda server, folder: server.config(folder, more="Port many"),
    "host name": lambda server, folder: server.config(folder),
    "port": lambda server, folder: Server(server.folder, closed_port()).config(folder),
    "host key": lambda server, folder: server.config(folder, known=""),
    "login": lambda server, folder: server.config(folder, key=keygen(folder / "wrong")),
}


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
@pytest.mark.parametrize("step", BROKEN)
def test_only_the_broken_step_of_the_connection_fails(
    examine: Examine, server: Server, tmp_path: Path, step: str, client: str
) -> None:
    config = Path(BROKEN[step](server, tmp_path))
    if step == "host name":
        config.write_text(config.read_text().replace("HostName 127.0.0.1", "HostName no.such.host.invalid"))
    code, steps = examine(*over_ssh(str(config), "--ssh-client", client))
    assert (code, states(steps, "failed")) == (2 if step == "ssh_config" else 3, [step])
    names = [check.name for check in CHECKS]
    assert states(steps, "ok") == names[: names.index(step)]


def test_jump_hosts_are_named(examine: Examine, server: Server, login_node: Server, tmp_path: Path) -> None:
    config = login_node.config(tmp_path, more="ProxyJump gate")
    with Path(config).open("a") as file:
        file.write(server.block("gate", tmp_path / "known_gate"))
    (tmp_path / "known_gate").write_text(server.known_line)
    code, steps = examine(*over_ssh(config))
    assert code == 0
    assert steps["ssh_config"]["said"].startswith("gate is ")
    assert ", then far is " in steps["ssh_config"]["said"]
    assert steps["host name"]["said"].endswith("; far behind it")
    assert steps["port"]["said"].endswith(f" is open, from there port {login_node.port} of 127.0.0.1")
    assert steps["login"]["said"] == f"{server.key}, then {login_node.key}"
    (tmp_path / "known_gate").write_text("")
    _, steps = examine(*over_ssh(config))
    assert "the host key of gate" in steps["host key"]["said"]


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
@pytest.mark.parametrize(("name", "before"), [("inner", "outer"), ("far", "inner")])
def test_an_unreachable_jump_host_is_named_with_the_host_before_it(
    examine: Examine, chain: Chain, name: str, before: str, client: str
) -> None:
    chain.hosts[name] = Server(chain.hosts[name].folder, closed_port())
    code, steps = examine(*over_ssh(chain.config(), "--ssh-client", client))
    assert (code, states(steps, "failed")) == (3, ["port"])
    assert steps["port"]["said"].startswith(f"{before} cannot connect to {name} at 127.0.0.1 port ")
    assert steps["login"]["state"] == "not checked"


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_a_jump_host_that_refuses_the_login_is_named(examine: Examine, chain: Chain, client: str) -> None:
    chain.keys["inner"] = keygen(chain.folder / "wrong")
    code, steps = examine(*over_ssh(chain.config(), "--ssh-client", client))
    assert (code, states(steps, "failed")) == (3, ["login"])
    assert steps["port"]["said"].endswith(" is open; inner and far behind it")
    assert steps["host key"]["said"] == "matches known_hosts on the hosts that were reached"
    fact = {"paramiko": "inner refused the login of ", "openssh": "; login with keys works up to inner"}
    assert fact[client] in steps["login"]["said"]


@pytest.mark.parametrize("left_out", ["missing.py", "train.py"])
def test_a_script_that_would_not_be_sent_fails_with_the_error_of_submit(
    examine: Examine, slurmgen: Run, testbed: Testbed, tmp_path: Path, left_out: str
) -> None:
    (tmp_path / ".gitignore").write_text("train.py\n")
    env = {"XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}
    args = ["--site", "generic", "--via", "twin", "--script", left_out]
    code, steps = examine(*args, **env)
    assert (code, states(steps, "failed")) == (2, ["project"])
    assert steps["controller"]["state"] == "ok"
    submit = slurmgen("submit", *JOB, *args, "--dry-run", env=os.environ | env)
    assert submit.stderr == f"error: {steps['project']['said']}. {steps['project']['hint']}\n"


def test_the_size_of_the_project_is_the_one_that_submit_reports(
    examine: Examine, slurmgen: Run, testbed: Testbed, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(bytes(2_500_000))
    env = {"XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}
    args = ["--site", "generic", "--via", "twin"]
    fact = examine(*args, **env)[1]["project"]["said"]
    assert fact == "3 files (2.4M) would be sent, including train.py"
    submit = slurmgen("submit", *JOB, *args, "--dry-run", env=os.environ | env)
    assert "would send 3 files (2.4M) to " in submit.stderr
    code, steps = examine(*args, "--max-size", "1M", **env)
    assert (code, states(steps, "failed")) == (2, ["project"])
    fact = examine(*args, "--script", "/there/train.py", **env)[1]["project"]["said"]
    assert fact == "3 files (2.4M) would be sent, but not /there/train.py"


def test_name_and_port_are_not_checked_behind_a_proxy_command(
    examine: Examine, login_node: Server, tmp_path: Path
) -> None:
    config = login_node.config(tmp_path)
    behind = f"ProxyCommand ssh -F {config} -W %h:%p far"
    text = Path(config).read_text().replace("Host far", "Host behind") + f"\n{behind}\n"
    Path(config).write_text(f"{Path(config).read_text()}\n{text}")
    _, steps = examine("--site", "generic", "--host", "behind", "--ssh-config", config)
    assert steps["port"]["said"] == "behind is reached by a ProxyCommand"
    assert steps["login"]["state"] == "ok"


def test_a_missing_partition_fails_with_a_list_of_the_others(
    examine: Examine, login_node: Server, tmp_path: Path
) -> None:
    code, steps = examine(*over_ssh(login_node.config(tmp_path)), "--partition", "nope")
    assert (code, states(steps, "failed")) == (3, ["partition", "job"])
    assert steps["partition"]["said"] == "Slurm has no partition nope"
    assert steps["partition"]["hint"].startswith("Known: ")
    assert steps["job"]["said"] == "sbatch: invalid partition specified: nope"


def test_a_missing_image_fails_and_its_name_is_not_executed(
    examine: Examine, login_node: Server, tmp_path: Path
) -> None:
    image = login_node.home / "it's $(touch pwned).sif"
    args = [*over_ssh(login_node.config(tmp_path)), "--container", str(image)]
    code, steps = examine(*args)
    assert (code, states(steps, "failed")) == (3, ["container image"])
    assert str(image) in steps["container image"]["said"]
    image.write_text("")
    assert examine(*args)[1]["container image"]["state"] == "ok"
    assert not (login_node.home / "pwned").exists()


class Local:
    """This machine with fake Slurm commands that all work until a test breaks one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        machine.answers(
            "sbatch",
            f"{VERSION}\necho 'sbatch: Job 1 to start at t using 1 processors on nodes n' >&2",
        )
        machine.answers("scontrol", "echo 'Slurmctld(primary) at head is UP'")
        machine.answers("sinfo", "echo 'gpu*|up|1/2/3/6'; echo 'big|drain|1/2/3/6'")

    def examine(self, *args: str) -> tuple[int, dict[str, dict[str, Any]], str]:
        route = ["--site", "generic", "--via", "local"]
        code, out, err = self.machine.slurmgen("doctor", *route, *JOB, "--json", *args)
        assert err == ""
        return code, {step["step"]: step for step in json.loads(out)["steps"]}, out


@pytest.fixture
def local(machine: Machine) -> Local:
    return Local(machine)


def test_all_checks_pass_with_the_fake_commands(local: Local) -> None:
    code, steps, _ = local.examine()
    assert (code, states(steps, "failed")) == (0, [])
    assert steps["Slurm"]["said"] == "Slurm 24.11.5"
    assert steps["partition"]["said"] == "gpu is up, 2 of 6 nodes are idle"


@pytest.mark.parametrize(
    ("command", "script", "failed", "fact"),
    [
        ("sbatch", "exit 127", "Slurm", "there is no sbatch on this machine"),
        ("sbatch", f"{VERSION}\necho 'error: Invalid account' >&2; exit 1", "job", "Invalid account"),
        ("scontrol", "echo 'Slurmctld(primary) at head is DOWN'; exit 1", "controller", "does not respond"),
        ("sinfo", "echo 'slurm_load_partitions: timed out' >&2; exit 1", "partition", "timed out"),
        ("sinfo", "echo 'gpu*|drain|1/2/3/6'", "partition", "partition gpu is drain"),
        ("date", "echo 1000000000", "clock", "s ahead of that of this machine"),
        ("date", "echo 9000000000", "clock", "s behind that of this machine"),
        ("df", "echo fs 100 90 10 90% /", "remote folder", "only 10K are free"),
        ("head", "echo 'No space left on device' >&2; exit 1", "remote folder", "No space left on device"),
        ("mktemp", "echo 'Read-only file system' >&2; exit 1", "remote folder", "Read-only file system"),
    ],
)
def test_only_the_broken_step_of_the_remote_host_fails(
    local: Local, command: str, script: str, failed: str, fact: str
) -> None:
    local.machine.answers(command, script)
    code, steps, _ = local.examine()
    assert (code, states(steps, "failed")) == (3, [failed])
    assert fact in steps[failed]["said"]
    assert failed != "job" or "--account" in steps["job"]["hint"]


def test_a_file_at_the_path_of_the_remote_folder_fails(local: Local) -> None:
    (local.machine.home / "file").write_text("")
    code, steps, _ = local.examine("--remote-dir", "~/file")
    assert (code, states(steps, "failed")) == (3, ["remote folder"])
    assert "is not a folder" in steps["remote folder"]["said"]


def test_modules_and_python_are_checked(local: Local) -> None:
    local.machine.answers("module", "[ $2 = good ] || { echo 'ERROR: no such module' >&2; exit 1; }")
    code, steps, _ = local.examine("--module", "good", "--python-env", "conda:none-such")
    assert (code, states(steps, "failed")) == (3, ["python"])
    assert steps["python"]["said"] == "this machine has no conda"
    local.machine.answers("conda", "")
    code, steps, _ = local.examine("--module", "bad", "--python-env", "conda:none-such")
    assert "`module load bad` fails on this machine: ERROR: no such module" in steps["modules"]["said"]


def test_a_packed_environment_is_checked(local: Local) -> None:
    words = ("--container", "/x.sif", "--python-env", "squashfs:~/e.sqsh:/env")
    assert local.examine(*words)[1]["python"]["said"] == "this machine has no ~/e.sqsh"
    (local.machine.home / "e.sqsh").touch()
    assert local.examine(*words)[1]["python"]["said"] == "~/e.sqsh exists"


def test_the_program_of_the_container_engine_is_checked(local: Local, tmp_path: Path) -> None:
    image = tmp_path / "a b.sif"
    image.write_text("")
    _, steps, _ = local.examine("--container", str(image))
    assert steps["container image"]["state"] == "ok"
    assert steps["container engine"]["state"] == "warning"
    assert "has no apptainer" in steps["container engine"]["said"]
    local.machine.answers("apptainer", "exit 9")
    assert local.examine("--container", str(image))[1]["container engine"]["said"] == "apptainer exists"


def test_the_options_of_a_container_plugin_are_looked_for_in_the_help_of_srun(local: Local) -> None:
    words = ("--container-engine", "pyxis", "--container", "/x.sqsh")
    local.machine.answers("srun", "echo '      --nodes=N'")
    assert local.examine(*words)[1]["container engine"]["state"] == "warning"
    local.machine.answers("srun", "echo '      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH'")
    assert local.examine(*words)[1]["container engine"]["said"] == "srun --container-image exists"


@pytest.mark.parametrize(
    ("engine", "image", "state", "said"),
    [
        ("apptainer", "docker://a/b:1", "not checked", "is pulled when the job starts"),
        ("podman", "a/b:1", "not checked", "is pulled when the job starts"),
        ("podman", "localhost/b:1", "not checked", "is in the store of each node"),
        ("podman-hpc", "a/b:1", "not checked", "is pulled when the job starts"),
        ("podman-hpc", "localhost/b:1", "failed", "has no container image localhost/b:1"),
        ("podman-hpc", "localhost/known:1", "ok", "podman-hpc has localhost/known:1"),
        ("edf", "pytorch", "failed", "has no container image pytorch"),
        ("edf", "known", "ok", "edf has known"),
        ("edf", "x.toml", "not checked", "is a file of the project"),
        ("pyxis", "/no/such.sqsh", "failed", "has no container image /no/such.sqsh"),
    ],
)
def test_an_image_is_checked_as_its_engine_finds_it(
    local: Local, tmp_path: Path, engine: str, image: str, state: str, said: str
) -> None:
    local.machine.answers("podman-hpc", '[ "$1 $2 $3" = "image exists localhost/known:1" ]')
    (tmp_path / "known.toml").write_text("")
    local.machine.environ["EDF_PATH"] = f"/nowhere:{tmp_path}"
    step = local.examine("--container-engine", engine, "--container", image)[1]["container image"]
    assert step["state"] == state
    assert said in step["said"]


def test_the_output_of_the_remote_host_cannot_control_the_terminal(local: Local) -> None:
    local.machine.answers("sinfo", 'cat "$0.txt" >&2; exit 1')
    (local.machine.bin / "sinfo.txt").write_text(f"sinfo: error: {EVIL}\n")
    _, _, out = local.examine()
    assert out.isascii()
    assert "\x1b" not in out
    route = ["--site", "generic", "--via", "local"]
    _, out, _ = local.machine.slurmgen("doctor", *route, *JOB)
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_help_explains_the_exit_codes(slurmgen: Run) -> None:
    assert "Exits with 0 if all checks pass, 2 if" in " ".join(slurmgen("doctor", "--help").stdout.split())


def test_doctor_does_not_import_paramiko_before_it_needs_it(local: Local) -> None:
    code = "import sys, slurmgen.cli.doctor, slurmgen.doctor\nsys.exit(int('paramiko' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_commands_of_a_projects_profile_are_not_run(local: Local) -> None:
    """They come from a clone: only a job runs them, after the user has read them."""
    project, pwned = local.machine.project, local.machine.home / "pwned"
    (project / "slurmgen.toml").write_text("")
    (project / "site_profiles").mkdir()
    profile = 'extends = "generic"\nname = "mine"\ntitle = "mine"\n[modules]\n'
    lines = [f"touch {pwned}", f"module load x; touch {pwned}"]
    (project / "site_profiles/mine.toml").write_text(
        f"{profile}init = {json.dumps(lines)}\nload = ['good']\n"
    )
    local.machine.answers("module", '[ "$*" = "load good" ] || { echo "ERROR: no $*" >&2; exit 1; }')
    _, steps, _ = local.examine("--site", "mine")
    assert steps["modules"]["said"] == "`module load good` works on this machine"
    local.machine.answers("module", "echo 'ERROR: no such module' >&2; exit 1")
    code, steps, _ = local.examine("--site", "mine", "--python-env", "conda:x")
    assert (code, states(steps, "failed")) == (0, [])
    for step in ("modules", "python"):
        assert steps[step]["state"] == "not checked"
        assert "doctor does not run the profile's [modules] init" in steps[step]["said"]
    assert not pwned.exists()


@pytest.mark.parametrize(
    "name", ["/evil/module", "./module", "../module", "~/module", "a/../../module", "-x"]
)
def test_a_modulefile_named_by_its_path_is_not_run(local: Local, name: str) -> None:
    local.machine.answers("module", "touch ~/pwned")
    _, steps, _ = local.examine(f"--module={name}")
    assert steps["modules"]["state"] == "not checked"
    assert not (local.machine.home / "pwned").exists()


def test_python_is_not_checked_if_the_login_node_has_no_module_command(local: Local) -> None:
    code, steps, _ = local.examine("--module", "good", "--python-env", "conda:x")
    assert (code, states(steps, "failed")) == (0, [])
    assert steps["python"]["said"].startswith("this machine has no `module` command; compute nodes may")


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_python_from_a_module_does_not_fail_on_a_login_node_without_module(
    examine: Examine, login_node: Server, tmp_path: Path, client: str
) -> None:
    site = over_ssh(login_node.config(tmp_path), "--ssh-client", client)
    code, steps = examine(*site, "--module", "Python", "--python-env", "conda:x")
    assert (code, states(steps, "failed")) == (0, [])
    for step in ("modules", "python"):
        assert (steps[step]["state"], "no `module`" in steps[step]["said"]) == ("not checked", True)
