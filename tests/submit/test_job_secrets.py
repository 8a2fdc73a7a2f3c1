"""Secrets of a job: sent into one private file, read by the job, removed, and found nowhere else."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import json

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.ledger.ledger import Ledger
from slurmgen.plan.model import PATH
from slurmgen.request.model import Then
from slurmgen.submit.secrets import SecretValues
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import WAY, Machine, machine
from tests.support.programs import write_programs
from tests.support.sshd import Server, privilege_separation_folder, sshd
from tests.support.terminals import terminal
from tests.support.twins import Testbed, eventually, settled

__all__ = ["machine"]

SOON = 120
"Seconds for a script of a few lines; the machine may be busy."
MARK = "Zx7MARKq9"
VALUES = {"HF_TOKEN": f'{MARK} it\'s\n\n"$HOME" `a` \\ é\t!', "WANDB_API_KEY": f"{MARK}2\n"}
TRAIN = """import os, pathlib, stat, time
file = pathlib.Path(".slurmgen/secrets")
modes = [oct(stat.S_IMODE(path.stat().st_mode)) for path in (file, file.parent, pathlib.Path("."))]
values = [ascii(os.environ[name]).replace("M", "m") for name in ("HF_TOKEN", "WANDB_API_KEY")]
print("modes", *modes, *values, flush=True)
pathlib.Path("up").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""
JOB = '[defaults]\nframework = "python"\n[job.train]\nscript = "train.py"\nsecrets = ["HF_TOKEN"]\n'


