"""Lines and steps around the first step, and staged data, in the plan."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import Request, load_job, load_site, render, resolve
from slurmgen.errors import ConfigError, RequestError
from slurmgen.plan import software
from slurmgen.request.model import Then, merge
from slurmgen.sites.model import LaunchOptions, When
from slurmgen.sync.files import missing_files, needed_files, project_files
from tests.test_script import shellcheck

STAGE = {"stage": ("/data/own.bin",)}


def script(site: str = "generic", **asked: Any) -> str:
    text = render(resolve(Request(**asked), load_site(site)))
    assert shellcheck("-", text=text) == ""
    return text


@pytest.mark.parametrize(
    "asked",
    [
        {"after": ("echo",)},
        {"then": (Then(script="b.py"),)},
        {"then": (Then(module="a.b", framework="lightning"),), "after": ("echo",), "gpus": 4, "nodes": 2},
        {"then": (Then(script="b.py"),), "requeue": True},
        {**STAGE, "stage_archives": ("~/a b/it's.tar.zst", "$SCRATCH/x.tgz"), "after": ("echo",)},
        {**STAGE, "container": "/x.sif", "gpus": 4, "nodes": 2, "sbatch": {"export": "NONE"}},
    ],
)
def test_shellcheck_finds_nothing_around_the_step(asked: dict[str, Any]) -> None:
    assert script(**asked).startswith("#!/bin/bash\n")


def test_lines_are_copied_as_they_are() -> None:
    text = script(before=("export A='b'",), after=('cp -r "$A" ~/x',))
    assert text.index("\nexport A='b'\n") < text.index("\nsrun ") < text.index('\ncp -r "$A" ~/x\n')


def login_script(site: str = "generic", **asked: Any) -> str:
    text = software.login_script(resolve(Request(**asked, before_login=("echo 'a'",)), load_site(site)))
    assert shellcheck("--shell=bash", "-", text=text) == ""
    return text


def test_lines_for_the_login_node_are_comments_of_the_header() -> None:
    header, _, rest = script(before_login=("echo 'a'",)).partition("\n#SBATCH")
    assert (
        "`slurmgen submit` runs these lines on the login node, once; sbatch does not:\n#     echo 'a'"
        in header
    )
    assert "echo 'a'" not in rest


def test_lines_on_the_login_node_have_the_software_and_the_own_variables_of_the_job() -> None:
    text = login_script(
        modules=("cuda",), python_env="venv:~/v", env={"HF_HOME": "$SCRATCH/hf"}, gpus=2, nodes=2
    )
    software, own, line = (
        text.index("module load cuda"),
        text.index('export HF_HOME="$SCRATCH/hf"'),
        "\necho 'a'\n",
    )
    assert software < text.index('export PATH="$HOME/v/bin:$PATH"') < own < text.index(line)
    assert "OMP_NUM_THREADS" not in text


def test_a_login_node_of_another_architecture_loads_no_software() -> None:
    text = login_script("isambard-ai", account="a", modules=("cuda",))
    assert (
        text.index('if [ "$machine" = aarch64 ]; then')
        < text.index("module load cuda")
        < text.index("\nfi\n")
    )


def test_a_job_replaces_the_lines_of_the_defaults() -> None:
    assert merge(Request(before=("a",), after=("b",)), Request(before=())).before == ()


def test_the_command_of_the_header_omits_what_no_option_sets() -> None:
    asked = Request(before=("a",), after=("b",), then=(Then(command=("c",)),), **STAGE)  # type: ignore[arg-type]
    assert resolve(asked, load_site("generic")).command == "slurmgen render --site generic"


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ({"before": ("a\nb",)}, "before has a control character"),
        ({"before_login": ("a\nb",)}, "before_login has a control character"),
        ({"before_login": ("",)}, "before_login is empty"),
        ({"after": ("a\tb",)}, "after has a control character"),
        ({"before": ("a", "")}, "before is empty"),
        ({"then": (Then(command=("a\nb",)),)}, "then has a control character"),
        ({"then": (Then(framework="ddp"),)}, "then: a step names no program"),
        ({"then": (Then(script="a.py", module="b"),)}, "--script and --python-module exclude each other"),
        ({"then": (Then(script="a.py", framework="x"),)}, "unknown framework 'x'"),
        (
            {"then": (Then(script="a.py", script_args=("$SLURM_PROCID",)),), "gpus": 2, "nodes": 2},
            r"has \$SLURM_PROCID",
        ),
        ({"stage": ("data/a.bin",)}, "stage: 'data/a.bin' is not the full path of a file"),
        ({"stage": ("/data/",)}, "stage: '/data/' is not the full path of a file"),
        *(
            ({"stage": (file,)}, "is not the full path of a file")
            for file in ("~", "..", "/", "~/..", "/a/.")
        ),
        (
            {"script_args": ("$STAGED_DATA/x",)},
            r"'\$STAGED_DATA/x' has \$STAGED_DATA, but the job stages no data",
        ),
        ({"env": {"DATA": "$STAGED_DATA"}}, r"--env DATA has \$STAGED_DATA"),
        ({"then": (Then(script="a.py", script_args=("$STAGED_DATA",)),)}, "the job stages no data"),
        ({"stage_archives": ("/data/a.zip",)}, "stage_archives: '/data/a.zip' is not a tar archive"),
        ({"stage": ("/a/x.tar",), "stage_archives": ("/b/x.tar",)}, "two staged files have the name 'x.tar'"),
        ({**STAGE, "env": {"STAGED_DATA": "/x"}}, "--env STAGED_DATA would have no effect"),
        ({"after": ("a",), "env": {"status": "1"}}, "--env status would have no effect"),
    ],
)
def test_a_request_that_cannot_work_is_refused(asked: dict[str, Any], fact: str) -> None:
    with pytest.raises(RequestError, match=fact):
        resolve(Request(**asked), load_site("generic"))


def test_a_further_step_has_the_tasks_of_its_own_framework() -> None:
    then = (
        Then(script="b.py"),
        Then(script="c.py", framework="srun"),
        Then(command=("d",), framework="python"),
    )
    text = script(gpus=8, nodes=2, then=then)
    assert [line for line in text.splitlines() if line.startswith("srun ")] == [
        "srun --cpus-per-task=16 --kill-on-bad-exit=1 --export=ALL \\",
        "srun --cpus-per-task=16 --kill-on-bad-exit=1 --export=ALL \\",
        "srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=4 --kill-on-bad-exit=1 \\",
        "srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 \\",
    ]


def test_options_of_the_launcher_apply_to_further_steps_of_the_same_framework_only() -> None:
    both = (Then(script="b.py"), Then(script="c.py", framework="srun"))
    text = script(gpus=2, launcher_args=("--max-restarts=1",), then=both)
    assert text.count("--max-restarts=1 ") == 2 + text.partition("\n#SBATCH")[0].count("--max-restarts=1 ")


def test_a_further_step_gets_a_rendezvous_that_the_first_does_not_need() -> None:
    first = {"framework": "python", "command": ("a",), "gpus": 2}
    assert "MASTER_ADDR" not in script(**first)
    assert "export MASTER_ADDR" in script(**first, then=(Then(script="b.py", framework="srun"),))


@pytest.mark.parametrize(
    ("site", "folder"),
    [
        ("generic", '"${TMPDIR:-/tmp}/staged-$SLURM_JOB_ID"'),
        ("narval", '"$SLURM_TMPDIR/staged-$SLURM_JOB_ID"'),
    ],
)
def test_data_goes_to_the_local_storage_of_the_site(site: str, folder: str) -> None:
    assert f"\nexport STAGED_DATA={folder}\n" in script(site, **STAGE)


def test_the_engine_binds_the_folder_of_the_data() -> None:
    assert ' --bind="$STAGED_DATA" /x.sif' in script(container="/x.sif", **STAGE)


@pytest.mark.parametrize("engine", ["edf", "charliecloud"])
def test_an_engine_that_cannot_bind_the_folder_of_the_data_is_refused(engine: str) -> None:
    with pytest.raises(RequestError, match=f"container engine {engine}"):
        script(container="/x.sqfs" if engine == "charliecloud" else "x", container_engine=engine, **STAGE)


def test_slurmgen_toml_has_lines_steps_and_data(tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text(
        '[defaults]\nbefore = ["a"]\n[job.x]\nscript = "a.py"\nafter = ["b"]\nstage = ["/c"]\n'
        '[[job.x.then]]\nscript = "d.py"\n[[job.x.then]]\ncommand = ["e", "f"]\nframework = "python"\n'
    )
    request = load_job("x", project_dir=tmp_path).request
    assert (request.before, request.after, request.stage) == (("a",), ("b",), ("/c",))
    assert request.then == (Then(script="d.py"), Then(command=("e", "f"), framework="python"))


def test_an_unknown_key_of_a_further_step_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text('[job.x]\nscript = "a.py"\n[[job.x.then]]\ngpus = 2\n')
    with pytest.raises(ConfigError, match=r"slurmgen\.toml:[34]: .*gpus"):
        load_job("x", project_dir=tmp_path)


@pytest.mark.parametrize(
    "own",
    [
        {"env": {"STAGED_DATA": "/x"}},
        {"before": ("export STAGED_DATA=/x",)},
        {"script_args": ("$$STAGED_DATA",)},
    ],
)
def test_a_job_without_staged_data_may_set_the_variable_itself(own: dict[str, Any]) -> None:
    assert script(**{"script_args": ("$STAGED_DATA",), **own})


def test_a_variable_that_uses_the_staged_data_follows_it() -> None:
    text = script(**STAGE, env={"DATA": "$STAGED_DATA/x"})
    assert text.index("\nexport STAGED_DATA=") < text.index('\nexport DATA="$STAGED_DATA/x"\n')


def test_the_scripts_of_further_steps_must_exist(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    plan = resolve(Request(script="a.py", then=(Then(script="b.py"),)), load_site("generic"))
    assert missing_files(plan, tmp_path) == [f"there is no b.py in {tmp_path}, which the job runs"]
    with pytest.raises(RequestError, match=r"the script 'b\.py'"):
        project_files(tmp_path, needed_files(plan))


def test_staging_reads_on_all_cpus_of_a_node() -> None:
    text = script(gpus=4, cpus_per_gpu=6, framework="srun", **STAGE)
    step = "srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --export=ALL --cpus-per-task=24"
    assert f"\n{step} \\\n  bash -c " in text


@pytest.mark.parametrize(
    "table", [When(env={"A": "1"}), When(launch=LaunchOptions(before=("a",))), When(refuse="no such jobs")]
)
def test_a_further_step_that_the_site_treats_differently_is_refused(table: When) -> None:
    per_gpu = structs.replace(table, tasks="per-gpu")
    site = structs.replace(load_site("generic"), when={"x": per_gpu})
    request = Request(script="a.py", gpus=2, then=(Then(script="b.py", framework="srun"),))
    with pytest.raises(RequestError, match=r"then: the site sets|no such jobs"):
        resolve(request, site)
    assert resolve(structs.replace(request, then=()), site)


def test_the_first_look_at_the_folder_of_staged_data_follows_no_link(tmp_path: Path) -> None:
    """Between two looks, another user could exchange it for a folder of their own."""
    text, folder = script(**STAGE), tmp_path / "staged"
    functions = text[text.index("stage() {") :].partition("\n}\n")[0] + "\n}\n"
    (tmp_path / "data").write_text("x")
    folder.mkdir()
    run = ["bash", "-c", f"{functions}stage copy {tmp_path}/data", "bash"]
    kinds = "trace=execve,statx,newfstatat,?stat,?lstat"
    trace = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", kinds]
    env = {**os.environ, "STAGED_DATA": str(folder)}
    subprocess.run([*trace, *run], env=env, check=True)
    calls = (tmp_path / "trace").read_text().splitlines()
    making = {line.split()[0] for line in calls if "execve(" in line and "/mkdir" in line}
    own = [line for line in calls if f'"{folder}"' in line and line.split()[0] not in making]
    looks = [line for line in own if "stat" in line.split()[1]]
    assert "NOFOLLOW" in looks[0] or "lstat" in looks[0], own
    assert len(looks) <= 2, own  # the other is that of cd
    (tmp_path / "link").symlink_to(folder)
    for other in ("link", "data"):
        refused = subprocess.run(run, env=env | {"STAGED_DATA": f"{tmp_path}/{other}"}, capture_output=True)
        assert refused.returncode != 0
