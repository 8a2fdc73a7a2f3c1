"""The remote folder where another user, uid 65534, can write too: in a group's folder or in /tmp."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen import remote_scripts
from slurmgen.slurm.commands import CLEAN
from tests.scenarios.test_hostile_replies import WAY, Machine, machine
from tests.support.twins import settled

__all__ = ["machine"]

OTHER = 65534
PLANTED = ("snapshots", "runs", "envs", "staging", "submissions")
SCRIPT = 'print("mine")\n'


def submit(machine: Machine, folder: Path | str, *args: str) -> tuple[int, str, str]:
    return machine.submit("--remote-dir", str(folder), *args)


def doctor(machine: Machine, folder: Path) -> str:
    job = ("--framework", "python", "--script", "train.py")
    out = machine.slurmgen("doctor", *WAY, *job, "--remote-dir", str(folder))[1].splitlines()
    at = next(number for number, line in enumerate(out) if " remote folder " in line)
    return "\n".join(out[at : at + 2])


def as_other(script: str, *args: Path) -> None:
    subprocess.run(["sh", "-ec", script, "sh", *args], user=OTHER, group=OTHER, extra_groups=[], check=True)


@pytest.fixture
def group(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A group's folder, in which every member may rename everything; sbatch runs what it is given."""
    machine.answers("sbatch", 'for word; do :; done; cd "${word%/*}" && python3 train.py >ran; echo 12')
    (machine.project / "train.py").write_text(SCRIPT)
    folder = Path("/var/tmp", tmp_path_factory.mktemp("group").name + str(os.getpid()))
    folder.mkdir()
    folder.chmod(0o2777)
    yield folder
    settled(folder / "slurmgen/project")
    shutil.rmtree(folder)


def plant(project: Path, content: str = "") -> None:
    """Another user makes the folders of a project, and in them the snapshot that would be used."""
    as_other('umask 022; for one in "$@"; do mkdir -p "$one"; done', *(project / name for name in PLANTED))
    as_other(
        'mkdir -p "$1" && printf "open(\\"pwned\\", \\"w\\")" >"$1/train.py"', project / "snapshots" / content
    )


def content_of(machine: Machine) -> str:
    """The name of the snapshot of the project, which is public."""
    return str(json.loads(machine.submit("--dry-run", "--json")[1])["snapshot"])


def test_a_planted_project_folder_is_refused(machine: Machine, group: Path) -> None:
    plant(group / "slurmgen/project", content_of(machine))
    code, out, err = submit(machine, group / "slurmgen")
    assert (code, out) == (3, "")
    assert f"{group}/slurmgen belongs to another user" in err
    assert "--remote-dir" in err
    assert not list(group.rglob("pwned"))
    assert "belongs to another user" in doctor(machine, group / "slurmgen")


def test_a_folder_that_was_exchanged_is_refused(machine: Machine, group: Path) -> None:
    assert submit(machine, group / "slurmgen")[0] == 0
    settled(group / "slurmgen/project")
    as_other('mv "$1" "$1.old"', group / "slurmgen")
    plant(group / "slurmgen/project", content_of(machine))
    code, out, err = submit(machine, group / "slurmgen")
    assert (code, out) == (3, "")
    assert "belongs to another user" in err
    assert not list(group.rglob("pwned"))


@pytest.mark.parametrize("name", [".", *PLANTED])
@pytest.mark.parametrize("mode", [0o770, 0o702, None])
def test_one_folder_of_the_project_that_is_not_the_users_alone_is_enough(
    machine: Machine, name: str, mode: int | None
) -> None:
    assert submit(machine, "there")[0] == 0
    folder = machine.home / "there/project" / name
    if mode is None:
        os.chown(folder, OTHER, OTHER)
    else:
        folder.chmod(mode)
    code, out, err = submit(machine, "there")
    assert (code, out) == (3, "")
    words = (
        f"{folder.resolve()} belongs to another user"
        if mode is None
        else f"other users may write to {folder.resolve()}"
    )
    assert words in err
    assert words in doctor(machine, Path("there"))


@pytest.fixture(autouse=True)
def sbatch(machine: Machine) -> None:
    machine.answers("sbatch", "[ $1 != --version ] || exec echo slurm 24.11.5; echo 12")
    machine.answers("scontrol", "echo 'Slurmctld(primary) at head is UP'")
    machine.answers("sinfo", "echo 'gpu*|up|1/2/3/6'")


def test_in_a_groups_folder_slurmgen_makes_one_of_its_own_and_warns(machine: Machine, group: Path) -> None:
    warning = f"other users may rename what is in {group}, and so exchange what your jobs run"
    assert doctor(machine, group / "slurmgen").split()[:1] == ["warning"]
    code, out, err = submit(machine, group / "slurmgen")
    assert (code, out) == (0, "12\n")
    assert f"warning: {warning};" in err
    for made in (group / "slurmgen", group / "slurmgen/project", group / "slurmgen/project/snapshots"):
        assert stat.S_IMODE(made.stat().st_mode) & 0o777 == 0o700
    shown = doctor(machine, group / "slurmgen")
    assert shown.startswith("warning      remote folder ")
    assert warning in shown
    assert "chmod +t" in shown


