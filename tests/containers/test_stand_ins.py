"""The stand-ins for container engines, run as a job runs them. tests/twin has those of apptainer."""

import subprocess
from pathlib import Path

import pytest

import slurmgen.twin
from slurmgen.twin.configuration import STAND_INS
from tests.support.programs import write_programs

SOURCES = Path(slurmgen.twin.__file__).parent / "stand_ins"
HELP = """[ "$1" != --help ] || { echo '  -N, --nodes=N   number'; echo '  -l, --label   prepend'; exit; }
echo "srun $*"
while [ "${1#-}" != "$1" ]; do [ "$1" != -N ] || shift; shift; done
exec "$@"
"""
"An srun with two options, which runs its command once."


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """The folder of a twin with its stand-ins."""
    for folder, names in {"stand_ins": STAND_INS, "plugins": {"srun": "srun.py"}}.items():
        for name, source in names.items():
            start, _, body = (SOURCES / source).read_text().partition("\n")
            write_programs(tmp_path / folder, {name: body}, start)
    write_programs(tmp_path / "bin", {"srun": HELP})
    return tmp_path


def run(tools: Path, *argv: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    path = f"{tools}/plugins:{tools}/bin:/usr/bin:/bin:{tools}/stand_ins"
    environ = {"PATH": path, "HOME": str(tools), **variables}
    return subprocess.run(argv, env=environ, cwd=tools, capture_output=True, text=True, check=False)


def test_podman_hpc_passes_only_named_variables(tools: Path) -> None:
    argv = ["podman-hpc", "run", "--rm", "--gpu", "--env=A", "-e", "B_*", "--env=C=3", "localhost/x"]
    reply = run(tools, *argv, "env", A="1", B_1="2", D="4")
    seen = dict(line.split("=", 1) for line in reply.stdout.splitlines())
    assert {name: seen.get(name) for name in "A B_1 C D".split()} == {
        "A": "1",
        "B_1": "2",
        "C": "3",
        "D": None,
    }


def test_podman_hpc_needs_an_image_in_its_store(tools: Path) -> None:
    words = ["podman-hpc", "run", "--pull=never", "a/b:1", "true"]
    assert "image not known" in run(tools, *words).stderr
    assert run(tools, "podman-hpc", "image", "exists", "a/b:1").returncode == 1
    assert run(tools, "podman-hpc", "pull", "a/b:1").returncode == 0
    assert run(tools, "podman-hpc", "image", "exists", "a/b:1").returncode == 0
    assert run(tools, *words).returncode == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--gpus=all", "unknown flag: --gpus"),
        ("-z", "unknown shorthand flag: 'z'"),
        ("--volume=/a", "incorrect volume format"),
        ("--volume=/a:b", "must be an absolute path"),
        ("--volume=/a:/b --volume=/c:/b", "duplicate mount destination"),
        ("--workdir=/nowhere", "does not exist on container"),
    ],
)
def test_podman_hpc_rejects_what_podman_rejects(tools: Path, options: str, why: str) -> None:
    reply = run(tools, "podman-hpc", "run", *options.split(), "localhost/x", "true")
    assert reply.returncode in {125, 126}
    assert why in reply.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--image=docker:a --gpu", "unknown flag: --gpu"),
        ("--image=docker:missing", "FAILED to lookup image docker:missing"),
        ("--image=id:1 --volume=/a", "Failed to parse volume map option /a"),
        ("--image=id:1 --env=A", "Improperly formatted environment variable: A"),
        ("--module=gpu", "Incorrect format for image identifier"),
    ],
)
def test_shifter_rejects_what_shifter_rejects(tools: Path, options: str, why: str) -> None:
    reply = run(tools, "shifter", *options.split(), "true")
    assert reply.returncode == 1
    assert why in reply.stderr


def test_shifter_runs_a_pulled_image_with_all_variables(tools: Path) -> None:
    assert run(tools, "shifterimg", "lookup", "a:1").returncode == 1
    assert run(tools, "shifterimg", "pull", "a:1").returncode == 0
    assert run(tools, "shifterimg", "lookup", "docker:a:1").returncode == 0
    reply = run(tools, "shifter", "--image=a:1", "-V", "/a:/b", "sh", "-c", 'echo "$A"; pwd', A="1")
    assert reply.stdout.splitlines() == ["1", str(tools)]


