"""What the ranks run: a script, a module or a command, under each launcher."""

import pytest
from msgspec import structs

from slurmgen import Request, load_site, render, resolve
from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.plan.explain import explain
from slurmgen.request.model import Then, merge

GENERIC = load_site("generic")


def step_of(**asked: object) -> str:
    """The job step of a rendered script, on one line."""
    text = render(resolve(Request(**asked), GENERIC))  # type: ignore[arg-type]
    return " ".join(text[text.index("\nsrun") :].replace("\\\n", " ").split())


@pytest.mark.parametrize(
    ("framework", "end"),
    [
        ("python", "python -m pkg.train --lr 1"),
        ("lightning", "python -m pkg.train --lr 1"),
        ("ddp", "--nnodes=1 --nproc-per-node=1 -m pkg.train --lr 1"),
        ("accelerate", "--dynamo_backend=no -m pkg.train --lr 1"),
    ],
)
def test_a_module_follows_its_launcher(framework: str, end: str) -> None:
    step = step_of(framework=framework, module="pkg.train", script_args=("--lr", "1"))
    assert step.endswith(end)


@pytest.mark.parametrize(
    ("framework", "end"),
    [
        ("python", "--kill-on-bad-exit=1 --export=ALL litgpt finetune '--name=a b' x"),
        ("lightning", "--kill-on-bad-exit=1 --export=ALL litgpt finetune '--name=a b' x"),
        ("ddp", "--nproc-per-node=1 --no-python litgpt finetune '--name=a b' x"),
        ("accelerate", "--dynamo_backend=no --no_python litgpt finetune '--name=a b' x"),
    ],
)
def test_a_command_replaces_python(framework: str, end: str) -> None:
    command = ("litgpt", "finetune", "--name=a b")
    assert step_of(framework=framework, command=command, script_args=("x",)).endswith(end)


def test_a_shell_script_runs_in_bash() -> None:
    assert step_of(framework="python", script="a b/run.sh", script_args=("1",)).endswith(
        " bash 'a b/run.sh' 1"
    )
    assert step_of(gpus=2, script="run.sh").endswith("--nproc-per-node=2 --no-python bash run.sh")


def test_several_nodes_pass_the_module_to_the_launcher_of_each_task() -> None:
    step = step_of(gpus=4, nodes=2, module="pkg.train")
    assert step.endswith("""--master-port="$MASTER_PORT" "$@"' torchrun -m pkg.train""")


def test_a_command_expands_only_variables() -> None:
    assert step_of(command=("echo", "$HOME", "$(id)")).endswith(r'echo "$HOME" "\$(id)"')


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"module": "pkg.train"}, "train"),
        ({"command": ("bin/tool", "x")}, "tool"),
        ({"script": "a/run.sh"}, "run"),
    ],
)
def test_a_job_is_named_after_its_program(asked: dict[str, object], name: str) -> None:
    assert resolve(Request(**asked), GENERIC).name == name  # type: ignore[arg-type]


def test_a_later_request_replaces_the_program_of_an_earlier_one() -> None:
    merged = merge(Request(script="a.py", gpus=2), Request(command=("b",)))
    assert (merged.script, merged.command, merged.gpus) == (None, ("b",), 2)


def test_further_options_of_the_launcher_come_before_the_program() -> None:
    step = step_of(launcher_args=("--max-restarts=2", "--tee=3"), script="t.py")
    assert "--nproc-per-node=1 --max-restarts=2 --tee=3 t.py" in step


def test_the_configuration_of_accelerate_is_not_overruled() -> None:
    step = step_of(framework="accelerate", gpus=2, launcher_config="acc.yaml")
    assert " --config_file=acc.yaml " in step
    assert "--mixed_precision" not in step


def test_one_process_uses_all_gpus_of_a_node() -> None:
    plan = resolve(Request(framework="python", gpus=4), GENERIC)
    assert (plan.world_size, plan.ntasks_per_node, plan.cpus_per_task, plan.gpus_per_node) == (1, 1, 16, 4)


def test_a_job_without_gpus_requests_none() -> None:
    plan = resolve(Request(gpus=0, cpus=8, script="prep.py"), GENERIC)
    assert (plan.framework, plan.world_size, plan.cpus_per_task, plan.mem) == ("python", 1, 8, "32G")
    assert plan.gpu_hours == 0
    assert "gpu" not in "".join(name for name, _ in plan.directives)


def test_restarted_ranks_do_not_read_addresses_of_earlier_ones() -> None:
    plan = resolve(Request(gpus=2, launcher_args=("--max_restarts", "1")), GENERIC)
    assert plan.env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert explain(plan)["env.TORCH_DISABLE_SHARE_RDZV_TCP_STORE"].source == "derived"


def test_a_virtual_environment_comes_before_the_python_of_a_container() -> None:
    step = step_of(container="i.sif", python_env="venv:/my venv", framework="python", script="t.py")
    shell = r"""bash -c 'export PATH="/my venv/bin:$PATH"; exec "$@"' bash"""
    assert step.endswith(f"i.sif {shell} python t.py")


