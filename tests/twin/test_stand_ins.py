"""The declared stand-ins, run as a job runs them."""

import subprocess
from pathlib import Path

import pytest

import slurmgen.twin

STAND_INS = Path(slurmgen.twin.__file__).parent / "stand_ins"
DECLARED = "twin: stand-in for apptainer: my.sif is not opened; running on the host\n"
Reply = subprocess.CompletedProcess[str]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with the stand-ins under the names that jobs call."""
    for name, source in {"module": "module.sh", "ml": "module.sh", "apptainer": "engines.py"}.items():
        (tmp_path / name).write_text((STAND_INS / source).read_text())
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(tools: Path, *argv: str, **variables: str) -> Reply:
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/ada"} | variables
    return subprocess.run(
        [str(tools / argv[0]), *argv[1:]], env=environ, cwd=tools, capture_output=True, text=True
    )


MODULE_CALLS = """module purge|module load 2025/gpu cuda/12.9|module --force purge|module -q load x
module list|module use /opt/modules|module reset|module swap a b|ml|ml a b|ml -a|ml av|ml purge"""


@pytest.mark.parametrize("argv", MODULE_CALLS.replace("\n", "|").split("|"))
def test_module_reports_that_nothing_was_loaded(tools: Path, argv: str) -> None:
    reply = run(tools, *argv.split())
    assert (reply.returncode, reply.stdout) == (0, "")
    assert reply.stderr == f"twin: stand-in for '{argv}', nothing was loaded\n"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ("module laod x", "module has no subcommand 'laod'"),
        ("module load", "it names no module"),
        ("module unload", "it names no module"),
        ("ml load", "it names no module"),
    ],
)
def test_module_rejects_the_same_arguments_as_the_real_one(tools: Path, argv: str, why: str) -> None:
    reply = run(tools, *argv.split())
    assert (reply.returncode, reply.stderr) == (1, f"twin: stand-in for '{argv}': {why}\n")


def test_apptainer_runs_the_command_on_the_host_and_reports_it(tools: Path) -> None:
    reply = run(tools, "apptainer", "exec", "--nv", "my.sif", "echo", "--nv", "hello")
    assert (reply.returncode, reply.stdout, reply.stderr) == (0, "--nv hello\n", DECLARED)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--nvidia", "unknown flag: --nvidia"),
        ("--cleanen", "unknown flag: --cleanen"),
        ("-x", "unknown shorthand flag: 'x' in -x"),
        ("-ex", "unknown shorthand flag: 'x' in -x"),
        ("--bind", "requires at least 2 arg(s), only received 1"),
        ("--nv=perhaps", 'invalid argument "perhaps" for "--nv" flag'),
        ("--env A", 'invalid argument "A" for "--env" flag: A must be formatted as key=value'),
        ("--env A=1,b,C=", 'invalid argument "A=1,b,C=" for "--env" flag: b must be formatted as key=value'),
    ],
)
def test_apptainer_rejects_the_same_options_as_the_real_one(tools: Path, options: str, why: str) -> None:
    reply = run(tools, "apptainer", "exec", *options.split(), "my.sif", "true")
    assert reply.returncode == 1
    assert reply.stderr.splitlines()[0] == f'Error for command "exec": {why}'


@pytest.mark.parametrize(
    ("argv", "received"), [("exec", 0), ("exec --nv", 0), ("exec my.sif", 1), ("exec -B /a my.sif", 1)]
)
def test_apptainer_requires_an_image_and_a_command(tools: Path, argv: str, received: int) -> None:
    reply = run(tools, "apptainer", *argv.split())
    assert reply.returncode == 1
    assert f"requires at least 2 arg(s), only received {received}" in reply.stderr


@pytest.mark.parametrize("bind", ["/a:/b:rwx", "a:b", "/a:b"])
def test_apptainer_rejects_a_malformed_bind(tools: Path, bind: str) -> None:
    reply = run(tools, "apptainer", "exec", "--bind", bind, "my.sif", "true")
    assert reply.returncode == 255
    assert reply.stderr.startswith("FATAL:   while parsing bind path: ")


@pytest.mark.parametrize("bind", ["/a", "/a,/b", "/a:/b:ro", "/a:/b:ro,/c:/d", "/i.img:/x:image-src=/,id=2"])
def test_apptainer_accepts_binds_that_do_not_exist_locally(tools: Path, bind: str) -> None:
    reply = run(tools, "apptainer", "exec", "-B", bind, f"--bind={bind}", f"-B{bind}", "my.sif", "true")
    assert (reply.returncode, reply.stderr) == (0, DECLARED)


def test_apptainer_reports_a_bind_with_an_unset_variable(tools: Path) -> None:
    reply = run(tools, "apptainer", "exec", "-B", ":/opt/nccl", "my.sif", "true")
    assert reply.stderr == "twin: bind ':/opt/nccl' has no source; is a variable in it unset?\n" + DECLARED


def seen(tools: Path, *options: str, **variables: str) -> dict[str, str]:
    """The environment of the command."""
    reply = run(tools, "apptainer", "exec", *options, "my.sif", "env", "-0", **variables)
    assert reply.returncode == 0, reply.stderr
    return dict(pair.split("=", 1) for pair in reply.stdout.split("\0") if pair)


def test_env_overrides_apptainerenv_which_overrides_the_host(tools: Path) -> None:
    found = seen(tools, "--env", "A=1", A="3", B="3", C="3", APPTAINERENV_A="2", APPTAINERENV_B="2")
    assert (found["A"], found["B"], found["C"]) == ("1", "2", "3")
    assert not any(name.startswith("APPTAINERENV_") for name in found)


def test_env_with_one_equals_sign_keeps_its_commas(tools: Path) -> None:
    assert seen(tools, "--env", "IFNAMES=hsn0,hsn1")["IFNAMES"] == "hsn0,hsn1"


def test_env_with_several_equals_signs_is_a_list(tools: Path) -> None:
    found = seen(tools, "--env", 'A=1,"B=x,y",C=', "--env", "A=2")
    assert (found["A"], found["B"], found["C"]) == ("2", "x,y", "")


def test_cleanenv_keeps_the_same_variables_as_the_real_one(tools: Path) -> None:
    found = seen(tools, "--cleanenv", "--env", "A=1", A="3", B="3", APPTAINERENV_C="2", https_proxy="p")
    assert (found["A"], found["C"], found["https_proxy"], found["LANG"]) == ("1", "2", "p", "C")
    assert "B" not in found


def test_the_hosts_library_path_is_not_passed_by_default(tools: Path) -> None:
    assert "LD_LIBRARY_PATH" not in seen(tools, LD_LIBRARY_PATH="/host")
    assert seen(tools, APPTAINERENV_LD_LIBRARY_PATH="/opt")["LD_LIBRARY_PATH"] == "/opt"


def test_pwd_is_the_working_directory_of_the_command(tools: Path) -> None:
    bound = ("--bind", f"{tools}:/workspace", "--pwd", "/workspace")
    assert run(tools, "apptainer", "exec", *bound, "my.sif", "pwd").stdout == f"{tools}\n"
    missing = run(tools, "apptainer", "exec", "--pwd", "/nowhere", "my.sif", "pwd")
    assert (missing.returncode, missing.stderr) == (255, "FATAL:   /nowhere: No such file or directory\n")


def test_apptainer_returns_the_exit_code_of_the_command(tools: Path) -> None:
    assert run(tools, "apptainer", "exec", "my.sif", "sh", "-c", "exit 7").returncode == 7
    assert run(tools, "apptainer", "exec", "my.sif", "no-such-command").returncode == 255


def test_shellcheck_finds_nothing_in_the_shell_stand_in() -> None:
    subprocess.run(["shellcheck", STAND_INS / "module.sh"], check=True)
