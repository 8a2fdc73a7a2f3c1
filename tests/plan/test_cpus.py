"""CPUs of the tasks that the header reserves, and of those that srun starts."""

import pytest
from msgspec import structs

from slurmgen import Plan, Request, load_site, resolve
from slurmgen.errors import RequestError
from slurmgen.plan.explain import explain
from slurmgen.request.model import Then, merge
from slurmgen.sites.model import Cpu, Node

GENERIC = load_site("generic")
SIXTEEN = structs.replace(GENERIC, node=Node(gpus=2, cpus=16))
EXACT = structs.replace(GENERIC, node=Node(gpus=4, cpus=80), cpu=Cpu(per_gpu=20, exact=True))


def reserved(plan: Plan) -> tuple[int, int]:
    """Tasks of a node, and CPUs of each, of the header."""
    directives = dict(plan.directives)
    return int(directives["ntasks-per-node"]), int(directives["cpus-per-task"])


@pytest.mark.parametrize("framework", ["mpi", "ddp", "lightning", "python", "spawn"])
@pytest.mark.parametrize("ntasks_per_node", [1, 3, 5, 16])
def test_the_tasks_of_the_step_have_no_more_cpus_than_the_header_reserves(
    framework: str, ntasks_per_node: int
) -> None:
    asked = Request(framework=framework, gpus=2, ntasks_per_node=ntasks_per_node, script="train.py")
    plan = resolve(asked, SIXTEEN)
    tasks, cpus = reserved(plan)
    assert tasks == ntasks_per_node
    assert plan.ntasks_per_node * plan.cpus_per_task <= tasks * cpus <= 16


def test_mpi_divides_the_cpus_of_the_gpus_among_its_tasks() -> None:
    plan = resolve(Request(framework="mpi", gpus=2, ntasks_per_node=8, script="train.py"), SIXTEEN)
    assert (plan.world_size, plan.cpus_per_task, reserved(plan)) == (8, 2, (8, 2))
    assert plan.env["OMP_NUM_THREADS"] == "2"
    share = "8 CPUs per GPU (a GPU's share of a node) x 2 GPUs, divided among 8 tasks"
    assert explain(plan)["cpus_per_task"].text == share


def test_a_further_step_has_no_more_cpus_than_the_header_reserves() -> None:
    then = (Then(script="b.py", framework="lightning"),)
    plan = resolve(Request(gpus=2, ntasks_per_node=3, script="a.py", then=then), SIXTEEN)
    assert reserved(plan) == (3, 5)
    assert "--ntasks-per-node=2 --cpus-per-task=7 " in " ".join(plan.then[0].lines[0]) + " "


def test_the_tasks_of_a_further_step_divide_the_cpus_of_the_first_step() -> None:
    then = (Then(script="b.py", framework="lightning"), Then(script="c.py", framework="python"))
    plan = resolve(Request(gpus=4, cpus=8, script="a.py", then=then), GENERIC)
    assert reserved(plan) == (1, 8)
    assert [one.ranks.cpus.per_task for one in plan.then] == [2, 8]


def test_a_further_step_with_more_tasks_than_the_job_has_cpus_is_refused() -> None:
    then = (Then(script="b.py", framework="lightning"),)
    with pytest.raises(
        RequestError, match="then: lightning starts 4 tasks on a node, where the job has 2 CPUs"
    ):
        resolve(Request(gpus=4, cpus=2, script="a.py", then=then), GENERIC)


def test_divided_cpus_are_a_multiple_of_what_the_site_allocates() -> None:
    site = structs.replace(SIXTEEN, cpu=Cpu(multiple_of=2))
    assert reserved(resolve(Request(gpus=2, ntasks_per_node=3, script="a.py"), site)) == (3, 4)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"cpus": 3}, "Leave --cpus out."),
        ({"ntasks_per_node": 3}, "Leave --ntasks-per-node out."),
        ({"ntasks_per_node": 2, "cpus": 20}, "Leave out --cpus or --ntasks-per-node."),
    ],
)
def test_other_cpus_than_exactly_those_of_the_gpus_are_refused(asked: dict[str, int], hint: str) -> None:
    with pytest.raises(RequestError, match="allows exactly 20 for each") as error:
        resolve(Request(gpus=4, script="a.py", **asked), EXACT)  # type: ignore[arg-type]
    assert error.value.hint == hint


def test_exactly_the_cpus_of_the_gpus_are_accepted() -> None:
    assert reserved(resolve(Request(gpus=4, cpus=80, script="a.py"), EXACT)) == (1, 80)


@pytest.mark.parametrize(
    ("earlier", "later"), [({"cpus_per_gpu": 8}, {"cpus": 4}), ({"cpus": 4}, {"cpus_per_gpu": 8})]
)
def test_later_cpus_replace_earlier_ones_of_the_other_kind(
    earlier: dict[str, int], later: dict[str, int]
) -> None:
    assert merge(Request(**earlier), Request(**later)) == Request(**later)  # type: ignore[arg-type]
