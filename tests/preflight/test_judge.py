"""What is concluded from the facts of the nodes."""

import sys
from typing import Any

import pytest

from tests.preflight.checks import PROGRAM

sys.path.insert(0, PROGRAM)
import check  # type: ignore[import-not-found]
import judge  # type: ignore[import-not-found]
import judge_gpus  # type: ignore[import-not-found]
import judge_network  # type: ignore[import-not-found]
import links  # type: ignore[import-not-found]
import product  # type: ignore[import-not-found]

sys.path.remove(PROGRAM)


def facts(count: int, **changed: Any) -> dict[int, dict[str, Any]]:
    """The facts of healthy nodes; `changed` are values of node 1."""
    return {node: {"unwritable": None, **(changed if node == 1 else {})} for node in range(count)}


def spaces(what: str, *free: int) -> dict[int, dict[str, dict[str, int]]]:
    """The facts of nodes with so many GiB free of 128."""
    return {node: {what: {"free": gib << 30, "total": 128 << 30}} for node, gib in enumerate(free)}


def pairs(**speeds: float) -> dict[tuple[int, int], dict[str, float]]:
    """The results of pairs, as n01=1e9 for nodes 0 and 1."""
    return {(int(name[1]), int(name[2])): {"speed": speed} for name, speed in speeds.items()}


OWNERS = {"n0": 0, "n1": 1, "n2": 2}


def asked(count: int) -> dict[int, list[str]]:
    """The names that nodes had to resolve: each those of all."""
    return {node: [f"n{number}" for number in range(count)] for node in range(count)}


def test_a_node_is_blamed_that_is_slow_with_both_neighbours() -> None:
    found = pairs(n01=1e9, n23=1e6, n12=1e6, n30=1e9)
    assert judge_network.links(found, 0) == [2]


@pytest.mark.parametrize(
    "found",
    [
        pairs(n01=1e6, n12=1e6, n20=1e9),
        pairs(n01=1e6, n23=1e9, n12=1e6, n30=1e9, n13=1e6),
        {(0, 1): {"error": "timed out"}, (1, 2): {"error": "timed out"}, (2, 0): {"speed": 1e9}},
    ],
)
def test_one_of_few_nodes_is_blamed_that_is_slow_with_all_others(
    found: dict[tuple[int, int], dict[str, Any]],
) -> None:
    assert judge_network.links(found, 0) == [1]


@pytest.mark.parametrize("count", range(3, 10))
def test_each_node_is_measured_with_two_others(count: int) -> None:
    rounds = links.rounds(list(range(count)))
    for pairs_of_round in rounds:
        nodes = [node for pair in pairs_of_round for node in pair]
        assert len(nodes) == len(set(nodes))
    found = [node for one in rounds for pair in one for node in pair]
    assert {node: found.count(node) for node in range(count)} == dict.fromkeys(range(count), 2)


def test_no_node_is_blamed_for_one_slow_pair() -> None:
    assert judge_network.links(pairs(n01=1e9, n23=1e6, n12=1e9, n30=1e9), 0) == []


def test_two_nodes_with_one_connection_are_both_named() -> None:
    assert judge_network.links(pairs(n01=1e6), 1e9) == [0, 1]


def test_torch_that_sees_fewer_gpus_than_on_other_nodes_is_a_fault() -> None:
    found = {node: {"gpus": None, "torch_gpus": 4} for node in range(3)} | {
        3: {"gpus": None, "torch_gpus": 2}
    }
    assert list(judge_gpus.counts(found, 4)) == [
        (3, "gpu-count", "2 GPUs for PyTorch, but the others have 4"),
    ]


@pytest.mark.parametrize("key", ["gpus", "torch_gpus"])
def test_a_node_with_the_gpus_of_the_job_is_healthy_although_others_have_more(key: str) -> None:
    unknown: dict[str, Any] = {"gpus": None, "torch_gpus": None}
    found = {node: {**unknown, key: [{"name": "x"}] * 8 if key == "gpus" else 8} for node in range(3)}
    found[3] = {**unknown, key: [{"name": "x"}] * 4 if key == "gpus" else 4}
    assert list(judge_gpus.counts(found, 4)) == []
    assert [node for node, _, _ in judge_gpus.counts(found, None)] == [3]


