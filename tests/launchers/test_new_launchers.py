"""jax, mpi, spawn and tensorflow: shape, variables, refusals. tests/frameworks runs them on a twin."""

from typing import Any

import pytest
from msgspec import structs

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.plan import Plan
from slurmgen.plan.explain import explain
from slurmgen.sites.model import Container, Env, Launch, Rendezvous, Site, When

FRAMEWORKS = ("jax", "mpi", "spawn", "tensorflow")
GENERIC = load_site("generic")


def plan_of(framework: str, site: Site = GENERIC, **asked: Any) -> Plan:
    size = {"gpus": 8, "nodes": 2, "script": "train.py", "account": "a"}
    return resolve(Request(framework=framework, **size | asked), site)


def in_task(plan: Plan) -> dict[str, str]:
    return {variable.name: variable.value for variable in plan.ranks.variables}


def site_with(**facts: Any) -> Site:
    return structs.replace(GENERIC, **facts)


@pytest.mark.parametrize(
    ("framework", "tasks", "processes", "world_size"),
    [("jax", 4, 1, 8), ("mpi", 4, 1, 8), ("spawn", 1, 4, 8), ("tensorflow", 1, 1, 2)],
)
def test_the_shape(framework: str, tasks: int, processes: int, world_size: int) -> None:
    plan = plan_of(framework)
    assert (plan.ntasks_per_node, plan.procs_per_task, plan.world_size) == (tasks, processes, world_size)
    assert plan.cpus_per_task * tasks == 16


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_task_sees_all_gpus_and_one_failure_ends_the_step(framework: str) -> None:
    text = render(plan_of(framework))
    assert "--gpus-per-task" not in text
    assert "--kill-on-bad-exit=1" in text


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "deepspeed", "hf-trainer", "ray"])
def test_a_request_must_name_its_program(framework: str) -> None:
    with pytest.raises(RequestError, match=f"there is no bundled script for {framework}"):
        plan_of(framework, script=None)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_module_and_a_command_run_too(framework: str) -> None:
    assert plan_of(framework, script=None, module="pkg.train").step.lines[-1][-2:] == ("-m", "pkg.train")
    assert plan_of(framework, script=None, command=("./a.out", "1")).step.lines[-1] == ("./a.out", "1")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_launcher_argument_has_no_effect(framework: str) -> None:
    with pytest.raises(RequestError, match=f"--launcher-arg has no effect with {framework}"):
        plan_of(framework, launcher_args=("--x",))


@pytest.mark.parametrize(
    ("framework", "name"),
    [("jax", "JAX_COORDINATOR_ADDRESS"), ("spawn", "WORLD_SIZE"), ("tensorflow", "TF_CONFIG")],
)
def test_a_variable_of_the_launcher_is_refused(framework: str, name: str) -> None:
    with pytest.raises(RequestError, match=f"--env {name} would have no effect: {framework} sets it"):
        plan_of(framework, env={name: "1"})


def test_jax_connects_to_the_address_of_the_site() -> None:
    site = site_with(rendezvous=Rendezvous(suffix="i"))
    plan = plan_of("jax", site)
    assert in_task(plan) == {"JAX_COORDINATOR_ADDRESS": "$MASTER_ADDR:$MASTER_PORT"}
    assert "MASTER_ADDR+=i" in render(plan)


def test_a_profile_may_choose_the_device_of_jax() -> None:
    plan = plan_of("jax", site_with(env=Env(task={"JAX_LOCAL_DEVICE_IDS": "0"})))
    assert in_task(plan)["JAX_LOCAL_DEVICE_IDS"] == "0"


def test_spawn_gets_the_numbers_of_the_plan() -> None:
    plan = plan_of("spawn")
    assert in_task(plan) == {
        "NODE_RANK": "$SLURM_NODEID",
        "NNODES": "2",
        "LOCAL_WORLD_SIZE": "4",
        "WORLD_SIZE": "8",
    }
    assert "for its 4 ranks together" in explain(plan)["task_env.NODE_RANK"].text


def test_tensorflow_on_one_node_gets_no_list_of_workers() -> None:
    plan = plan_of("tensorflow", gpus=4, nodes=1)
    assert "TF_" not in render(plan)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (Rendezvous(), ""),
        (Rendezvous(suffix="i"), "\n  node+=i\n"),
        (Rendezvous(suffix="$(x)"), "\n  node+='$(x)'\n"),
        (Rendezvous(host="ip"), 'getent ahostsv4 "$node"'),
    ],
)
def test_the_workers_of_tensorflow_have_addresses_by_the_rule_of_the_site(
    rule: Rendezvous, line: str
) -> None:
    plan = plan_of("tensorflow", site_with(rendezvous=rule))
    assert in_task(plan).keys() == {"TF_CONFIG"}
    assert line in render(plan)


def test_the_script_does_not_grow_with_the_nodes() -> None:
    few, many = (render(plan_of("tensorflow", gpus=4 * nodes, nodes=nodes)) for nodes in (2, 1024))
    assert len(few.splitlines()) == len(many.splitlines())


def srun_of(plan: Plan) -> list[str]:
    return [text for text in plan.step.lines[0] if text.startswith("--mpi")]


@pytest.mark.parametrize(
    ("launch", "option"),
    [
        (Launch(), "--mpi=pmix"),
        (Launch(mpi="cray_shasta"), "--mpi=cray_shasta"),
        (Launch(srun=("--mpi=none", "--gpu-bind=none")), "--mpi=pmix"),
    ],
)
def test_the_type_of_mpi_is_that_of_the_profile(launch: Launch, option: str) -> None:
    plan = plan_of("mpi", site_with(launch=launch))
    assert srun_of(plan) == [option]
    assert set(launch.srun) - set(plan.step.lines[0]) <= {"--mpi=none"}


def test_the_type_of_mpi_may_depend_on_the_job() -> None:
    several = When(nodes="several", launch=Launch(mpi="pmi2"))
    site = site_with(launch=Launch(mpi="cray_shasta"), when={"several": several})
    assert srun_of(plan_of("mpi", site)) == ["--mpi=pmi2"]
    assert srun_of(plan_of("mpi", site, gpus=4, nodes=1)) == ["--mpi=cray_shasta"]


def test_other_launchers_keep_the_type_of_the_site() -> None:
    assert srun_of(plan_of("jax", site_with(launch=Launch(srun=("--mpi=none",), mpi="pmi2")))) == [
        "--mpi=none"
    ]


def test_mpi_does_not_work_in_podman() -> None:
    site = site_with(container=Container(engine="podman"))
    with pytest.raises(RequestError, match="mpi does not work in podman"):
        plan_of("mpi", site, container="localhost/image")


@pytest.mark.parametrize(
    ("framework", "name"),
    [("jax", "JAX_COORDINATOR_ADDRESS"), ("spawn", "NODE_RANK"), ("tensorflow", "TF_CONFIG")],
)
def test_the_variables_reach_a_container_that_gets_named_ones_only(framework: str, name: str) -> None:
    site = site_with(container=Container(engine="podman"))
    assert f"--env={name}" in render(plan_of(framework, site, container="localhost/image"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_requeued_step_ignores_the_signal_that_its_program_handles(framework: str) -> None:
    assert 'trap "" USR2' in render(plan_of(framework, requeue=True))