@pytest.mark.parametrize(
    ("where", "bind", "folder"),
    [
        ("~/a b.sqsh", """"$HOME"/'a b.sqsh:/user-software:image-src=/'""", "/user-software"),
        ("$SCRATCH/e.sqsh:/opt/env", '"$SCRATCH/e.sqsh:/opt/env:image-src=/"', "/opt/env"),
    ],
)
def test_a_packed_environment_is_bound_and_comes_before_the_python_of_a_container(
    where: str, bind: str, folder: str
) -> None:
    request = {"container": "i.sif", "framework": "python", "script": "t.py"}
    step = step_of(**request, binds=("/d",), python_env=f"squashfs:{where}")
    shell = f"""bash -c 'export PATH="{folder}/bin:$PATH"; exec "$@"' bash"""
    assert step.endswith(f" --bind={bind} --bind=/d i.sif {shell} python t.py")


@pytest.mark.parametrize(
    ("python_env", "asked", "fact"),
    [
        ("squashfs:/e.sqsh", {}, "has no container to be mounted in"),
        ("squashfs", {}, "names no place"),
        ("squashfs:e.sqsh", {"container": "i.sif"}, "by full paths"),
        ("squashfs:/e.sqsh:env", {"container": "i.sif"}, "by full paths"),
        ("squashfs:/e.sqsh:/a:/b", {"container": "i.sif"}, "by full paths"),
        ("squashfs:/a,b.sqsh", {"container": "i.sif"}, "has a comma"),
    ],
)
def test_a_packed_environment_that_cannot_be_mounted_is_refused(
    python_env: str, asked: dict[str, str], fact: str
) -> None:
    with pytest.raises(RequestError, match=fact):
        resolve(Request(**asked, python_env=python_env, script="t.py"), GENERIC)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", sorted(ENGINES.keys() - {"apptainer", "singularity"}))
def test_engines_that_bind_no_squashfs_file_refuse_a_packed_environment(engine: str) -> None:
    request = Request(container="./i.toml" if engine == "edf" else "a/b", container_engine=engine)
    with pytest.raises(RequestError, match=f"does not work with the container engine {engine}"):
        resolve(structs.replace(request, python_env="squashfs:/e.sqsh"), GENERIC)


@pytest.mark.parametrize(
    ("python_env", "hook"),
    [
        ("pixi", "flock .pixi.flock pixi shell-hook --shell bash --frozen --manifest-path ."),
        (
            "pixi:a:gpu",
            "flock a/.pixi.flock pixi shell-hook --shell bash --frozen --manifest-path a --environment gpu",
        ),
    ],
)
def test_pixi_makes_its_environment_once(python_env: str, hook: str) -> None:
    text = render(resolve(Request(python_env=python_env, script="t.py"), GENERIC))
    assert f'hook="$({hook})"\neval "$hook"\n' in text


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("ddp", ("--nproc-per=1",)),
        ("ddp", ("--rdzv-backend=c10d",)),
        ("accelerate", ("--config_file=x.yaml",)),
        ("ddp", ("evil.py",)),
    ],
)
def test_an_option_that_contradicts_the_script_is_refused(framework: str, words: tuple[str, ...]) -> None:
    with pytest.raises(RequestError, match="--launcher-arg"):
        resolve(Request(framework=framework, gpus=4, nodes=2, launcher_args=words), GENERIC)


def test_accelerate_gets_one_kind_of_distribution() -> None:
    assert "--multi_gpu" not in step_of(framework="accelerate", gpus=2, launcher_args=("--use_fsdp",))


def test_the_token_of_ray_reaches_a_container() -> None:
    asked = {
        "framework": "ray",
        "container": "docker://x/y:1",
        "container_engine": "podman",
        "script": "t.py",
    }
    assert "--env=RAY_AUTH_TOKEN" in step_of(gpus=4, **asked)


@pytest.mark.parametrize(
    ("first", "later", "fact"),
    [
        ({"gpus": 0}, "ddp", "--gpus 0 requests none"),
        ({"gpus": 2, "framework": "python", "env": {"RANK": "7"}}, "srun", "--env RANK would have no effect"),
        ({"gpus": 1, "framework": "python", "name": "bash"}, "lightning", "treats a job named 'bash'"),
    ],
)
def test_a_further_step_is_checked_like_the_first(first: dict[str, object], later: str, fact: str) -> None:
    then = (Then(script="e.py", framework=later),)
    with pytest.raises(RequestError, match=fact):
        resolve(Request(script="t.py", then=then, **first), GENERIC)  # type: ignore[arg-type]


@pytest.mark.parametrize("framework", ["ray", "lightning"])
def test_term_is_refused_where_it_would_not_reach_the_ranks(framework: str) -> None:
    with pytest.raises(RequestError, match="--requeue-signal TERM does not work"):
        resolve(Request(framework=framework, script="t.py", requeue=True, requeue_signal="TERM"), GENERIC)