def test_torch_without_gpus_on_all_nodes_is_not_a_fault_of_nodes() -> None:
    cards = [{"name": "x"}] * 4
    found = {node: {"gpus": cards, "torch_gpus": 0} for node in range(3)}
    assert list(judge_gpus.counts(found, 4)) == []


def test_another_type_of_gpu_is_a_fault() -> None:
    found = {node: {"gpus": [{"name": "A100"}], "torch_gpus": None} for node in range(3)}
    found[1] = {"gpus": [{"name": "V100"}], "torch_gpus": None}
    assert list(judge_gpus.counts(found, 1)) == [(1, "gpu-type", "V100, but the others have A100")]


def test_gpus_beyond_those_of_the_job_are_not_judged() -> None:
    used = {"name": "x", "memory_used": 9, "memory_total": 10}
    assert list(judge_gpus.health({0: {"gpus": [used, used]}}, 1)) == []
    assert list(judge_gpus.health({0: {"gpus": [used]}}, 1)) != []


def test_a_lower_power_limit_is_a_fault() -> None:
    found = {node: {"gpus": [{"name": "x", "power": 700.0}]} for node in range(3)}
    found[2] = {"gpus": [{"name": "x", "power": 300.0}]}
    text = "GPU 0 is limited to 300 W, the median is 700 W"
    assert list(judge_gpus.limits(found, 1)) == [(2, "gpu-power", text)]


def test_a_slow_copy_between_gpus_is_a_fault() -> None:
    def copy(speed: float) -> dict[str, Any]:
        return {"pair": "GPU 0 to GPU 1", "speed": speed, "fault": None}

    found = {node: {"copies": [copy(4e9)]} for node in range(3)} | {3: {"copies": [copy(1e8)]}}
    text = "GPU 0 to GPU 1: 100.0 MB/s, the median is 4000.0 MB/s"
    assert list(judge_gpus.copies(found)) == [(3, "gpu-link", text)]


def test_a_name_that_most_nodes_cannot_resolve_is_a_fault_of_its_owner() -> None:
    found = {node: {"unresolved": ["n2"]} for node in range(3)} | {2: {"unresolved": []}}
    assert list(judge.names(found, asked(3), OWNERS)) == [
        (2, "dns", "its name does not resolve on 2 of 3 nodes")
    ]


def test_a_name_that_one_node_cannot_resolve_is_its_own_fault() -> None:
    found = {node: {"unresolved": ["n2"] if node == 1 else []} for node in range(3)}
    text = "cannot resolve n2, which the others resolve"
    assert list(judge.names(found, asked(3), OWNERS)) == [(1, "dns", text)]


def test_names_that_resolve_nowhere_are_no_fault_of_a_node() -> None:
    found = {node: {"unresolved": ["n0", "n1"]} for node in range(2)}
    assert list(judge.names(found, asked(2), {"n0": 0, "n1": 1})) == []


def test_names_that_only_their_owners_resolve_are_no_fault_of_a_node() -> None:
    found = {node: {"unresolved": [name for name in OWNERS if name != f"n{node}"]} for node in range(3)}
    assert list(judge.names(found, asked(3), OWNERS)) == []


def test_a_name_is_a_fault_of_its_owner_if_all_others_of_those_that_asked_cannot_resolve_it() -> None:
    found: dict[int, dict[str, list[str]]] = {node: {"unresolved": []} for node in range(100)}
    found[6]["unresolved"] = ["n7"]
    names = {node: [f"n{node}", f"n{(node + 1) % 100}"] for node in range(100)}
    owners = {f"n{node}": node for node in range(100)}
    assert list(judge.names(found, names, owners)) == [
        (7, "dns", "its name does not resolve on 1 of 2 nodes")
    ]


def test_a_node_that_resolves_nothing_does_not_count_against_another_one() -> None:
    found: dict[int, dict[str, list[str]]] = {0: {"unresolved": ["n0", "n1"]}, 1: {"unresolved": []}}
    blamed = [node for node, _, _ in judge.names(found, asked(2), {"n0": 0, "n1": 1})]
    assert blamed == [0]


