"""The check in a job's script, the files that it needs, and `slurmgen preflight`."""

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from slurmgen.files import PREFLIGHT, bundled
from slurmgen.launchers import LAUNCHERS
from slurmgen.lint import lint_text
from slurmgen.plan import resolve
from slurmgen.render import render
from slurmgen.request.model import Request
from slurmgen.sites.model import Preflight
from slurmgen.sites.profiles import load_site
from tests.conftest import Run
from tests.preflight.checks import PROGRAM

OLIVIA = Request(gpus=8, account="nn1234k", preflight=True)


def step(request: Request, site: str, **changes: object) -> list[str]:
    """The parts of the check in a plan."""
    return [" ".join(words) for words in resolve(request, replace(load_site(site), **changes)).preflight]


def test_a_job_without_the_option_has_no_check() -> None:
    assert step(Request(), "generic") == []
    assert PREFLIGHT not in render(resolve(Request(), load_site("generic")))


def test_the_check_has_one_task_per_node() -> None:
    assert step(Request(framework="lightning", gpus=8, nodes=2, preflight=True), "generic") == [
        'python3 -B slurmgen_preflight job --gpus=4 --rendezvous="$MASTER_ADDR:$MASTER_PORT" --',
        "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 --export=ALL",
        "python3 -B slurmgen_preflight node",
    ]


def test_the_check_of_a_job_without_rendezvous_names_none() -> None:
    check = step(Request(gpus=1, preflight=True), "generic")[0]
    assert check == "python3 -B slurmgen_preflight job --gpus=1 --"


def test_the_check_runs_in_the_container_of_the_ranks() -> None:
    container = step(OLIVIA, "olivia")[2]
    assert container.startswith("apptainer exec --nv ")
    assert container == " ".join(resolve(OLIVIA, load_site("olivia")).step.lines[1])


@pytest.mark.parametrize("engine", ["podman", "pyxis"])
def test_the_address_of_the_job_reaches_a_container_that_gets_named_variables_only(engine: str) -> None:
    request = Request(container="ghcr.io/lab/image:1", container_engine=engine, preflight=True)
    assert any("SLURMGEN_PREFLIGHT" in part for part in step(request, "generic"))


def test_the_check_passes_the_options_of_srun_and_the_environment() -> None:
    request = Request(preflight=True, sbatch={"export": "NONE"})
    assert "--export=ALL" in step(request, "generic")[1]


def test_a_profile_may_demand_a_bandwidth() -> None:
    check = step(Request(preflight=True), "generic", preflight=Preflight(min_bandwidth=1500.0))
    assert check[0] == "python3 -B slurmgen_preflight job --gpus=1 --min-bandwidth=1500 --"


@pytest.mark.parametrize("framework", LAUNCHERS)
def test_a_script_with_a_check_has_no_lint_finding(framework: str) -> None:
    site = load_site("daic")
    request = Request(framework=framework, script="train.py", gpus=2, account="ewi-insy-prb", preflight=True)
    assert lint_text(render(resolve(request, site)), site) == ()


def test_the_header_names_the_option() -> None:
    assert "--preflight" in resolve(OLIVIA, load_site("olivia")).command


def test_the_program_is_sent_with_such_a_job_only(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "train.py").touch()
    args = ("submit", "--script", "train.py", "--via", "local", "--dry-run")
    program = f"  {PREFLIGHT}/__main__.py\n"
    assert program in slurmgen(*args, "--preflight").stderr
    assert program not in slurmgen(*args).stderr


def test_the_copy_of_a_project_is_sent_instead(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / PREFLIGHT).mkdir()
    (tmp_path / PREFLIGHT / "__main__.py").touch()
    reply = slurmgen("submit", "--script", "train.py", "--via", "local", "--dry-run", "--preflight")
    assert reply.stderr.count(f"  {PREFLIGHT}/") == 1


def test_preflight_alone_trains_nothing(slurmgen: Run) -> None:
    reply = slurmgen("preflight", "--nodes", "2", "--gpus", "4", "--via", "local", "--dry-run")
    assert reply.returncode == 0, reply.stderr
    assert "python3 -B slurmgen_preflight job --gpus=2 --" in reply.stdout
    assert reply.stdout.endswith("  true\n")


def test_preflight_alone_requests_all_gpus_of_its_nodes(slurmgen: Run) -> None:
    args = ("--site", "olivia", "--account", "nn1234k", "--nodes", "2", "--dry-run")
    assert "#SBATCH --gpus-per-node=4\n" in slurmgen("preflight", *args).stdout