@pytest.fixture(scope="module")
def watched(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A login node that records each program that it starts, with arguments and environment."""
    privilege_separation_folder()
    folder = tmp_path_factory.mktemp("watched")
    trace = f"strace -f -ff -qq -v -e trace=execve -s 1000000 -o {folder}/trace"
    shell = f"""ForceCommand cd "$HOME" && exec {trace} sh -c "$SSH_ORIGINAL_COMMAND\""""
    with sshd(folder, testbed.twin.environ(), shell) as running:
        (running.home / ".bash_profile").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
        yield running


class User:
    """A project with a job that has secrets, on a real Slurm over SSH."""

    def __init__(self, server: Server, folder: Path, slurmgen: Run) -> None:
        self.project, self.state, self.home = folder / "project", folder / "state", server.home
        self.project.mkdir()
        (self.project / "train.py").write_text(TRAIN)
        (self.project / "slurmgen.toml").write_text(JOB)
        self.way = ("--site", "generic", "--host", "far", "--ssh-config", server.config(folder))
        self.run = slurmgen
        self.environ = {
            **os.environ,
            "XDG_STATE_HOME": str(self.state),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def __call__(self, *args: str, **more: str) -> str:
        reply = self.run(*args, cwd=self.project, env=self.environ | more)
        assert reply.returncode == 0, reply.stderr
        return reply.stdout + reply.stderr

    def submit(self, trace: Path) -> tuple[str, str]:
        """The job, and everything that was printed; `trace` gets each argument list on this machine."""
        words = ("strace", "-f", "-qq", "-e", "trace=execve", "-s", "1000000", "-o", str(trace))
        command = (sys.executable, "-m", "slurmgen", "submit", "train", *self.way)
        secrets = ("--secret", "HF_TOKEN", "--secret", "WANDB_API_KEY")
        reply = subprocess.run(
            [*words, *command, *secrets],
            cwd=self.project,
            env=self.environ | VALUES,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert reply.returncode == 0, reply.stderr
        return reply.stdout.strip(), reply.stdout + reply.stderr


@pytest.fixture
def user(watched: Server, tmp_path: Path, slurmgen: Run) -> User:
    return User(watched, tmp_path, slurmgen)


def holding(home: Path, *folders: Path) -> list[Path]:
    """The files that have the mark of the values: below the home on the cluster, or below these folders."""
    settled(home / "slurmgen/project")
    files = [path for folder in folders or [home] for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if MARK.encode() in path.read_bytes()]


def test_the_values_are_in_one_private_file_while_the_job_needs_it_and_nowhere_else(
    user: User, watched: Server, testbed: Testbed, tmp_path: Path
) -> None:
    job, printed = user.submit(tmp_path / "client.trace")
    (run,) = (user.home / "slurmgen/project/runs").iterdir()
    eventually((run / "up").exists)
    assert holding(user.home, watched.folder, tmp_path) == [run / PATH]
    printed += user("submit", "train", *user.way, "--dry-run", "--json", **VALUES)
    printed += user("status", job, "--json") + user("logs", job)
    assert "modes 0o600 0o700 0o700" in printed
    for value in VALUES.values():
        assert ascii(value).replace("M", "m") in printed
    assert MARK not in printed
    calls = "".join(path.read_text() for path in watched.folder.glob("trace.*"))
    assert "sbatch" in calls
    (run / "go").touch()
    assert testbed.wait(job) == "COMPLETED"
    assert not (run / PATH).exists()


def test_a_job_keeps_its_secrets_when_slurm_requeues_it_and_loses_them_when_it_is_cancelled(
    user: User, testbed: Testbed, tmp_path: Path
) -> None:
    job, _ = user.submit(tmp_path / "client.trace")
    (run,) = (path for path in (user.home / "slurmgen/project/runs").iterdir() if not (path / "go").exists())
    eventually((run / "up").exists)
    (run / "up").unlink()
    testbed.run("scontrol", "requeue", job)

    def runs_again() -> bool:  # Slurm sets the start, in two minutes, when the first run has ended
        if "Reason=BeginTime" in testbed.run("scontrol", "show", "job", job):
            time.sleep(3)  # a node refuses what is started again in the very second of the requeue
            testbed.tried("scontrol", "update", f"JobId={job}", "StartTime=now")
        return (run / "up").exists()

    eventually(runs_again)
    user("cancel", job)
    assert not (run / PATH).exists()


def test_run_removes_the_secrets_of_a_job_that_slurm_ended(user: User, testbed: Testbed) -> None:
    runs = user.home / "slurmgen/project/runs"
    before = set(runs.glob("*"))
    words = [sys.executable, "-m", "slurmgen", "run", "train", *user.way]
    secrets = ["--secret", "HF_TOKEN", "--secret", "WANDB_API_KEY"]
    command = subprocess.Popen([*words, *secrets], cwd=user.project, env=user.environ | VALUES)
    eventually(lambda: any((run / "up").exists() for run in set(runs.glob("*")) - before))
    (run,) = set(runs.glob("*")) - before
    assert (run / PATH).exists()
    testbed.run("scancel", "--me")
    assert command.wait(180) == 143
    assert not (run / PATH).exists()


def started(folder: Path, command: str, **asked: object) -> "subprocess.Popen[str]":
    """A batch script that runs a command without Slurm, beside a file with its secrets."""
    (folder / ".slurmgen").mkdir(exist_ok=True)
    (folder / PATH).write_bytes(SecretValues(VALUES).lines())
    write_programs(
        folder / "bin", {"srun": 'while [[ "$1" == -* ]]; do shift; done\nexec "$@"'}, "#!/bin/bash"
    )
    (folder / "ranks.sh").write_text(command)
    request = Request(script="ranks.sh", secrets=tuple(VALUES), framework="python", **asked)  # type: ignore[arg-type]
    (folder / "job.sbatch").write_text(render(resolve(request, load_site("generic"))))
    more = {"PATH": f"{folder}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_COUNT": "2"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        ["bash", "job.sbatch"], cwd=folder, env={**os.environ, **more}, stdout=pipe, stderr=pipe, text=True
    )


def test_every_byte_of_a_value_reaches_the_ranks(tmp_path: Path) -> None:
    out, err = started(tmp_path, 'printf %s "$HF_TOKEN"; printf %s "$WANDB_API_KEY"').communicate(
        timeout=SOON
    )
    assert out == "".join(VALUES.values()), err
    every = os.fsdecode(bytes(range(1, 256)))
    (tmp_path / "lines").write_bytes(SecretValues({"A": every}).lines())
    done = subprocess.run(["bash", "-c", '. ./lines; printf %s "$A"'], cwd=tmp_path, capture_output=True)
    assert done.stdout == os.fsencode(every)


@pytest.mark.parametrize(("command", "remains"), [("true", False), ("exit 3", False), ("kill $PPID", True)])
def test_the_file_remains_only_for_a_script_that_slurm_ends(
    tmp_path: Path, command: str, remains: bool
) -> None:
    """Slurm ends a script with TERM, also before it runs the job again."""
    started(tmp_path, command).communicate(timeout=SOON)
    assert (tmp_path / PATH).exists() == remains


@pytest.mark.parametrize(
    ("reply", "command", "remains"),
    [
        ("JobState=COMPLETING Reason=TimeLimit Requeue=1 ", "kill $PPID", False),
        ("JobState=COMPLETING Reason=TimeLimit Requeue=1 ", "exit 143", False),
        ("JobState=COMPLETING Reason=None Requeue=1 ", "exit 143", True),
        ("JobState=PENDING Reason=BeginTime Requeue=1 ", "exit 143", True),
        ("JobState=COMPLETING Reason=None Requeue=0 ", "kill $PPID", False),
        ("JobState=RUNNING Reason=None Requeue=1 ", "exit 3", False),
        ("JobState=RUNNING Reason=None Requeue=1 ", "kill $PPID", True),
    ],
)
def test_the_file_remains_only_if_slurm_may_run_the_job_again(
    tmp_path: Path, reply: str, command: str, remains: bool
) -> None:
    """The ranks may end because Slurm ends the job, before it ends the script."""
    write_programs(tmp_path / "bin", {"scontrol": f"echo ' {reply}'"})
    started(tmp_path, command).communicate(timeout=SOON)
    assert (tmp_path / PATH).exists() == remains


def test_a_job_that_is_never_requeued_has_no_file_of_secrets_while_it_runs(
    user: User, testbed: Testbed
) -> None:
    (user.project / "gone.sh").write_text(f'[ ! -e {PATH} ] && [ -n "$HF_TOKEN" ]\n')
    options = ("--script", "gone.sh", "--secret", "HF_TOKEN", "--sbatch", "no-requeue")
    printed = user("submit", *options, *user.way, **VALUES)
    assert testbed.wait(printed.split()[0]) == "COMPLETED"


def test_a_requeued_run_finds_the_secrets_again(tmp_path: Path) -> None:
    for name in ("scontrol", "sleep"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    running = started(tmp_path, "exit 75", requeue=True)
    assert running.communicate(timeout=SOON)[1] == ""
    assert running.returncode == 75
    assert (tmp_path / PATH).exists()
    started(tmp_path, "true", requeue=True).communicate(timeout=SOON)
    assert not (tmp_path / PATH).exists()


def test_the_tasks_of_an_array_share_the_file_until_all_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task, remains in (("3", True), ("3", True), ("8", False)):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        started(tmp_path, "true", sbatch={"array": "3,8"}).communicate(timeout=SOON)
        assert (tmp_path / PATH).exists() == remains


def test_a_script_without_its_secrets_says_which(tmp_path: Path) -> None:
    started(tmp_path, "true").communicate(timeout=SOON)
    assert not (tmp_path / PATH).exists()
    again = subprocess.run(
        ["bash", "job.sbatch"], cwd=tmp_path, capture_output=True, text=True, timeout=SOON, check=False
    )
    assert again.returncode != 0
    assert "HF_TOKEN: is a secret of this job" in again.stderr


@pytest.fixture
def cloned(machine: Machine) -> Machine:
    machine.answers("sbatch", "echo 12")
    (machine.project / "slurmgen.toml").write_text(JOB)
    machine.environ |= VALUES | {"XDG_CONFIG_HOME": str(machine.home / "config")}
    return machine


def submit(machine: Machine, *args: str) -> tuple[int, str, str]:
    return machine.slurmgen("submit", "train", *WAY, *args)


def test_a_project_gets_no_secret_without_consent(cloned: Machine) -> None:
    code, out, err = submit(cloned)
    assert (code, out) == (2, "")
    assert f"slurmgen.toml of {cloned.project} asks for your secret HF_TOKEN" in err
    assert "--secret HF_TOKEN" in err
    assert not (cloned.home / "slurmgen").exists()
    assert Ledger().all() == ()


def test_without_consent_the_choice_of_a_site_is_not_kept(cloned: Machine) -> None:
    code, _, err = cloned.slurmgen("submit", "train", "--first", "generic", "--via", "local")
    assert (code, "asks for your secret HF_TOKEN" in err) == (2, True)
    assert Ledger().all() == ()


def test_consent_is_remembered_for_the_project_the_name_and_the_site(cloned: Machine) -> None:
    assert submit(cloned, "--secret", "HF_TOKEN")[:2] == (0, "12\n")
    assert submit(cloned)[:2] == (0, "12\n")
    toml = cloned.project / "slurmgen.toml"
    toml.write_text(JOB.replace('"HF_TOKEN"', '"HF_TOKEN", "WANDB_API_KEY"'))
    assert "your secret WANDB_API_KEY" in submit(cloned)[2]
    (cloned.project / "site_profiles").mkdir()
    (cloned.project / "site_profiles/mine.toml").write_text("")
    toml.write_text(JOB)
    assert "for its jobs at mine" in submit(cloned, "--site", "mine")[2]


def test_the_users_own_settings_can_consent_for_every_project(cloned: Machine) -> None:
    (cloned.home / "config/slurmgen").mkdir(parents=True)
    (cloned.home / "config/slurmgen/personal.toml").write_text('[generic]\nsecrets = ["HF_TOKEN"]\n')
    assert submit(cloned)[:2] == (0, "12\n")


@pytest.mark.parametrize(
    ("module", "prompt"),
    [
        ("import no_such_library", "Value of the secret HF_TOKEN: "),
        ("get_password = len", "HF_TOKEN, which is not in the keyring (which cannot be read: TypeError): "),
    ],
)
def test_on_a_terminal_consent_and_the_value_are_asked_for_and_not_shown(
    cloned: Machine, tmp_path: Path, module: str, prompt: str
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/keyring.py").write_text(f"{module}\n")
    cloned.environ |= {"PYTHONPATH": f"{tmp_path}/lib", "HF_TOKEN": ""}
    with terminal(["submit", "train", *WAY], cloned.environ, cloned.project) as user:
        user.sees("[y/N] ")
        user.type("y\n")
        user.sees(prompt)
        user.type(f"{MARK}\n")
        assert user.ended(MARK) == 0
    (run,) = (cloned.home / "slurmgen/project/runs").iterdir()
    assert (run / PATH).read_text() == f"export HF_TOKEN=$'{MARK}'\n"


def test_the_value_is_taken_from_the_keyring_if_the_environment_has_none(
    cloned: Machine, tmp_path: Path
) -> None:
    (tmp_path / "lib").mkdir()
    stand_in = f"def get_password(service, name):\n    return f'{MARK}{{service}}{{name}}'\n"
    (tmp_path / "lib/keyring.py").write_text(stand_in)
    cloned.environ |= {"PYTHONPATH": f"{tmp_path}/lib", "HF_TOKEN": ""}
    assert submit(cloned, "--secret", "HF_TOKEN")[0] == 0
    (run,) = (cloned.home / "slurmgen/project/runs").iterdir()
    assert (run / PATH).read_text() == f"export HF_TOKEN=$'{MARK}slurmgenHF\\137TOKEN'\n"


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import no_such_library", "(the library keyring is not installed)"),
        (
            f"class KeyringLocked(Exception): ...\ndef get_password(*_):\n    raise KeyringLocked('{MARK}')",
            "(which cannot be read: KeyringLocked)",
        ),
    ],
)
def test_a_keyring_that_cannot_be_read_is_named_without_its_words(
    cloned: Machine, tmp_path: Path, module: str, why: str
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/keyring.py").write_text(f"{module}\n")
    cloned.environ |= {"PYTHONPATH": f"{tmp_path}/lib", "HF_TOKEN": ""}
    code, _, err = submit(cloned, "--secret", "HF_TOKEN")
    assert (code, MARK in err) == (2, False)
    assert f"it is not in the environment, nor in the keyring {why}" in err


def test_a_secret_without_a_value_is_an_error_that_names_the_sources(cloned: Machine) -> None:
    code, _, err = submit(cloned, "--secret", "HF_TOKEN", "--secret", "NOSUCH_TOKEN")
    assert code == 2
    assert all(
        text in err for text in ("Export NOSUCH_TOKEN", "keyring set slurmgen NOSUCH_TOKEN", "terminal")
    )


@pytest.mark.parametrize(
    "sbatch",
    ["echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1", "exit 127"],
)
def test_a_submission_without_a_job_leaves_no_secret(cloned: Machine, sbatch: str) -> None:
    cloned.answers("sbatch", f"cp -r ~/slurmgen/project/runs ~/copy; {sbatch}")
    assert submit(cloned, "--secret", "HF_TOKEN")[0] == 3
    assert {path.relative_to(cloned.home).parts[0] for path in holding(cloned.home)} == {"copy"}


def test_the_environment_of_sbatch_has_no_value_though_this_machine_is_the_login_node(
    cloned: Machine,
) -> None:
    cloned.answers("sbatch", "cp /proc/self/environ ~/environ; echo 12")
    cloned.environ |= {"KEPT": "kept"}
    assert submit(cloned, "--secret", "HF_TOKEN")[0] == 0
    environ = (cloned.home / "environ").read_bytes()
    assert b"\0KEPT=kept\0" in environ
    assert b"HF_TOKEN=" not in environ


def test_a_repeated_submission_sends_the_secrets_again(cloned: Machine) -> None:
    down = "sbatch: error: Batch job submission failed: Unable to contact slurm controller"
    cloned.answers("sbatch", f"echo '{down}' >&2; exit 1")
    cloned.answers("squeue", "exit 0")
    assert submit(cloned, "--secret", "HF_TOKEN")[0] == 3
    assert not holding(cloned.home)
    cloned.answers("sbatch", "echo 12")
    assert submit(cloned)[:2] == (0, "12\n")
    assert [path.name for path in holding(cloned.home)] == ["secrets"]


def test_pruning_removes_the_secrets_of_jobs_that_have_ended(cloned: Machine) -> None:
    assert submit(cloned, "--secret", "HF_TOKEN")[0] == 0
    cloned.answers("squeue", "exit 0")
    assert holding(cloned.home)
    cloned.slurmgen("snapshots", *WAY, "--prune", "--older-than", "30", "--yes")
    assert not holding(cloned.home)
    assert list((cloned.home / "slurmgen/project/runs").iterdir())


def test_no_representation_of_a_value_shows_it() -> None:
    values = SecretValues(VALUES)
    assert repr(values) == "SecretValues(HF_TOKEN, WANDB_API_KEY)"
    for encode in (json.encode, lambda one: one.__reduce__()):
        with pytest.raises(TypeError):
            encode(values)


@pytest.mark.parametrize(
    "asked",
    [
        {"script_args": ("--token=$HF_TOKEN",)},
        {"python_env": "venv:/data/${HF_TOKEN}"},
        {"then": (Then(script="b.py", script_args=("$HF_TOKEN",)),)},
        {"then": (Then(command=("tool", "--token=$HF_TOKEN")),)},
    ],
)
def test_an_argument_must_not_have_the_value_of_a_secret(asked: dict[str, object]) -> None:
    request = Request(secrets=("HF_TOKEN",), script="train.py", **asked)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="HF_TOKEN, a secret that would be in the list of processes"):
        resolve(request, load_site("generic"))


def test_an_ordinary_variable_cannot_also_be_a_secret() -> None:
    request = Request(env={"PLAIN": "x"}, secrets=("PLAIN",), script="train.py")
    with pytest.raises(RequestError, match="PLAIN cannot be a secret: --env sets it too"):
        resolve(request, load_site("generic"))


def test_a_value_that_is_given_with_the_name_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(RequestError) as refusal:
        resolve(Request(secrets=("HF_TOKEN=hunter2",)), load_site("generic"))
    assert "'HF_TOKEN=...' is not valid" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