@pytest.mark.parametrize(("count", "node"), [(3, 1), (4, 1), (4, 3), (5, 4)])
def test_each_of_the_others_resolves_a_name_of_many_nodes(count: int, node: int) -> None:
    names = [f"n{number}" for number in range(count)]
    assert check.to_resolve(names, node, at_once=2) == list(
        dict.fromkeys(["n0", *(names[(node + step) % count] for step in range(4))])
    )


def test_a_node_that_cannot_write_is_named() -> None:
    found = facts(3, unwritable="read-only file system")
    text = "cannot write to the job's folder: read-only file system"
    assert list(judge.shared_folder(found, {}, set(), 0)) == [(1, "shared-folder", text)]


def test_a_node_that_writes_elsewhere_is_named() -> None:
    text = "its file in the job's folder is not visible on the first node"
    found = judge.shared_folder(facts(4), {0: [1], 3: [1]}, {1}, 0)
    assert list(found) == [(1, "shared-folder", text)]


def test_a_node_that_reads_elsewhere_is_named() -> None:
    text = "does not see the files of other nodes in the job's folder"
    assert list(judge.shared_folder(facts(4), {1: [2, 3]}, set(), 0)) == [(1, "shared-folder", text)]


def test_the_first_node_is_named_if_it_sees_no_file_of_others() -> None:
    text = "does not see the files of the other nodes in the job's folder"
    assert list(judge.shared_folder(facts(4), {}, {1, 2, 3}, 0)) == [(0, "shared-folder", text)]


@pytest.mark.parametrize(("trip", "faults"), [(0.001, 0), (0.019, 0), (0.1, 1)])
def test_a_long_round_trip_is_a_fault_beyond_a_limit(trip: float, faults: int) -> None:
    offsets = {0: (0.0, 0.0001), 1: (0.0, 0.0001), 2: (0.0, trip)}
    assert len(list(judge_network.latencies(offsets))) == faults


def test_a_clock_is_not_blamed_for_a_slow_answer() -> None:
    offsets = {0: (0.0, 0.001), 1: (0.0, 0.001), 2: (2.0, 4.0)}
    assert list(judge.clocks(offsets)) == []


def test_memory_is_compared_with_the_median() -> None:
    found = spaces("memory", 64, 64, 64, 8)
    text = "8.00 GiB of memory are available, the median is 64.00 GiB"
    assert list(judge.memory(found, None)) == [(3, "memory", text)]


def test_memory_that_is_enough_for_the_job_is_not_a_fault() -> None:
    assert list(judge.memory(spaces("memory", 64, 64, 64, 8), 4 << 30)) == []


def test_each_of_several_nodes_without_the_memory_of_the_job_is_named() -> None:
    text = "8.00 GiB of memory are available, the job requests 60.00 GiB"
    expected = [(0, "memory", text), (1, "memory", text)]
    assert list(judge.memory(spaces("memory", 8, 8, 64), 60 << 30)) == expected


def test_each_of_several_nodes_with_a_full_shared_memory_is_named() -> None:
    found = judge.shared_memory(spaces("shm", 1, 1, 64))
    text = "shared memory (/dev/shm) has 1.00 GiB free of 128.00 GiB"
    assert list(found) == [(0, "shm", text), (1, "shm", text)]


def test_a_much_smaller_shared_memory_is_a_fault() -> None:
    found = spaces("shm", 64, 64, 64)
    found[1]["shm"] = {"free": 64 << 20, "total": 64 << 20}
    text = "shared memory (/dev/shm) has 64 MiB free of 64 MiB, the median is 64.00 GiB"
    assert list(judge.shared_memory(found)) == [(1, "shm", text)]


def test_a_node_without_shared_memory_is_not_judged() -> None:
    assert list(judge.shared_memory({0: {"shm": None}, 1: {"shm": None}})) == []


FAULT = "nvidia-smi failed: it could not communicate with the driver"


