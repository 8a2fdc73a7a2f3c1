"""A twin with 64 nodes: a step and a process group over all of them."""

import os
from collections.abc import Iterator

import pytest

from slurmgen import Request, load_site, render, resolve
from tests.support.fork_server import warm
from tests.support.twins import Testbed, twin

NODES = 64
TRAIN = """import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("rank", dist.get_rank(), os.environ["SLURMD_NODENAME"], int(total), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def large() -> Iterator[Testbed]:
    with twin("generic", nodes=NODES) as testbed:
        yield testbed


def test_a_step_reaches_all_64_nodes(large: Testbed) -> None:
    log = large.batch(f"#!/bin/bash\n#SBATCH --nodes={NODES}\nsrun printenv SLURMD_NODENAME\n")
    assert sorted(log.split()) == sorted(large.twin.nodes)


def test_64_ranks_on_64_nodes_reduce_in_rendered_script(large: Testbed) -> None:
    """Every rank counts all 64, and rank N runs on the Nth node."""
    (large.folder / "train.py").write_text(TRAIN)
    request = Request(framework="srun", gpus=NODES, nodes=NODES, script="train.py", time="00:10:00")
    log = large.batch(
        render(resolve(request, load_site("generic"))), PATH=f"{warm().parent}:{os.environ['PATH']}"
    )
    # PyTorch warns of a host that it cannot name, between the ranks' own lines.
    lines = sorted(line.split()[1:] for line in log.splitlines() if line.startswith("rank "))
    nodes = enumerate(large.twin.nodes)
    assert lines == sorted([str(rank), node, str(NODES)] for rank, node in nodes), log
