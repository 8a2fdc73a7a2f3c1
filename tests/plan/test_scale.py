"""Plan and script are the same for any number of nodes, but for the numbers in them."""

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from slurmgen import Plan, Request, load_site, render, resolve
from slurmgen.launchers import LAUNCHERS

SITE = load_site("generic")
SEVERAL_NODES = [name for name, launcher in LAUNCHERS.items() if launcher.max_nodes is None]
FEW, MANY = 2, 1024


def plan_of(framework: str, nodes: int, *, requeue: bool) -> Plan:
    asked = Request(framework=framework, gpus=4 * nodes, nodes=nodes, script="train.py", requeue=requeue)
    return resolve(asked, SITE)


def without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)


@given(st.sampled_from(SEVERAL_NODES), st.integers(FEW, MANY), st.integers(FEW, MANY), st.booleans())
def test_scripts_differ_in_numbers_only(framework: str, nodes: int, others: int, requeue: bool) -> None:
    one, other = (render(plan_of(framework, count, requeue=requeue)) for count in (nodes, others))
    assert without_numbers(one) == without_numbers(other)


@given(st.sampled_from(SEVERAL_NODES), st.integers(FEW, MANY))
def test_a_script_for_more_nodes_is_at_most_32_bytes_longer(framework: str, nodes: int) -> None:
    few, some = (render(plan_of(framework, count, requeue=False)) for count in (FEW, nodes))
    assert 0 <= len(some) - len(few) <= 32


@given(st.sampled_from(SEVERAL_NODES), st.integers(FEW, MANY))
def test_a_plan_does_not_grow_with_nodes(framework: str, nodes: int) -> None:
    few, some = (
        without_numbers(repr(structs.asdict(plan_of(framework, n, requeue=False)))) for n in (FEW, nodes)
    )
    assert some == few