@pytest.mark.parametrize("nodes", [1, 2])
def test_preflight_alone_may_leave_the_gpus_out(nodes: int, tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text('site = "generic"\n[defaults]\ngpu_type = "a100"\n')
    script = slurmgen("preflight", "--gpus", "0", "--nodes", str(nodes), "--via", "local", "--dry-run").stdout
    assert "python3 -B slurmgen_preflight job --gpus=0 " in script
    assert "gres" not in script


def test_preflight_alone_checks_the_nodes_that_the_user_names(tmp_path: Path, slurmgen: Run) -> None:
    text = 'site = "generic"\n[defaults]\nexclude = ["n1"]\n[defaults.sbatch]\nexclude = "n2"\n'
    (tmp_path / "slurmgen.toml").write_text(text)
    script = slurmgen("preflight", "--nodelist", "n1,n2", "--via", "local", "--dry-run").stdout
    assert "#SBATCH --nodelist=n1,n2\n" in script
    assert "#SBATCH --nodes=2\n" in script
    assert "--exclude" not in script


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--nodelist", "n[1-2]"], "'n[1-2]' is not the name of a node. Name each node on its own."),
        (["--nodelist", "n1", "--nodes", "2"], "--nodes and --nodelist exclude each other."),
        (["--copy", "--nodes", "2"], "--nodes has no effect with --copy."),
        (["--gpus", "-1"], "Invalid value for '--gpus'"),
    ],
)
def test_a_wrong_command_line_is_refused(args: list[str], message: str, slurmgen: Run) -> None:
    reply = slurmgen("preflight", *args)
    assert reply.returncode == 2
    assert message in reply.stderr


def test_preflight_alone_takes_only_nodes_and_software_from_a_project(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text(
        'site = "generic"\n[defaults]\naccount = "a1"\nmodules = ["cuda"]\nbefore = ["cp data ."]\n'
        'requeue = true\ngpus = 8\ncontainer = "image.sif"\nscript_args = ["--epochs"]\n'
        '[defaults.sbatch]\narray = "1-9"\nconstraint = "fast"\n'
    )
    (tmp_path / "image.sif").touch()
    script = slurmgen("preflight", "--via", "local", "--dry-run").stdout
    assert "#SBATCH --account=a1\n" in script
    assert "#SBATCH --constraint=fast\n" in script
    assert "module load cuda\n" in script
    for left_out in ("cp data", "--array", "--requeue", "image.sif", "--epochs", "--gpus-per-node=8"):
        assert left_out not in script


def test_the_program_is_copied_into_a_project_once(tmp_path: Path, slurmgen: Run) -> None:
    assert slurmgen("preflight", "--copy").returncode == 0
    names = {path.name for path in Path(PROGRAM).glob("*.py")}
    assert {path.name for path in (tmp_path / PREFLIGHT).iterdir()} == names
    again = slurmgen("preflight", "--copy")
    assert (again.returncode, again.stderr) == (
        2,
        "error: slurmgen_preflight exists already. Remove it first, or keep it.\n",
    )


def test_a_script_in_a_project_without_the_program_has_a_warning(tmp_path: Path, slurmgen: Run) -> None:
    job = '[job.train]\nsite = { generic = {} }\nscript = "train.py"\npreflight = true\n'
    (tmp_path / "slurmgen.toml").write_text(job)
    (tmp_path / "train.py").touch()
    warning = "`slurmgen preflight --copy` makes one for sbatch"
    assert warning in slurmgen("render", "--site", "generic", "--write").stderr
    assert warning in slurmgen("check").stderr
    assert slurmgen("preflight", "--copy").returncode == 0
    assert warning not in slurmgen("check").stderr


@pytest.mark.parametrize(
    ("folder", "message"),
    [(True, "the preflight needs python3"), (False, "run slurmgen preflight --copy there")],
)
def test_a_script_says_what_its_check_lacks(tmp_path: Path, message: str, *, folder: bool) -> None:
    script = render(resolve(Request(preflight=True), load_site("generic")))
    check = script[script.index("[[ -d slurmgen_preflight") : script.index("python3 -B")]
    if folder:
        (tmp_path / PREFLIGHT).mkdir()
    reply = subprocess.run(
        [shutil.which("bash") or "bash", "-c", check],
        cwd=tmp_path,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 1
    assert message in reply.stderr


@pytest.mark.parametrize("path", sorted(bundled(PREFLIGHT).glob("*.py")), ids=lambda path: path.name)
def test_the_program_has_the_syntax_of_python_3_6(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))