def test_srun_without_options_of_a_plugin_is_the_real_one(tools: Path) -> None:
    assert run(tools, "srun", "-N", "1", "echo", "--container-image=x").stdout == (
        "srun -N 1 echo --container-image=x\n--container-image=x\n"
    )


def test_pyxis_takes_its_options_out_and_passes_the_others(tools: Path) -> None:
    options = ["-N", "1", "--container-image", "./x.sqsh", "--nodes", "2", "--label"]
    reply = run(tools, "srun", *options, "true")
    assert reply.stdout.startswith("srun -N 1 --nodes 2 --label ")


def test_pyxis_sets_the_variables_of_the_hook_except_those_that_are_kept(tools: Path) -> None:
    task = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4", "MASTER_ADDR": "n1"}
    step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2", "OMP_NUM_THREADS": "8"}
    command = ["sh", "-c", "echo $MASTER_ADDR $OMP_NUM_THREADS $RANK $LOCAL_RANK $WORLD_SIZE"]
    words = ["srun", "--container-image=./x.sqsh"]
    assert run(tools, *words, *command, **task, **step).stdout.splitlines()[-1] == "set-by-the-hook 1 3 1 4"
    kept = run(tools, *words, "--container-env=MASTER_ADDR,OMP_NUM_THREADS", *command, **task, **step)
    assert kept.stdout.splitlines()[-1] == "n1 8 3 1 4"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--container-image=nvcr.io/nvidia/pytorch:25.01", "a registry ends with #"),
        ("--container-image=x.sqsh --container-image=y", "specified multiple times"),
        ("--container-image=Not/Valid", "Invalid image reference"),
        ("--container-mounts=/a:/b", "--container-image or --container-name is required"),
        ("--container-image=./x.sqsh --container-mounts=a:/b", "could not add mount entry: a:/b"),
        ("--container-image=./x.sqsh --container-mounts=/a:", "invalid format: /a:"),
        ("--container-image=./x.sqsh --container-workdir=/nowhere", "couldn't chdir to /nowhere"),
        ("--environment=missing", "environment missing not found"),
        ("--environment=./wrong.toml", "mount"),
        ("--environment=./empty.toml", "image is missing"),
    ],
)
def test_srun_rejects_what_its_plugins_reject(tools: Path, options: str, why: str) -> None:
    (tools / "wrong.toml").write_text('image = "./x.sqsh"\nmount = []\n')
    (tools / "empty.toml").write_text("")
    reply = run(tools, "srun", *options.split(), "true")
    assert reply.returncode == 1
    assert why in reply.stderr


def test_a_definition_file_is_found_by_name_and_sets_its_variables(tools: Path) -> None:
    (tools / "x.toml").write_text(
        'image = "nvcr.io#nvidia/pytorch:25.01"\nmounts = ["${ROOT}:/in"]\n[env]\nA = "of ${B}"\n'
    )
    words = ["srun", "--environment=x", "--container-workdir=/in/bin", "sh", "-c", 'pwd; echo "$A"']
    reply = run(tools, *words, EDF_PATH=f"/nowhere:{tools}", B="host", ROOT=str(tools))
    assert reply.stdout.splitlines()[1:] == [str(tools / "bin"), "of host"]


def test_enroot_writes_a_placeholder_once(tools: Path) -> None:
    argv = ["enroot", "import", "--output", "x.sqsh", "docker://nvcr.io#nvidia/pytorch:25.01"]
    assert run(tools, *argv).returncode == 0
    assert (tools / "x.sqsh").exists()
    assert "File already exists" in run(tools, *argv).stderr
    assert "a registry ends with #" in run(tools, "enroot", "import", "docker://nvcr.io/a/b").stderr
    assert "Invalid argument" in run(tools, "enroot", "import", "a/b").stderr


@pytest.mark.parametrize("program", ["apptainer", "singularity"])
def test_apptainer_and_singularity_pull_and_have_variables_of_their_own(tools: Path, program: str) -> None:
    assert run(tools, program, "pull", "x.sif", "docker://a/b").returncode == 0
    assert "will not overwrite" in run(tools, program, "pull", "x.sif", "docker://a/b").stderr
    own = {f"{program.upper()}ENV_A": "1", "A": "2"}
    assert run(tools, program, "exec", "x.sif", "sh", "-c", "echo $A", **own).stdout == "1\n"
