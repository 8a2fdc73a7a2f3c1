"""ddp without torchrun: one task per GPU, each of them a rank of PyTorch."""

import pytest

from slurmgen import Request, render, resolve
from slurmgen.errors import RequestError
from slurmgen.plan import Plan
from slurmgen.plan.explain import explain
from slurmgen.sites.model import Container, Env, Launch, Site
from tests.support import plans
from tests.support.plans import site_with

BY_SRUN = site_with(launch=Launch(ddp="srun"))


def plan_of(site: Site, **asked: object) -> Plan:
    return plans.plan_of(site, gpus=4, nodes=2, **asked)


def in_task(plan: Plan) -> dict[str, str]:
    return {variable.name: variable.value for variable in plan.ranks.variables}


@pytest.mark.parametrize("framework", [None, "ddp", "srun"])
def test_a_site_starts_ddp_as_one_task_per_gpu(framework: str | None) -> None:
    plan = plan_of(BY_SRUN, framework=framework)
    assert (plan.ntasks_per_node, plan.procs_per_task) == (2, 1)
    assert "torchrun" not in render(plan)


def test_explain_names_the_profile_as_the_reason() -> None:
    reason = explain(plan_of(BY_SRUN, framework="ddp"))["framework"]
    assert (reason.source, "from the profile of generic" in reason.text) == ("profile", True)
    assert explain(plan_of(BY_SRUN, framework="srun"))["framework"].source == "request"


def test_a_rendezvous_of_torchrun_keeps_torchrun() -> None:
    assert plan_of(BY_SRUN, rendezvous="c10d").framework == "ddp"


@pytest.mark.parametrize("framework", ["lightning", "accelerate"])
def test_other_frameworks_start_as_everywhere(framework: str) -> None:
    assert plan_of(BY_SRUN, framework=framework).framework == framework


def test_each_task_exports_the_variables_of_its_rank() -> None:
    assert in_task(plan_of(site_with(), framework="srun")) == {
        "RANK": "$SLURM_PROCID",
        "LOCAL_RANK": "$SLURM_LOCALID",
        "WORLD_SIZE": "$SLURM_NTASKS",
        "LOCAL_WORLD_SIZE": "$SLURM_NTASKS_PER_NODE",
        "GROUP_RANK": "$SLURM_NODEID",
    }


def test_a_profile_may_set_the_local_rank_of_tasks_that_see_one_gpu() -> None:
    site = site_with(env=Env(task={"LOCAL_RANK": "0"}))
    plan = plan_of(site, framework="srun")
    assert in_task(plan)["LOCAL_RANK"] == "0"
    assert explain(plan)["task_env.LOCAL_RANK"].source == "profile"
    assert explain(plan)["task_env.RANK"].source == "derived"


def test_a_single_rank_has_an_address_too() -> None:
    assert "export MASTER_ADDR MASTER_PORT" in render(resolve(Request(framework="srun"), site_with()))


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"])
def test_a_variable_of_the_rank_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match=f"--env {name} would have no effect"):
        plan_of(site_with(), framework="srun", env={name: "1"})


def test_a_rendezvous_has_no_effect() -> None:
    with pytest.raises(RequestError, match="--rendezvous has no effect with srun"):
        plan_of(site_with(), framework="srun", rendezvous="c10d")


def test_the_variables_reach_a_container_that_gets_named_ones_only() -> None:
    site = site_with(container=Container(engine="podman-hpc"))
    text = render(plan_of(site, framework="srun", container="pytorch"))
    assert "--env=RANK --env=LOCAL_RANK --env=WORLD_SIZE" in " ".join(text.replace("\\\n", "").split())
