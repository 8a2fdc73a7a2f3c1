"""The commands of `slurmgen twin`: up, status, down, and their errors."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec
import platformdirs
import pytest

from slurmgen.errors import TwinError
from slurmgen.twin import installation
from slurmgen.twin.daemons import family, listener
from tests.support.twins import eventually

Run = Callable[..., "subprocess.CompletedProcess[str]"]
REPOSITORY = Path(__file__).parent.parent.parent
JOB_THAT_IGNORES_TERM = "trap '' TERM; touch started; sleep 600 & sleep 600; wait"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of this test, with a space in its path."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state home"))
    return tmp_path / "state home" / "slurmgen" / "twin"


@pytest.fixture
def twin(slurmgen: Run, state: Path) -> Iterator[Run]:
    """Runs `slurmgen twin`; checks at the end that no twin is left."""

    def run(*args: str, **options: object) -> "subprocess.CompletedProcess[str]":
        return slurmgen("twin", *args, **options)

    yield run
    run("down", "--all")


def pids(folder: Path) -> dict[str, int]:
    """The process ID of each daemon, from its pid file."""
    daemons = msgspec.json.decode((folder / "twin.json").read_bytes())["daemons"]
    return {daemon["name"]: int(Path(daemon["pid_file"]).read_text()) for daemon in daemons}


def in_slurm(state: Path, site: str, *argv: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "SLURM_CONF": f"{state}/{site}/slurm.conf"}
    return subprocess.run(argv, env=environ, text=True, check=True, timeout=300, **options)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


def test_up_prints_the_location_and_the_next_commands(twin: Run, state: Path) -> None:
    up = twin("up", "--site", "generic", "--nodes", "1", "--ssh")
    assert (up.returncode, up.stderr) == (0, "")
    # Depends on the machine's name.
    lines = [line for line in up.stdout.splitlines() if " listens" not in line]
    assert lines == [
        f"a twin of generic runs in {state}/generic",
        "  main: nodes of 64 CPUs, 524288 MiB, 8 GPUs",
        "  note: no partition is known; it has one, main",
        "  note: GPUs per node unknown in partition main; took 8",
        "  note: CPUs per node unknown in partition main; took 64",
        "  note: memory per node unknown in partition main; took 512G",
        "next:",
        f"  export SLURM_CONF='{state}/generic/slurm.conf'",
        f"  ssh -F '{state}/generic/ssh_config' generic sinfo",
        "  slurmgen submit --site generic --via twin",
        f"  slurmgen submit --site generic --host generic --ssh-config '{state}/generic/ssh_config'",
        "  slurmgen twin down --site generic",
    ]
    ssh = subprocess.run(["bash", "-c", lines[8]], capture_output=True, text=True)
    assert "main*" in ssh.stdout, ssh.stderr
    assert (state / "generic").stat().st_mode & 0o777 == 0o700


def own_site(project: Path, more: str = "") -> None:
    (project / "slurmgen.toml").write_text("")
    (project / "site_profiles").mkdir()
    text = f'name = "mine"\n[node]\ngpus = 1\ncpus = 3\nmemory = "1G"\n{more}'
    (project / "site_profiles/mine.toml").write_text(text)


def test_a_site_of_the_project_has_a_twin(twin: Run, tmp_path: Path) -> None:
    own_site(tmp_path)
    (tmp_path / "deeper").mkdir()
    up = twin("up", "--site", "mine", "--nodes", "1", cwd=tmp_path / "deeper")
    assert up.returncode == 0, up.stderr
    assert "  main: nodes of 3 CPUs, 1024 MiB, 1 GPU\n" in up.stdout


def test_one_twin_from_up_to_down(twin: Run, state: Path, tmp_path: Path) -> None:
    before = twin("status")
    assert (before.returncode, before.stdout) == (1, "no twin runs\n")
    up = twin("up", "--site", "daic", "--nodes", "1", "--ssh")
    assert "  slurmgen submit --site daic --via twin --account NAME" in up.stdout.splitlines()
    second = twin("up", "--site", "daic")
    assert second.returncode == 3
    assert second.stderr == "error: a twin of daic runs already. End it: slurmgen twin down --site daic\n"
    daemons = pids(state / "daic")
    assert set(daemons) == {"munged", "slurmctld", "slurmd-127.0.0.1", "sshd"}
    run = Path(msgspec.json.decode((state / "daic" / "twin.json").read_bytes())["run"])
    assert run.stat().st_mode & 0o777 == 0o700
    stubborn = f"--wrap=echo $$ > pid; {JOB_THAT_IGNORES_TERM}"
    in_slurm(state, "daic", "sbatch", "--job-name=mine", f"--chdir={tmp_path}", stubborn)
    eventually((tmp_path / "started").exists)
    status = twin("status", "--site", "daic")
    assert status.returncode == 0
    assert status.stdout.startswith("daic: SLURM_CONF=")
    assert "gpu:a40:3" in status.stdout
    assert "mine" in status.stdout
    down = twin("down")
    assert (down.returncode, down.stdout) == (0, "the twin of daic is stopped\n")
    assert not any(map(lives, [*daemons.values(), int((tmp_path / "pid").read_text())]))
    assert [path.name for path in state.iterdir()] == [".lock"]
    assert not run.exists()


@pytest.mark.parametrize("ending", ["TERM", "HUP"])
@pytest.mark.parametrize(
    "words", [("twin", "up", "--site"), ("sites", "test")], ids=["twin up", "sites test"]
)
@pytest.mark.usefixtures("twin")
def test_a_command_that_is_ended_leaves_no_process_and_no_file(
    state: Path, tmp_path: Path, words: tuple[str, ...], ending: str
) -> None:
    argv = ["env", f"--default-signal={ending}", sys.executable, "-m", "slurmgen", *words, "saga"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        eventually((state / "saga" / "twin.json").exists)
        facts = msgspec.json.decode((state / "saga" / "twin.json").read_bytes())
        # The first daemon of a twin with accounting, which then needs seconds until it is ready.
        pid_file = Path(next(each["pid_file"] for each in facts["daemons"] if each["name"] == "munged"))
        eventually(pid_file.exists)
        process.send_signal(getattr(signal, f"SIG{ending}"))
        assert process.wait(300) == 130
    assert processes_of(facts["run"], state) == []
    assert not Path(facts["run"]).exists()
    assert [path.name for path in state.iterdir()] == [".lock"]


def processes_of(*folders: str | Path) -> list[str]:
    """The command lines that name one of these folders."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if any(str(folder) in line for folder in folders)]


