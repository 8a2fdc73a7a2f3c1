"""`sites discover` on a running Slurm, over a real sshd, with and without the probe job.

nvidia-smi, curl and Lmod are stand-ins: this machine has no GPUs.
"""

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from slurmgen.sites.discover import probe
from slurmgen.sites.discover.profile import discover
from slurmgen.sites.discover.query import COMMANDS, NODES, PARTITIONS, QUERY, answers, records
from slurmgen.sites.profiles import profile_paths
from tests.scenarios.test_hostile_replies import EVIL
from tests.support import command_server
from tests.support.accounting import ACCOUNT, FEW_GPUS, add
from tests.support.golden import golden_requests
from tests.support.hostile import ODD, OVER, hostile
from tests.support.programs import write_programs
from tests.support.sshd import privilege_separation_folder, sshd
from tests.support.twins import Testbed, eventually, twin

REQUESTS = golden_requests()
SITES = [name for name in profile_paths(personal=False) if name != "generic"]
OUTPUT = Path(__file__).parent.parent / "sites" / "slurm_output"
NVIDIA_SMI = f"""#!/bin/sh
case $1 in
  topo) printf '\\tGPU0\\tGPU1\\tNIC0\\nGPU0\\t X \\tNV18\\tPIX\\n{EVIL}\\n' ;;
  *) echo 'NVIDIA H100 80GB HBM3, 81559 MiB, 550.54.15' ;;
esac
"""
PROBE = Path(probe.__file__).with_name("probe.sh")
DIRECT = "#!/bin/sh\nexit 0\n"
THROUGH_PROXY = '#!/bin/sh\ncase " $* " in *" --noproxy "*) exit 7 ;; esac\n'


def discovered(folder: Path, environ: Mapping[str, str], *args: str) -> "subprocess.CompletedProcess[str]":
    """The reply of `slurmgen sites discover`, without a terminal."""
    return command_server.run(("sites", "discover", *args), folder, environ, "")


