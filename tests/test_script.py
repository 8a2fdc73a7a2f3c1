"""The text of a batch script."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import Request, lint, load_site, render, resolve
from slurmgen.errors import ConfigError
from slurmgen.files import BUNDLED_SCRIPTS, bundled
from slurmgen.launchers import LAUNCHERS
from slurmgen.plan.explain import explain
from slurmgen.request.model import Sweep, Then
from slurmgen.sites.model import Env, Launch, Modules, Rendezvous
from tests.conftest import Run
from tests.support.golden import golden_requests
from tests.support.plans import plan_of, site_with
from tests.support.programs import write_programs
from tests.test_paths import OTHER_USER, as_root

GOLDEN = Path(__file__).parent / "golden"
CASES = golden_requests()


def script_of(site: str, **asked: object) -> str:
    return render(plan_of(site, **asked))


@pytest.mark.parametrize("name", CASES)
def test_the_script_equals_the_golden_file(name: str, request: pytest.FixtureRequest) -> None:
    site, asked = CASES[name]
    text = render(resolve(asked, load_site(site)))
    path = GOLDEN / f"{name}.sbatch"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_its_request() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sbatch")} == set(CASES)


def test_every_bundled_site_has_golden_scripts() -> None:
    assert {site for site, _ in CASES.values()} == {
        path.stem for path in bundled("site_profiles").glob("*.toml")
    }


def shellcheck(*files: str, text: str = "") -> str:
    """The findings of shellcheck with all optional checks, except those of style (braces, `[[`)."""
    checks = "avoid-nullary-conditions,check-extra-masked-returns,check-set-e-suppressed,deprecate-which"
    command = ["shellcheck", "--severity=style", f"--enable={checks},quote-safe-variables", *files]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stdout


def test_shellcheck_finds_nothing_in_any_golden_script() -> None:
    assert shellcheck(*sorted(map(str, GOLDEN.glob("*.sbatch")))) == ""


VARIANTS = {
    "uv": Request(python_env="uv", script="train.py"),
    "uv in a folder": Request(python_env="uv:my project", script="train.py"),
    "venv": Request(python_env="venv:/opt/my env"),
    "conda": Request(python_env="conda:torch"),
    "c10d": Request(gpus=4, nodes=2, rendezvous="c10d"),
    "export": Request(sbatch={"export": "NONE"}),
    "signal": Request(gpus=2, sbatch={"signal": "R:USR2@120"}),
    "array": Request(sbatch={"array": "0-3"}, log_dir="logs"),
    "container": Request(container="/a b.sif", binds=("$HOME/data:/data",), gpus=4, nodes=2),
    "values": Request(env={"A": "it's", "B": "a b"}, script_args=("--name", "a b", "it's")),
    "variables": Request(
        env={"A": "$HOME/it's", "B": "~/a b", "C": "$$HOME `x` \\"},
        script_args=("$SLURM_ARRAY_TASK_ID", "~/x"),
    ),
    "variables in a container": Request(container="~/x.sif", binds=("~/data:/data", "$SCRATCH"), gpus=2),
    "variables in uv": Request(python_env="uv:$SCRATCH/my project", script="train.py"),
    "variables in venv": Request(python_env="venv:~/my env", script="train.py"),
    "a variable in venv": Request(python_env="venv:$HOME/env", script="train.py"),
    "labels": Request(gpus=2, label_ranks=True),
    "staged segments": Request(stage=("/data/a.bin",), segments=3),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_shellcheck_finds_nothing_for_any_request(name: str) -> None:
    assert shellcheck("-", text=render(resolve(VARIANTS[name], load_site("generic")))) == ""


def test_shellcheck_finds_nothing_with_a_rendezvous_suffix() -> None:
    site = site_with(rendezvous=Rendezvous(suffix="i", host="ip"))
    assert shellcheck("-", text=render(resolve(Request(gpus=4, nodes=2), site))) == ""


HOSTILE = [
    "a b",
    "$(touch x)",
    "`touch x`",
    "'; touch x; '",
    '"; touch x; "',
    "a\\",
    "#",
    "*",
    "-x",
    "é",
    "",
]


def words_of(value: str, folder: Path) -> list[str]:
    """A value as a variable and as an argument, recorded by stand-ins for the programs of the script."""
    text = script_of("generic", gpus=2, nodes=1, env={"VALUE": value}, script_args=(value, "end"))
    torchrun = r'printf "%s\0" "$VALUE" "$@" > words'
    recorder = write_programs(folder / "bin", {"srun": 'shift 3; exec "$@"', "torchrun": torchrun})
    subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env={"PATH": f"{recorder}:/usr/bin:/bin", "HOME": "/home/ada", "TASK": "a  b*", "EVIL": "$(touch x)"},
        check=True,
        capture_output=True,
    )
    assert shellcheck("-", text=text) == ""
    words = (folder / "words").read_text().split("\0")
    return [words[0], *words[-3:-1]]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("$HOME/x", "/home/ada/x"),
        ("${HOME}s", "/home/adas"),
        ("~/my data", "/home/ada/my data"),
        ("~", "/home/ada"),
        ("a~/x", "a~/x"),
        ("--fold=$TASK", "--fold=a  b*"),
        ("$EVIL", "$(touch x)"),
        ("$$HOME", "$HOME"),
        ("a$$b $TASK", "a$b a  b*"),
        ("$$(touch x) ${TASK", "$(touch x) ${TASK"),
        ("$1 $? ${TASK:-x}", "$1 $? ${TASK:-x}"),
    ],
)
def test_only_plain_variables_and_the_home_expand(value: str, word: str, tmp_path: Path) -> None:
    assert words_of(value, tmp_path) == [word, word, "end"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "words"]


@pytest.mark.parametrize("value", HOSTILE)
def test_arguments_and_variables_reach_the_training_script_unchanged(value: str, tmp_path: Path) -> None:
    assert words_of(value, tmp_path) == [value, value, "end"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "words"]


def test_only_comments_precede_the_last_directive() -> None:
    for path in GOLDEN.glob("*.sbatch"):
        lines = path.read_text().splitlines()
        last = max(n for n, line in enumerate(lines) if line.startswith("#SBATCH"))
        assert all(line.startswith("#") for line in lines[:last]), path


def test_the_header_names_the_job_site_ranks_and_command() -> None:
    head = script_of("daic", gpus=4, nodes=2, account="ewi-insy").splitlines()[1:3]
    assert head == [
        "# train_ddp on daic: ddp, 4 ranks on 2 nodes with 2 GPUs each",
        "# Made by: slurmgen render --site daic --gpus 4 --nodes 2 --account ewi-insy",
    ]


def test_the_command_in_the_header_renders_the_same_script(slurmgen) -> None:  # type: ignore[no-untyped-def]
    text = script_of(
        "olivia",
        framework="lightning",
        gpus=8,
        account="nn1k",
        binds=("/data",),
        modules=("X/1",),
        sbatch={"hold": "", "comment": "two words"},
        script="train.py",
        script_args=("--lr", "0.1", "a'b"),
    )
    command = shlex.split(text.splitlines()[2].removeprefix("# Made by: "))
    assert slurmgen(*command[1:]).stdout == text


NN1K = {"account": "nn1k"}


@pytest.mark.parametrize(
    ("site", "asked", "line"),
    [
        ("olivia", {**NN1K, "gpus": 4}, "#SBATCH --cpus-per-task=288"),
        ("olivia", {**NN1K, "gpus": 4, "framework": "lightning"}, "#SBATCH --cpus-per-task=72"),
        ("olivia", {**NN1K, "gpus": 8, "container": "none"}, "export NCCL_PROTO='^LL128'"),
        ("olivia", {**NN1K, "gpus": 8, "container": "none"}, "export FI_CXI_RX_MATCH_MODE=hybrid"),
        ("generic", {"gpus": 1}, 'export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}"'),
        ("generic", {"log_dir": "logs", "sbatch": {"array": "0-3"}}, "#SBATCH --output=logs/%x-%A_%a.out"),
        ("generic", {"sbatch": {"comment": "two words"}}, '#SBATCH --comment="two words"'),
        ("generic", {"requeue": True, "time": "1"}, "#SBATCH --signal=USR2@15"),  # its last quarter
        ("generic", {"requeue": True, "time": "8:00:00"}, "#SBATCH --signal=USR2@120"),
    ],
)
def test_a_script_has_the_line_of_its_request(site: str, asked: dict[str, Any], line: str) -> None:
    assert line in script_of(site, **asked).splitlines()


@pytest.mark.parametrize(("gpus", "count"), [(1, 0), (2, 1)])
def test_daic_disables_peer_to_peer_with_several_gpus(gpus: int, count: int) -> None:
    assert script_of("daic", gpus=gpus, account="a").count("export NCCL_P2P_DISABLE=1\n") == count


def test_a_requested_variable_overrides_the_site() -> None:
    text = script_of("daic", gpus=2, account="a", env={"NCCL_P2P_DISABLE": "0"})
    assert text.count("NCCL_P2P_DISABLE") - text.splitlines()[2].count("NCCL_P2P_DISABLE") == 1
    assert "export NCCL_P2P_DISABLE=0\n" in text


def test_the_container_is_started_inside_the_step() -> None:
    text = script_of("daic", gpus=2, account="a", container="/images/my torch.sif", binds=("/data:/in",))
    step = text[text.index("srun ") :]
    assert (
        "apptainer exec --nv --bind=\"$HOME\" --bind=/tudelft.net --bind=/data:/in '/images/my torch.sif'"
        in step
    )
    assert "uv sync" not in text


@pytest.mark.parametrize(
    ("python_env", "lines"),
    [
        (
            "uv",
            [
                'venv="$(readlink -f .venv)"',
                'UV_PROJECT_ENVIRONMENT="$venv" flock .venv.lock uv sync',
                'export PATH="$venv/bin:$PATH"',
            ],
        ),
        (
            "uv:sub dir",
            [
                "venv=\"$(readlink -f 'sub dir'/.venv)\"",
                "UV_PROJECT_ENVIRONMENT=\"$venv\" flock 'sub dir'/.venv.lock uv sync --project 'sub dir'",
            ],
        ),
        (
            "venv:/opt/my env",
            [
                "[ -x '/opt/my env'/bin/python ]"
                " || { echo 'there is no Python in' '/opt/my env' >&2; exit 1; }",
                'export PATH="/opt/my env/bin:$PATH"',
            ],
        ),
        ("venv:~/my env", ['export PATH="$HOME/my env/bin:$PATH"']),
        ("venv:env", ['export PATH="$PWD/env/bin:$PATH"']),
        ("venv:$HOME/venv", ['export PATH="$HOME/venv/bin:$PATH"']),
        ("uv:$SCRATCH/p", ['venv="$(readlink -f "$SCRATCH/p"/.venv)"']),
        ("conda:$HOME/envs/x", ['conda activate "$HOME/envs/x"']),
        ("conda:torch", ['hook="$(conda shell.bash hook)"', 'eval "$hook"', "conda activate torch"]),
    ],
)
def test_the_python_environment_is_created_once_before_the_step(python_env: str, lines: list[str]) -> None:
    text = script_of("generic", python_env=python_env, script="train.py")
    assert [line for line in text.partition("srun ")[0].splitlines() if line in lines] == lines


def test_the_bundled_training_has_its_own_uv_project() -> None:
    assert " flock training/.venv.lock uv sync --project training\n" in script_of("daic", account="a")
    assert " flock .venv.lock uv sync\n" in script_of("daic", account="a", script="train.py")


@pytest.mark.parametrize("script", sorted(BUNDLED_SCRIPTS))
def test_every_bundled_script_uses_its_own_uv_project(script: str) -> None:
    text = script_of("generic", python_env="uv", script=script)
    assert " flock training/.venv.lock uv sync --project training\n" in text


INIT = Modules(init=("module purge", "ulimit -n 4096"))


@pytest.mark.parametrize(
    ("modules", "asked", "lines"),
    [
        (INIT, {}, ["module purge", "ulimit -n 4096"]),
        (INIT, {"container": "/x.sif"}, ["module purge", "ulimit -n 4096"]),
        (INIT, {"modules": ("a",)}, ["module purge", "ulimit -n 4096", "module load a"]),
        (INIT, {"modules": ()}, []),
        (structs.replace(INIT, load=("b",)), {}, ["module purge", "ulimit -n 4096", "module load b"]),
        (structs.replace(INIT, load=("b",)), {"container": "/x.sif"}, []),
    ],
)
def test_init_commands_run_with_and_without_modules(
    modules: Modules, asked: dict[str, Any], lines: list[str]
) -> None:
    plan = resolve(Request(**asked), site_with(modules=modules))
    assert list(plan.setup.modules) == lines
    assert "".join(f"{line}\n" for line in lines) in render(plan)


TASK_ENV = Env(
    task={"ROCR_VISIBLE_DEVICES": "$SLURM_LOCALID", "TEXT": "it's $SLURM_PROCID"},
    notes={"ROCR_VISIBLE_DEVICES": "One GPU for each task."},
)
TASKS = 'shift 3; for i in 0 1 2; do SLURM_LOCALID=$i SLURM_PROCID=$((i + 3)) "$@" || exit; done'
"A stand-in for srun that starts three tasks, one after the other."


def test_a_variable_of_env_task_differs_between_tasks(tmp_path: Path) -> None:
    site = site_with(env=TASK_ENV)
    plan = resolve(Request(framework="lightning", gpus=3, container="~/x.sif", requeue=True), site)
    text = render(plan)
    assert shellcheck("-", text=text) == ""
    assert "# ROCR_VISIBLE_DEVICES: One GPU for each task.\n" in text
    seen = 'echo "$ROCR_VISIBLE_DEVICES $TEXT" >> seen'
    tools = write_programs(tmp_path / "tools", {"srun": TASKS, "apptainer": seen})
    (tools / "scontrol").symlink_to("/bin/echo")
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n"}
    variables = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": "/h", **job}
    subprocess.run(["bash", "-c", text], cwd=tmp_path, env=variables, check=True)
    assert (tmp_path / "seen").read_text().splitlines() == ["0 it's 3", "1 it's 4", "2 it's 5"]
    assert explain(plan)["task_env.ROCR_VISIBLE_DEVICES"].text == "set in each task: One GPU for each task."


def test_a_variable_of_the_request_overrides_one_of_env_task() -> None:
    site = site_with(env=TASK_ENV)
    text = render(resolve(Request(env={"ROCR_VISIBLE_DEVICES": "0"}), site))
    assert "export ROCR_VISIBLE_DEVICES=0\n" in text
    assert text.count("export ROCR_VISIBLE_DEVICES") == 1


def test_lint_finds_nothing_in_a_script_whose_tasks_export_variables() -> None:
    site = site_with(env=TASK_ENV)
    for framework, launcher in LAUNCHERS.items():
        nodes = min(2, launcher.max_nodes or 2)
        script = launcher.bundled_script or "train.py"
        plan = resolve(Request(framework=framework, gpus=4, nodes=nodes, script=script), site)
        assert lint.lint(render(plan), site) == ()


@pytest.mark.parametrize(
    "asked",
    [
        {"segments": 3},
        {"segments": 3, "secrets": ("HF_TOKEN",), "stage": ("/data/a.bin",), "after": ("ls",)},
        {"requeue": True, "preflight": True, "on_bad_node": "retry"},
        {"sweep": Sweep(grid={"seed": (1, 2)}, runs_per_gpu=2), "secrets": ("HF_TOKEN",)},
    ],
)
def test_lint_finds_nothing_in_a_script_with_many_parts(asked: dict[str, Any]) -> None:
    site = load_site("generic")
    assert lint.lint(render(resolve(Request(script="train.py", **asked), site)), site) == ()


def test_lint_knows_the_container_of_a_script_that_checks_its_nodes_first() -> None:
    asked = Request(account="a", container="/x.sif", preflight=True, script="train.py")
    site = load_site("frontier")
    assert lint.lint(render(resolve(asked, site)), site) == ()


def test_every_step_gets_what_the_script_exports() -> None:
    then = (Then(script="b.py", framework="lightning"),)
    plan = resolve(Request(preflight=True, stage=("/data/a",), then=then), load_site("generic"))
    steps = re.findall(r"\bsrun (-.*(?:\\\n.*)?)", render(plan))
    assert "--export=ALL: tasks get the environment of this script" in explain(plan)["launch"].text
    assert len(steps) == 5, steps  # the check, the copying, its removal, and two steps
    assert [step.count("--export=") for step in steps] == [1] * 5


@pytest.mark.parametrize("words", [("--export=HOME,PATH",), ("--export", "NONE"), ("--exp=NONE",)])
def test_the_export_of_a_profile_replaces_the_whole_environment(words: tuple[str, ...]) -> None:
    site = site_with(launch=Launch(srun=words))
    plan = resolve(Request(preflight=True), site)
    assert "--export=ALL" not in render(plan)
    assert "--export=ALL" not in explain(plan)["launch"].text
    assert render(plan).count(" ".join(words)) == 2


def test_the_launcher_survives_the_signal_that_its_ranks_handle() -> None:
    text = script_of("generic", gpus=2, sbatch={"signal": "USR2@120"})
    assert 'bash -c \'trap "" USR2; exec "$@"\' bash \\\n  torchrun --standalone' in text
    assert "trap" not in script_of("generic", gpus=2, sbatch={"signal": "B:USR2@120"})


def test_an_unset_variable_in_a_bind_ends_the_job() -> None:
    text = script_of("olivia", gpus=8, account="nn1k", modules=("X",))
    assert '\nmodule load NRIS/GPU NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0 X\n: "${EBROOTLIBFABRIC:?' in text


def test_no_module_is_loaded_if_none_is_requested(slurmgen) -> None:  # type: ignore[no-untyped-def]
    text = slurmgen("render", "--site", "daic", "--account", "a", "--module", "none").stdout
    assert "module" not in text.partition("set -e")[2]
    assert "--module none\n" in text.splitlines(keepends=True)[2]


def test_the_c10d_rendezvous_uses_the_job_id() -> None:
    text = script_of("generic", gpus=4, nodes=2, rendezvous="c10d")
    assert {"--rdzv-backend=c10d", '--rdzv-id="$SLURM_JOB_ID"'} <= set(text.split())
    assert "--node-rank" not in text


def run_under_stand_ins(text: str, srun: str, folder: Path, **environ: str) -> tuple[int, list[str]]:
    """The exit status of a script with `srun` as the body of srun, and the arguments of scontrol."""
    programs = {"srun": srun, "sleep": "", "scontrol": r'printf "%s\n" "$*" >> asked'}
    recorder = write_programs(folder / "bin", programs)
    variables = {"PATH": f"{recorder}:/usr/bin:/bin", "SLURM_JOB_ID": "7", **environ}
    ended = subprocess.run(["bash", "-c", text], cwd=folder, env=variables, check=False)
    asked = folder / "asked"
    return ended.returncode, asked.read_text().splitlines() if asked.exists() else []


@pytest.mark.parametrize(
    ("srun", "status", "requeued"),
    [
        ("exit 0", 0, []),
        ("exit 75", 75, ["requeue 7"]),
        ('touch "$REQUEUE_FILE"; exit 1', 1, ["requeue 7"]),
        ("exit 1", 1, []),
        ("kill -9 $$", 137, []),
    ],
)
def test_a_job_is_requeued_only_after_a_graceful_stop(
    srun: str, status: int, requeued: list[str], tmp_path: Path
) -> None:
    text = script_of("generic", gpus=2, requeue=True)
    assert run_under_stand_ins(text, srun, tmp_path) == (status, requeued)
    assert not list(tmp_path.glob(".requeue*"))


def test_an_array_task_requeues_only_itself(tmp_path: Path) -> None:
    text = script_of("generic", gpus=2, requeue=True, sbatch={"array": "0-3"})
    array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "0"}
    assert run_under_stand_ins(text, "exit 75", tmp_path, **array) == (75, ["requeue 5_0"])


def test_the_launcher_ignores_the_signal_and_ranks_can_handle_it(tmp_path: Path) -> None:
    """SIGUSR2 is ignored until a rank has installed its handler."""
    text = script_of("generic", gpus=2, requeue=True)
    tools = {"srun": 'shift 3; exec "$@"', "torchrun": "kill -USR2 $$; trap 'exit 75' USR2; exit 3"}
    recorder = write_programs(tmp_path / "tools", tools)
    path = {"PATH": f"{recorder}:/usr/bin:/bin", "SLURM_JOB_ID": "7"}
    assert subprocess.run(["bash", "-c", text], cwd=tmp_path, env=path, check=False).returncode == 3


def test_an_explicit_signal_overrides_the_one_of_requeue() -> None:
    text = script_of("generic", requeue=True, sbatch={"signal": "USR2@300"}, time="02:00:00")
    assert text.count("--signal=") == 1 + text.splitlines()[2].count("--signal=")
    assert "#SBATCH --signal=USR2@300\n" in text


def test_a_template_of_a_project_replaces_the_bundled_one(tmp_path: Path) -> None:
    (tmp_path / "environment.j2").write_text("\necho {{ plan.world_size }} ranks\n")
    text = render(resolve(Request(gpus=2), load_site("generic")), tmp_path)
    assert "\necho 2 ranks\n" in text
    assert "torchrun --standalone" in text


@pytest.mark.parametrize("source", ["{{ no_such_value }}", "{% if %}", "{{ 1 / 0 }}"])
def test_an_invalid_template_is_named(source: str, tmp_path: Path) -> None:
    (tmp_path / "environment.j2").write_text(source)
    with pytest.raises(ConfigError, match=r"environment\.j2|no_such_value|division by zero"):
        render(resolve(Request(), load_site("generic")), tmp_path)


def wrong(template: str, folder: Path, name: str = "step.j2") -> str:
    """The error for a template; checks that it takes little CPU time, here and in the other process."""
    (folder / name).write_text(template)
    start = sum(os.times()[:4])
    with pytest.raises(ConfigError) as error:
        render(resolve(Request(), load_site("generic")), folder)
    assert sum(os.times()[:4]) - start < 8  # less than 2 s on an idle machine
    assert len(str(error.value)) < 500
    return str(error.value)


@pytest.mark.parametrize(
    "template",
    [
        "{{ cycler.__init__.__globals__.os.popen('touch made').read() }}",
        "{{ lipsum.__globals__.os.system('touch made') }}",
        "{{ plan.ranks.launcher.command.__globals__ }}",
        "{{ plan.ranks.launcher.command | attr('__globals__') }}",
        "{{ '{0.__class__.__mro__}'.format(plan) }}",
        "{{ self.__init__ }}",
        "{{ plan.__class__ }}",
        "{% set _ = plan.env.update({'A': 'b'}) %}",
        "{% include '../secret' %}",
        "{% include 'a/../../secret' %}",
        "{% include '/etc/passwd' %}",
        "{% import '/etc/passwd' as x %}",
        "{% extends '../secret' %}",
        "{% include '.git/config' %}",
        "{% include 'link' %}",
        "{% include 'folder/secret' %}",
        "{% include 'pipe' %}",
        "{% include 'zero' %}",
        "{% include 'large' %}",
    ],
)
def test_a_template_cannot_leave_its_folder_or_run_code(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("token")
    folder = tmp_path / "templates"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("token")
    (folder / "link").symlink_to("../secret")
    (folder / "folder").symlink_to("..")
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "large").write_text("#" * 1_000_001)
    text = wrong(template, folder)
    assert str(folder) in text
    assert "token" not in text
    assert not (tmp_path / "made").exists()


LOOP = "{% for _ in range(99999) %}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (f"{LOOP * 3}{'{% endfor %}' * 3}", "longer than 0.7 s of CPU time"),
        (f"{LOOP * 2}{'a' * 100}{'{% endfor %}' * 2}", "longer than 0.7 s of CPU time"),
        ("{{ 2 ** (10 ** 10) }}", "longer than 0.7 s of CPU time"),
        ("{{ 'x' * 10 ** 9 }}", ":1: it needs more than 250 MB of memory"),
        ("{{ 'x' | center(10 ** 9) }}", ":1: it needs more than 250 MB of memory"),
        ("{{ '%1000000000d' | format(1) }}", ":1: it needs more than 250 MB of memory"),
        ("{{ 'x' * 10 ** 7 }}", "the script has more than 1,000,000 bytes"),
        ("{{ range(10 ** 9) | list }}", "Range too big"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{% include 'step.j2' %}", "recursion"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "recursion"),
        ("{% if 1 %}" * 500 + "{% endif %}" * 500, "recursion"),
        ("{{ '\\ud800' }}", "surrogates not allowed"),
    ],
    ids=lambda text: text[:30],
)
def test_a_template_has_limits(template: str, message: str, tmp_path: Path) -> None:
    text = wrong(template, tmp_path)
    assert f"{tmp_path / 'step.j2'}" in text
    assert message in text


def test_the_invalid_template_is_named_among_several(tmp_path: Path) -> None:
    (tmp_path / "environment.j2").write_text("{{ plan.nodes }}")
    (tmp_path / "parts").mkdir()
    (tmp_path / "step.j2").write_text("\n{% include 'parts/one.j2' %}")
    endless = f"{LOOP * 3}{'{% endfor %}' * 3}"
    assert f"{tmp_path}/parts/one.j2: it took" in wrong(endless, tmp_path, "parts/one.j2")
    assert f"{tmp_path}/parts/one.j2:2: 'x' is undefined" in wrong("\n{{ x }}", tmp_path, "parts/one.j2")


def test_a_template_can_include_others_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "hello.txt").write_text(
        "{% macro hello(name) %}hello {{ name | quote }}{% endmacro %}"
    )
    (tmp_path / "step.j2").write_text("{% from 'parts/hello.txt' import hello %}{{ hello('the world') }}")
    plan = resolve(Request(), load_site("generic"))
    assert render(plan, tmp_path).endswith("\n\nhello 'the world'")


def test_rendering_templates_imports_no_module_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("json", "jinja2", "pickle", "resource", "slurmgen"):
        (tmp_path / f"{name}.py").write_text("open('made', 'w')")
    (tmp_path / "step.j2").write_text("hello")
    assert render(resolve(Request(), load_site("generic")), tmp_path).endswith("\nhello")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("target", ["/", "..", "/proc/self"])
def test_a_template_folder_outside_the_project_is_rejected(
    target: str, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "templates").symlink_to(target)
    for command in (["render"], ["check"]):
        (tmp_path / "p" / "slurmgen.toml").write_text("[job.a]")
        result = slurmgen(*command, cwd=tmp_path / "p")
        assert (result.returncode, result.stdout) == (2, "")
        assert "templates leads out of the project" in result.stderr


def test_values_of_variables_are_not_in_the_header_but_their_names_are(slurmgen: Run) -> None:
    text = slurmgen("render", "--env", "TOKEN=hunter2", "--env", "EMPTY=", "--not-secret", "TOKEN").stdout
    assert text.count("hunter2") == text.count("export TOKEN=hunter2\n") == 1
    assert (
        "# Made by: slurmgen render --site generic --env TOKEN=... --env EMPTY=... --not-secret TOKEN\n"
        in text
    )
    assert (
        text
        == slurmgen("render", "--env", "TOKEN=hunter2", "--env", "EMPTY=", "--not-secret", "TOKEN").stdout
    )


def test_the_command_of_a_header_fails_without_the_omitted_values(slurmgen: Run) -> None:
    result = slurmgen("render", "--env", "TOKEN=...")
    assert (result.returncode, result.stdout) == (2, "")
    assert "'TOKEN=...' has no value" in result.stderr


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, readable by others."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_compiled_templates_are_cached_in_a_private_folder(cache: Path, slurmgen: Run) -> None:
    text = slurmgen("render").stdout
    kept = list((cache / "slurmgen" / "bytecode").iterdir())
    assert len(kept) > 1
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert (cache / "slurmgen").stat().st_mode & 0o777 == 0o700
    assert slurmgen("render").stdout == text


@pytest.mark.parametrize("place", ["", "slurmgen", "slurmgen/bytecode"])
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_compiled_templates_are_not_cached_where_others_may_write(
    place: str, mode: int, cache: Path, slurmgen: Run
) -> None:
    (cache / "slurmgen" / "bytecode").mkdir(parents=True)
    (cache / place).chmod(mode)
    result = slurmgen("render")
    assert (result.returncode, result.stderr) == (0, "")
    kept = list((cache / "slurmgen" / "bytecode").iterdir())
    assert bool(kept) == (
        mode == 0o1777 and place != "slurmgen/bytecode"
    )  # others cannot rename files in a sticky folder


@as_root
@pytest.mark.parametrize("place", ["slurmgen", "slurmgen/bytecode"])
def test_compiled_templates_are_not_cached_behind_another_users_link(
    place: str, cache: Path, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "mine" / "bytecode").mkdir(parents=True, mode=0o700)
    (cache / place).parent.mkdir(exist_ok=True)
    (cache / place).symlink_to(tmp_path / "mine")
    os.chown(cache / place, OTHER_USER, OTHER_USER, follow_symlinks=False)
    assert slurmgen("render").returncode == 0
    assert [path.name for path in (tmp_path / "mine").rglob("*")] == ["bytecode"]


def test_templates_of_a_project_are_not_cached(cache: Path, tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "step.j2").write_text("hello")
    assert slurmgen("render").stdout.endswith("hello")
    assert list((cache / "slurmgen" / "bytecode").iterdir()) == []