def test_a_twin_left_by_a_crash_is_replaced(twin: Run, state: Path) -> None:
    twin("up", "--site", "daic", "--nodes", "1")
    old = pids(state / "daic")
    os.kill(old["slurmctld"], signal.SIGKILL)
    assert twin("status").returncode == 1
    again = twin("up", "--site", "daic", "--nodes", "1")
    assert again.returncode == 0, again.stderr
    assert not any(lives(pid) for pid in old.values())
    assert all(lives(pid) for pid in pids(state / "daic").values())


def test_up_restarts_a_dead_daemon(twin: Run, state: Path) -> None:
    twin("up", "--site", "daic", "--nodes", "1", "--ssh")
    for name in ("sshd", "slurmd-127.0.0.1", "munged"):
        old = pids(state / "daic")
        os.kill(old[name], signal.SIGKILL)
        eventually(lambda pid=old[name]: not lives(pid))  # type: ignore[misc]
        again = twin("up", "--site", "daic")
        assert again.returncode == 0, again.stderr
        new = pids(state / "daic")
        assert lives(new.pop(name))
        assert new == {other: pid for other, pid in old.items() if other != name}
        ssh = ["ssh", "-F", state / "daic/ssh_config", "daic", "srun echo in"]
        assert subprocess.run(ssh, capture_output=True, text=True, check=True).stdout == "in\n"


DIRECTIVES = [
    {"constraint": "a100&nvlink|v100", "licenses": "scratch,fluent@server:2", "tmp": "10G"},
    {"constraint": "[rack1|rack2]", "licenses": "scratch:1", "tmp": "500"},
]


@pytest.mark.parametrize("directives", DIRECTIVES, ids=" ".join)
def test_a_job_with_the_directives_of_the_profile_runs(
    twin: Run, state: Path, tmp_path: Path, directives: dict[str, str]
) -> None:
    lines = "".join(f'{option} = "{value}"\n' for option, value in directives.items())
    own_site(tmp_path, f"[sbatch]\n{lines}")
    assert twin("up", "--site", "mine").returncode == 0
    in_slurm(
        state, "mine", "srun", "--nodes=2", *[f"--{name}={it}" for name, it in directives.items()], "true"
    )