class Login:
    """A user of the twin, who reaches it over SSH."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.host = testbed.twin.ssh_host
        self.environ = testbed.environ | {"SLURMGEN_SSH_CONFIG": str(testbed.twin.ssh_config)}

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "slurmgen", "sites", "discover", self.host, "--name", "mine", *args]

    def discover(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return discovered(self.testbed.folder, self.environ, self.host, "--name", "mine", *args)

    def diff(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return discovered(self.testbed.folder, self.environ, "--via", "ssh", "--diff", *args)

    def start(self, *args: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.argv(*args),
            cwd=self.testbed.folder,
            env=self.environ,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def probed(self, *args: str) -> str:
        """The profile after a probe that succeeds."""
        reply = self.discover("--probe", "--yes", *args)
        assert reply.returncode == 0, reply.stderr
        return reply.stdout

    def stand_in(self, name: str, text: str) -> None:
        """A program at the end of the PATH of jobs."""
        path = self.testbed.twin.folder / "stand_ins" / name
        path.write_text(text)
        path.chmod(0o755)

    @property
    def jobs(self) -> list[str]:
        """The ids of all jobs so far; squeue sorts them by their states, which change."""
        shown = self.testbed.run("squeue", "--noheader", "--states=all", "--format=%i")
        return sorted(shown.split())

    def drain(self, state: str) -> None:
        nodes = ",".join(self.testbed.twin.nodes)
        self.testbed.run("scontrol", "update", f"nodename={nodes}", f"state={state}", "reason=test")


@pytest.fixture(scope="module")
def login() -> Iterator[Login]:
    with twin("berzelius", ssh=True) as testbed:
        yield Login(testbed)


def query(testbed: Testbed) -> bytes:
    reply = subprocess.run(["sh", "-c", QUERY], env=testbed.environ, capture_output=True, timeout=300)
    return reply.stdout


def test_one_login_and_five_commands_describe_a_cluster(login: Login) -> None:
    log = next(login.testbed.twin.folder.rglob("sshd.log"))
    before = log.read_text(errors="replace").count("Accepted publickey")
    reply = login.discover()
    assert reply.returncode == 0, reply.stderr
    assert log.read_text(errors="replace").count("Accepted publickey") == before + 1
    assert len(COMMANDS) == 5
    found = tomllib.loads(reply.stdout)
    assert found["node"] == {"gpus": 8, "cpus": 128, "memory": "512G"}
    assert found["partitions"]["main"]["default"]
    assert "accounts (`sacctmgr`: Only 'accounting_storage/slurmdbd' is supported.)" in reply.stdout


@pytest.mark.parametrize("what", ["nodes", "partitions"])
def test_the_constructed_output_of_22_05_has_the_keys_of_the_real_one(login: Login, what: str) -> None:
    if not login.testbed.run("sinfo", "--version").startswith("slurm-wlm 22.05"):
        pytest.skip("another version of Slurm is installed")
    command = {"nodes": NODES, "partitions": PARTITIONS}[what]
    real = next(records(login.testbed.run(*command.split())))
    constructed = next(records((OUTPUT / "22.05" / f"{what}.txt").read_text()))
    of_some_only = {"CoreSpecCount", "CPUSpecList", "MemSpecLimit", "TRESBillingWeights"}
    of_power_saving = {"ResumeTimeout", "SuspendTimeout", "SuspendTime"}
    assert set(constructed) - of_some_only - of_power_saving <= set(real) | {"DefMemPerNode"}
    assert set(real) - of_power_saving <= set(constructed) | {"Port", "DefMemPerCPU", "Comment"}


def test_hidden_partitions_and_accounting_are_read_from_a_running_slurm() -> None:
    with twin("generic", accounts=[ACCOUNT]) as testbed:
        add(testbed, "qos", FEW_GPUS, "MaxTRESPerUser=gres/gpu=1")
        conf = testbed.twin.slurm_conf
        conf.write_text(f"{conf.read_text()}\nPartitionName=secret Nodes=ALL Hidden=YES State=UP\n")
        testbed.run("scontrol", "reconfigure")
        add(testbed, "qos", "long", "MaxWall=4-0", "Flags=DenyOnLimit,OverPartQOS", "MaxSubmitJobsPerUser=10")
        testbed.run("sacctmgr", "--immediate", "modify", "account", "ours", "set", "QOS=normal,long,few")
        found = eventually(lambda: _with_partition(query(testbed), "secret"))
    facts = {fact.keys: fact.value for fact in found.facts}
    assert found.failed == ()
    assert "hidden partitions: secret" in found.unknown
    assert facts["qos", "long", "max_time"] == "4-00:00:00"
    assert facts["qos", "long", "max_jobs"] == 10
    assert facts["qos", "long", "replaces_partition_limits"]
    assert facts["qos", "few", "max_gpus"] == 1
    notes = {note.keys: note.value for note in found.notes}
    assert "DenyOnLimit" in notes["qos", "long", "Flags"]


def _with_partition(output: bytes, name: str):  # type: ignore[no-untyped-def]
    found = discover(answers(output))
    return found if name in found.partitions else None


def test_modules_of_the_login_node_become_a_comment(login: Login, tmp_path: Path) -> None:
    write_programs(tmp_path, {"lmod": "printf '/apps:\\nCUDA/12.4\\ngcc/13\\nPython/3.12\\n' >&2"})
    environ = login.testbed.environ | {"LMOD_CMD": str(tmp_path / "lmod")}
    output = subprocess.run(["sh", "-c", QUERY], env=environ, capture_output=True, timeout=60).stdout
    notes = {note.keys: note.value for note in discover(answers(output)).notes}
    assert notes["modules",] == "CUDA/12.4, Python/3.12"


def test_a_probe_adds_what_slurm_cannot_know(login: Login) -> None:
    login.stand_in("nvidia-smi", NVIDIA_SMI)
    before = login.jobs
    text = login.probed()
    assert len(login.jobs) == len(before) + 1
    found = tomllib.loads(text)
    assert found["gpu"]["vendor"] == "nvidia"
    assert found["internet"] in ("yes", "no")
    assert found["sources"]["probe"]["facts"] == ["architecture", "gpu.vendor", "internet"]
    assert "link: GPU0     X      NV18    PIX" in text
    assert "GPU: NVIDIA H100 80GB HBM3, 81559 MiB, 550.54.15" in text
    assert re.search(r"task: 0: visible GPUs 0,1; GPU devices \d+; CPUs ", text)
    assert "task: 1: visible GPUs 0,1" in text
    assert "whether compute nodes reach the internet" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("curl", "proxy", "internet"),
    [(DIRECT, "", "yes"), (THROUGH_PROXY, "http://proxy:3128", "proxy"), (THROUGH_PROXY, "", "no")],
)
def test_the_probe_finds_how_the_internet_is_reached(
    tmp_path: Path, curl: str, proxy: str, internet: str
) -> None:
    (tmp_path / "curl").write_text(curl)
    (tmp_path / "curl").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"} | ({"https_proxy": proxy} if proxy else {})
    reply = subprocess.run(["sh", PROBE, "node"], env=environ, capture_output=True, text=True, timeout=60)
    assert f"probe: internet: {internet}\n" in reply.stdout
    assert reply.stderr == ""


def test_the_probe_script_passes_shellcheck() -> None:
    subprocess.run(["shellcheck", "--shell=sh", PROBE], check=True, timeout=60)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_probe_is_read_by_the_same_command(login: Login, end: signal.Signals) -> None:
    before = login.jobs
    login.drain("drain")
    process = login.start("--probe", "--yes")
    assert process.stderr
    try:
        line = process.stderr.readline()
        assert "is submitted; waiting for its report" in line
        process.send_signal(end)
        shown, message = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
        login.drain("resume")
    assert shown == ""
    if end is signal.SIGINT:
        assert process.returncode == 130
        assert "goes on. The same command again reads its report." in message
    reply = login.discover("--probe")
    assert reply.returncode == 0, reply.stderr
    assert "an earlier --probe, is unread" in reply.stderr
    assert "internet = " in reply.stdout
    assert len(login.jobs) == len(before) + 1


def test_without_a_terminal_a_probe_needs_a_confirmation(login: Login) -> None:
    before = login.jobs
    reply = login.discover("--probe")
    assert (reply.returncode, reply.stdout) == (2, "")
    assert "confirm it with --yes, or see it with --dry-run" in reply.stderr
    assert login.jobs == before


def test_a_declined_probe_submits_nothing_and_keeps_the_profile(login: Login) -> None:
    before = login.jobs
    primary, replica = os.openpty()
    process = login.start("--probe", stdin=replica)
    os.close(replica)
    os.write(primary, b"n\n")
    shown, message = process.communicate(timeout=300)
    os.close(primary)
    assert process.returncode == 0, message
    assert message.count("Submit a one-minute job with 2 GPUs in partition main on") == 1
    assert "no job was submitted" in message
    assert tomllib.loads(shown)["node"]["gpus"] == 8
    assert login.jobs == before


def test_a_dry_run_of_the_probe_prints_the_job(login: Login) -> None:
    before = login.jobs
    reply = login.discover("--probe", "--dry-run", "--account", "abc")
    assert reply.returncode == 0, reply.stderr
    assert "#SBATCH --account=abc\n" in reply.stdout
    assert "#SBATCH --time=00:01:00\n" in reply.stdout
    assert "nvidia-smi topo -m" in reply.stdout
    assert login.jobs == before


def test_an_existing_file_is_kept_and_no_job_is_submitted(login: Login, tmp_path: Path) -> None:
    before = login.jobs
    (tmp_path / "mine.toml").write_text("kept")
    reply = login.discover("--probe", "--yes", "--output", str(tmp_path / "mine.toml"))
    assert reply.returncode == 2
    assert "mine.toml cannot be written: File exists. Name a new file." in reply.stderr
    assert (tmp_path / "mine.toml").read_text() == "kept"
    assert login.jobs == before


def test_a_profile_that_cannot_be_written_leaves_no_file(login: Login) -> None:
    path = login.testbed.folder / "part.toml"
    limited = ["sh", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$@"', "sh", *login.argv("--output", str(path))]
    reply = subprocess.run(
        limited, cwd=login.testbed.folder, env=login.environ, capture_output=True, text=True, timeout=100
    )
    assert reply.returncode == 2, reply.stderr
    assert "part.toml cannot be written: File too large" in reply.stderr
    assert not path.exists()


def test_a_cancelled_probe_is_an_error_and_not_read_again(login: Login) -> None:
    login.drain("drain")
    process = login.start("--probe", "--yes")
    try:
        assert process.stderr
        job = re.findall(r"job (\d+) is submitted", process.stderr.readline())[0]
        login.testbed.run("scancel", job)
        shown, message = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
        login.drain("resume")
    assert (process.returncode, shown) == (3, "")
    assert f"the probe job {job} ended as CANCELLED without a complete report. See its log" in message
    again = login.discover("--probe")
    assert (again.returncode, "confirm it with --yes" in again.stderr) == (2, True)


@pytest.mark.parametrize("shell", ["tcsh", "fish"])
def test_the_login_shell_need_not_be_a_posix_shell(login: Login, tmp_path: Path, shell: str) -> None:
    privilege_separation_folder()
    (tmp_path / "server").mkdir()
    force = f'ForceCommand cd "$HOME" && exec {shell} -c "$SSH_ORIGINAL_COMMAND"'
    with sshd(tmp_path / "server", login.testbed.twin.environ(), force) as server:
        words = ("--ssh-config", server.config(tmp_path), "--probe", "--yes")
        reply = discovered(tmp_path, login.environ, "far", "--name", "mine", *words)
    assert reply.returncode == 0, reply.stderr
    found = tomllib.loads(reply.stdout)
    assert (found["node"]["gpus"], found["internet"] in ("yes", "no")) == (8, True)


def test_a_profile_is_compared_with_a_probe_too(login: Login) -> None:
    reply = login.diff("berzelius", "--probe", "--yes")
    assert reply.returncode in (0, 1), reply.stderr
    assert "agrees with the cluster" in reply.stderr or reply.stdout
    assert "not compared: `sacctmgr" in reply.stderr
    (login.testbed.folder / "site_profiles").mkdir(exist_ok=True)
    (login.testbed.folder / "site_profiles" / "drifted.toml").write_text(
        f'name = "drifted"\ninternet = "proxy"\n[login]\nhost = "{login.host}"\n'
        "[node]\ngpus = 4\ncpus = 128\n[partitions.main]\ndefault = true\n[partitions.gone]\n"
    )
    reply = login.diff("drifted", "--host", login.host, "--probe", "--yes")
    assert reply.returncode == 1, reply.stderr
    assert [line.split(":")[0] for line in reply.stdout.splitlines()] == [
        "partitions.gone",
        "node.gpus",
        "internet",
    ]


@pytest.mark.parametrize("answer", [*OVER, *ODD])
def test_a_hostile_login_node_cannot_harm(tmp_path: Path, answer: str) -> None:
    (tmp_path / "server").mkdir()
    with hostile(tmp_path / "server", {**OVER, **ODD}[answer]) as server:
        words = ("--ssh-config", server.config(tmp_path), "--probe", "--yes")
        reply = discovered(tmp_path, os.environ, "far", "--output", "new.toml", *words)
    shown = reply.stdout + reply.stderr
    assert reply.returncode == 3, shown[-2000:]
    assert "Traceback" not in shown
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", shown)
    assert not (tmp_path / "new.toml").exists()