def test_with_the_sticky_bit_a_groups_folder_is_safe(machine: Machine, group: Path) -> None:
    group.chmod(0o3777)
    code, _, err = submit(machine, group / "slurmgen")
    assert (code, "warning" in err) == (0, False)
    assert doctor(machine, group / "slurmgen").startswith("ok ")


def test_the_rights_that_an_acl_grants_are_not_inherited(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "acl").mkdir(mode=0o700)
    entry = b"\x02\x00\x00\x00" + b"".join(
        tag + b"\x07\x00" + who
        for tag, who in [
            (b"\x01\x00", b"\xff" * 4),
            (b"\x02\x00", OTHER.to_bytes(4, "little")),
            (b"\x04\x00", b"\xff" * 4),
            (b"\x10\x00", b"\xff" * 4),
            (b"\x20\x00", b"\xff" * 4),
        ]
    )
    os.setxattr(tmp_path / "acl", "system.posix_acl_default", entry)
    code, _, err = submit(machine, tmp_path / "acl/slurmgen")
    assert (code, "warning" in err) == (0, False)
    assert submit(machine, tmp_path / "acl/slurmgen")[0] == 0


def test_where_the_file_system_shows_no_owners_the_user_is_warned(machine: Machine, group: Path) -> None:
    """A stand-in for such a share: `find` sees every folder and file as other users' too."""
    group.chmod(0o3777)
    everything = '*/proc/self/fd/4*|*snapshots*|"-H /"*" -prune ( ! -user"*'
    machine.answers("find", f'case "$*" in {everything}) echo "$2" ;; *) exec /usr/bin/find "$@" ;; esac')
    code, out, err = submit(machine, group / "slurmgen")
    assert (code, out) == (0, "12\n")
    assert "the file system of " in err
    assert "does not show who may write to it" in err
    settled(group / "slurmgen/project")
    assert not list(group.rglob(".slurmgen-probe*"))


def test_nothing_is_pruned_where_another_user_may_write(machine: Machine) -> None:
    assert submit(machine, "there")[0] == 0
    runs = machine.home / "there/project/runs"
    machine.answers("squeue", "exit 0")
    runs.chmod(0o777)
    args = (*WAY, "--remote-dir", "there", "--prune", "--older-than", "0")
    err = machine.slurmgen("snapshots", *args)[2]
    assert f"cannot be removed: other users may write to {runs.resolve()}" in err
    assert len(list(runs.iterdir())) == 1
    runs.chmod(0o700)
    assert "  removed: " in machine.slurmgen("snapshots", *args)[1]
    assert not list(runs.iterdir())


UNUSUAL = {
    "BASH_FUNC_module%%": "() {  echo it\n}",
    "a.b": "1",
    "A+": "2",
    "UID": str(os.getuid()),
    "EMPTY": "",
}
"Variables that not every shell can set."


@pytest.mark.parametrize("sh", ["dash", "bash"])
def test_a_job_gets_the_users_own_variables_whatever_their_names(
    machine: Machine, tmp_path: Path, sh: str
) -> None:
    """Submitted through a shell that has exported each name in the program."""
    text = remote_scripts.program("submit") + CLEAN
    names = {
        *re.findall(r"\b([a-z_]+)=", text),
        *re.findall(r"for (\w+)\b", text),
        *re.findall(r"read -r (\w+)", text),
    } - {"slurmgen_entry"}
    own = {name: f"mine\n it's {name}" for name in names} | UNUSUAL
    machine.answers("sbatch", f"cat /proc/$$/environ >'{tmp_path}/env'; echo 12")
    (machine.bin / "sh").symlink_to(f"/bin/{sh}")
    machine.environ |= own
    code, out, err = machine.submit()
    assert (code, out) == (0, "12\n"), err
    got = dict(entry.split("=", 1) for entry in (tmp_path / "env").read_text().split("\0")[:-1])
    assert {name: got.get(name) for name in own} == own
    assert got.keys() - {"SHLVL", "_"} <= machine.environ.keys()


def test_no_program_of_a_submission_has_a_variable_of_the_user_among_its_arguments(
    machine: Machine, tmp_path: Path
) -> None:
    """As every user of the host can see them: in each execve of the client and of the login node."""
    value = "value-that-other-users-must-not-see"
    machine.answers("sbatch", f'[ "$KEY" = {value} ] && echo 12')
    job = 'framework = "python"\nscript = "train.py"\nbefore_login = ["true"]\n'
    (machine.project / "slurmgen.toml").write_text(f"[job.mine]\n{job}")
    command = [sys.executable, "-m", "slurmgen", "submit", "mine", *WAY]
    traced = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=execve",
        "-s",
        "1000000",
        "-o",
        f"{tmp_path}/trace",
        *command,
    ]
    environ = machine.environ | {"KEY": value}
    reply = subprocess.run(
        traced, cwd=machine.project, env=environ, capture_output=True, text=True, timeout=300
    )
    assert (reply.returncode, reply.stdout) == (0, "12\n"), reply.stderr
    calls = (tmp_path / "trace").read_text()
    assert '"--parsable"' in calls
    assert ".login.sh" in calls
    assert value not in calls