def can_change_hosts() -> bool:
    """Whether this machine allows a private /etc/hosts."""
    return subprocess.run([*OWN_MOUNTS, "true"], capture_output=True, check=False).returncode == 0


OWN_MOUNTS = ["unshare", "--mount", "--"]
SESSION = r"""
mount --bind "$PWD/hosts" /etc/hosts
trap '{python} -m slurmgen twin down' EXIT
{python} -m slurmgen twin up --site daic --ssh --account ours
export SLURM_CONF=$XDG_STATE_HOME/slurmgen/twin/daic/slurm.conf
sbatch --account=ours --nodes=2 --output=log job
until [ -e done ]; do sleep 0.1; done
"""
STEP_OF_TWO_NODES = """#!/bin/bash
srun bash -c 'touch step-$SLURM_PROCID; until [ -e go ]; do sleep 0.1; done'
touch done
"""


@pytest.mark.skipif(not can_change_hosts(), reason="an /etc/hosts of our own needs a mount namespace")
@pytest.mark.parametrize(
    ("address", "daemons", "srun"),
    [
        ("127.0.0.1", {"127.0.0.1"}, {"127.0.0.1"}),
        ("127.0.1.1", {"127.0.0.1", "127.0.1.1"}, {"0.0.0.0"}),  # noqa: S104
        ("192.0.2.99", {"127.0.0.1", "0.0.0.0"}, {"0.0.0.0"}),  # noqa: S104
    ],
)
def test_slurm_listens_on_loopback_or_up_reports_otherwise(
    state: Path, tmp_path: Path, address: str, daemons: set[str], srun: set[str]
) -> None:
    (tmp_path / "job").write_text(STEP_OF_TWO_NODES)
    (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
    command = [*OWN_MOUNTS, "bash", "-ec", SESSION.format(python=sys.executable)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as session:
        try:
            eventually(lambda: all((tmp_path / f"step-{rank}").exists() for rank in range(2)))
            assert listening(pids(state / "daic").values()) == daemons
            run = Path(msgspec.json.decode((state / "daic/twin.json").read_bytes())["run"])
            assert listening(filter(None, map(listener, run.glob("spool/*/*")))) == srun
        finally:
            (tmp_path / "go").touch()
            output, _ = session.communicate(timeout=300)
    assert session.returncode == 0, output
    assert (" listens" in output) == ("0.0.0.0" in srun | daemons)  # noqa: S104
    assert f"`127.0.0.1 {socket.gethostname()}` in /etc/hosts" in output or address == "127.0.0.1"


def open_files(pid: int) -> set[str]:
    """What the descriptors of a process refer to; nothing of one that has ended."""
    found = set()
    with suppress(FileNotFoundError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.add(str(link.readlink()))
    return found


def listening(daemons: Iterable[int]) -> set[str]:
    """The addresses on which processes and their children listen."""
    sockets = {name for pid in daemons for one in family(pid) for name in open_files(one)}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return {socket.inet_ntoa(bytes.fromhex(address[:8])[::-1]) for address in found}


def test_a_reused_pid_is_not_killed(twin: Run, state: Path) -> None:
    twin("up", "--site", "daic", "--nodes", "1")
    facts = msgspec.json.decode((state / "daic/twin.json").read_bytes())
    files = [daemon["pid_file"] for daemon in facts["daemons"]]
    old = pids(state / "daic")
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    with subprocess.Popen(["sleep", "600"]) as bystander:
        for file in files:
            Path(file).write_text(f"{bystander.pid}\n")
        assert twin("down", "--site", "daic").returncode == 0
        assert bystander.poll() is None
        bystander.kill()


def test_a_failed_start_shows_the_log_and_leaves_no_files(
    twin: Run, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "slurmd"
    broken.write_text(f"""#!/bin/sh
sed -n 's/^SlurmctldPidFile=//p' "$4" > '{tmp_path}/pid_file'
cat "$(cat '{tmp_path}/pid_file')" > '{tmp_path}/pid'
echo 'fatal: no such luck' >&2
exit 1
""")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    up = twin("up", "--site", "daic")
    assert up.returncode == 3
    assert (
        up.stderr == "error: slurmd-127.0.0.1 did not start; its log ends with:\n    fatal: no such luck.\n"
    )
    assert [path.name for path in state.iterdir()] == [".lock"]
    assert not Path((tmp_path / "pid_file").read_text().strip()).parent.exists()
    assert not lives(int((tmp_path / "pid").read_text()))


def test_missing_packages_are_named_with_the_command_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "SBIN", ("/nonexistent",))
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TwinError) as error:
        installation.programs(*installation.SLURM_PROGRAMS)
    assert error.value.fact.endswith("not installed here: munged, slurmctld, slurmd, sinfo")
    packages = "slurm-wlm slurmctld slurmd munge openssh-server"
    line = f"apt-get install --no-install-recommends {packages}"
    assert error.value.hint == f"On Debian or Ubuntu, as root: {line}"


def test_down_without_a_twin_is_an_error(twin: Run) -> None:
    reply = twin("down", "--site", "daic")
    assert reply.returncode == 3
    assert reply.stderr == "error: no twin of daic runs. Start one: slurmgen twin up --site daic\n"
    assert (
        twin("down").stderr
        == "error: it is not clear which twin to stop; running: none. Name it, or give --all.\n"
    )


def test_the_site_of_a_twin_may_be_an_argument(twin: Run) -> None:
    assert "no twin of daic runs" in twin("down", "daic").stderr
    assert twin("status", "daic").stdout == "no twin of daic runs\n"
    assert "there is no site 'nowhere'" in twin("up", "nowhere").stderr
    assert "Name the SITE to imitate" in twin("up").stderr
    for name in ("up", "down", "status"):
        reply = twin(name, "daic", "--site", "olivia")
        assert (reply.returncode, "name two sites: daic and olivia" in reply.stderr) == (2, True)


UNPRIVILEGED = "nobody"


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already")
def test_an_unprivileged_user_can_run_a_twin() -> None:
    with tempfile.TemporaryDirectory(prefix="twin-user-", ignore_cleanup_errors=True) as folder:
        shutil.chown(folder, UNPRIVILEGED)
        environ = {"PATH": "/usr/bin:/bin", "HOME": folder, "XDG_STATE_HOME": folder}
        environ |= {"PYTHONPATH": copied_to(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        reply = as_unprivileged(USER_SESSION.format(python=unprivileged_python(environ)), environ)
    assert reply.returncode == 0, reply.stdout + reply.stderr
    assert sorted(reply.stdout.splitlines()[-2:]) == [
        f"0 127.0.0.1 {UNPRIVILEGED} 0,1",
        f"1 127.0.0.2 {UNPRIVILEGED} 0,1",
    ]
    assert "the twin of daic is stopped" in reply.stderr


USER_SESSION = """
set -e
cd "$HOME"
{python} -m slurmgen twin up --site daic --ssh --account ours
trap '{python} -m slurmgen twin down >&2' EXIT
export SLURM_CONF=$XDG_STATE_HOME/slurmgen/twin/daic/slurm.conf
srun --account=ours --nodes=2 --gres=gpu:a40:2 \\
  bash -c 'echo $SLURM_NODEID $SLURMD_NODENAME $(id -un) $CUDA_VISIBLE_DEVICES'
"""


def as_unprivileged(script: str, environ: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    user = pwd.getpwnam(UNPRIVILEGED)
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return subprocess.run(
        [*become, "bash", "-c", script], env=environ, cwd="/", capture_output=True, text=True, timeout=300
    )


def copied_to(folder: str) -> str:
    """A readable copy of slurmgen and its dependencies; a checkout may be private."""
    modules = [Path(module.__file__ or "").parent for module in (click, msgspec, platformdirs)]
    for source in (*modules, *(REPOSITORY / name for name in ("slurmgen", "site_profiles", "templates"))):
        shutil.copytree(source, Path(folder, "lib", source.name))
    return str(Path(folder, "lib"))


def unprivileged_python(environ: dict[str, str]) -> str:
    """The Python that can run slurmgen as the unprivileged user: this one or the system's."""
    for python in (str(Path(sys.executable).resolve()), "/usr/bin/python3"):
        if as_unprivileged(f"{python} -c 'import slurmgen.twin, msgspec'", environ).returncode == 0:
            return python
    raise AssertionError(
        "an unprivileged user can run neither this Python nor the system's with these packages"
    )