@pytest.mark.parametrize(("expected", "torch", "faults"), [(4, None, 1), (4, 4, 0), (0, None, 0)])
def test_a_failed_list_of_gpus_is_a_fault_if_the_job_has_some_and_torch_sees_none(
    expected: int, torch: int | None, faults: int
) -> None:
    found = {0: {"gpus": None, "gpus_fault": FAULT, "torch_gpus": torch}}
    texts = [(0, "gpu-count", f"its GPUs cannot be listed: {FAULT}")]
    assert list(judge_gpus.unlisted(found, expected)) == texts[:faults]


def test_a_node_without_the_list_that_others_have_is_named() -> None:
    unknown: dict[str, Any] = {"gpus": None, "gpus_fault": None, "torch_gpus": None}
    found = {0: {**unknown, "gpus": [{"name": "x"}]}, 1: unknown}
    text = "its GPUs cannot be listed: neither nvidia-smi nor rocm-smi is there"
    assert list(judge_gpus.unlisted(found, 1)) == [(1, "gpu-count", text)]


def test_nodes_without_a_program_that_lists_gpus_are_not_judged() -> None:
    unknown = {"gpus": None, "gpus_fault": None, "torch_gpus": None}
    assert list(judge_gpus.unlisted({0: unknown, 1: unknown}, 4)) == []


def test_of_two_nodes_the_slow_one_is_named() -> None:
    found = {
        node: {"products": [{"device": "cpu", "seconds": seconds, "fault": None}]}
        for node, seconds in ((0, 0.001), (1, 0.009))
    }
    text = "a matrix product takes 9.0 times as long (cpu): 9.00 ms, the better one is 1.00 ms"
    assert list(judge_gpus.slow_products(found)) == [(1, "slow", text)]


def test_a_product_in_plain_python_is_not_compared_with_one_of_pytorch() -> None:
    found = {
        node: {"products": [{"device": device, "seconds": seconds, "fault": None}]}
        for node, (device, seconds) in enumerate([("cpu", 0.001), ("cpu", 0.001), (product.PLAIN, 0.009)])
    }
    assert list(judge_gpus.slow_products(found)) == []


@pytest.mark.parametrize(
    ("broken", "blamed"), [([1], [1]), ([0, 1], [0, 1]), ([0, 1, 2], []), ([0, 1, 2, 3], [])]
)
def test_nodes_without_the_pytorch_that_the_others_have_are_named(
    broken: list[int], blamed: list[int]
) -> None:
    fault = "OSError: libcudart.so.12: cannot open shared object file"
    found = {node: {"torch_fault": fault if node in broken else None} for node in range(4)}
    text = f"PyTorch cannot be imported, which the others can: {fault}"
    assert list(judge_gpus.without_torch(found)) == [(node, "torch", text) for node in blamed]


def test_why_pytorch_cannot_be_imported_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    torch, fault = product.load_torch()
    assert torch is None
    assert "torch" in fault


def test_products_of_gpus_have_checks_of_their_own() -> None:
    found = {
        node: {"products": [{"device": "cuda:0", "seconds": seconds, "fault": fault}]}
        for node, seconds, fault in ((0, 0.1, None), (1, 0.9, None), (2, 0.1, "wrong"), (3, 0.1, None))
    }
    assert [finding[:2] for finding in judge_gpus.slow_products(found)] == [(1, "gpu-slow")]
    assert [finding[:2] for finding in judge_gpus.wrong_products(found)] == [(2, "gpu-product")]


def test_of_two_nodes_the_one_with_less_memory_is_named() -> None:
    found = spaces("memory", 100, 40)
    assert [node for node, _, _ in judge.memory(found, None)] == [1]


def test_of_two_nodes_the_second_one_has_the_long_round_trip() -> None:
    assert [node for node, _, _ in judge_network.latencies({0: (0.0, 0.0001), 1: (0.0, 5.0)})] == [1]


@pytest.mark.parametrize(("offset", "blamed"), [(0.9, []), (1.9, [1]), (-2.5, [1])])
def test_of_two_nodes_the_clock_of_the_second_one_is_named(offset: float, blamed: list[int]) -> None:
    found = judge.clocks({0: (0.0, 0.0001), 1: (offset, 0.0001)})
    assert [node for node, _, _ in found] == blamed
