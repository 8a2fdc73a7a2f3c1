"""Which node a job gets. The plan, the linter and the twin agree."""

from pathlib import Path

import pytest

from slurmgen import Request, Site, lint, render, resolve
from slurmgen.errors import RequestError
from slurmgen.plan.explain import explain
from slurmgen.sites.model import Cpu, Gpu, GpuType, Node, Partition
from slurmgen.sites.nodes import place_of
from slurmgen.twin.layout import groups
from tests.conftest import Run

USUAL = Node(gpus=4, cpus=288, memory="808G")


@pytest.mark.parametrize(
    ("kind", "node"),
    [
        (GpuType(label="GH200"), USUAL),
        (GpuType(gpus=4, memory="1T"), Node(gpus=4, cpus=288, memory="1T")),
        (GpuType(cpus=64), Node(gpus=4, cpus=64, memory="808G")),
        (GpuType(gpus=8), Node(gpus=8)),  # a different machine with unknown CPUs and memory
        (GpuType(gpus=8, cpus=96), Node(gpus=8, cpus=96)),
    ],
)
def test_a_gpu_type_overrides_the_facts_of_the_node(kind: GpuType, node: Node) -> None:
    site = Site(name="x", node=USUAL, gpu=Gpu(types={"a": kind}))
    assert place_of(site, gpu_type="a").node == node


def test_the_gpu_type_overrides_the_partition_which_overrides_the_site() -> None:
    site = Site(
        name="x",
        node=USUAL,
        partitions={"p": Partition(node=Node(cpus=128, memory="512G"))},
        gpu=Gpu(types={"a": GpuType(memory="256G")}),
    )
    assert place_of(site, "p").node == Node(gpus=4, cpus=128, memory="512G")
    assert place_of(site, "p", "a").node == Node(gpus=4, cpus=128, memory="256G")


def test_a_gpu_type_with_only_a_label_has_the_usual_node() -> None:
    site = Site(name="x", node=USUAL, gpu=Gpu(types={"gh200": GpuType(label="NVIDIA GH200")}))
    plan = resolve(Request(gpus=8, gpu_type="gh200"), site)
    assert (plan.nodes, plan.gpus_per_node, plan.cpus_per_task, plan.mem) == (2, 4, 288, "808G")


PARTITIONS = {
    "big": Partition(node=Node(gpus=8, cpus=128, memory="1T")),
    "small": Partition(node=Node(gpus=2, cpus=256, memory="512G")),
    "usual": Partition(),
}


@pytest.mark.parametrize(
    ("partition", "node", "nodes"),
    [
        ("big", Node(gpus=8, cpus=128, memory="1T"), 1),
        ("big,usual", Node(gpus=4, cpus=128, memory="808G"), 2),
        ("usual,big", Node(gpus=4, cpus=128, memory="808G"), 2),
        ("big,small", Node(gpus=2, cpus=128, memory="512G"), 4),
    ],
)
def test_a_job_for_several_partitions_fits_the_smallest_node(partition: str, node: Node, nodes: int) -> None:
    site = Site(name="x", node=USUAL, partitions=PARTITIONS)
    assert place_of(site, partition).node == node
    assert resolve(Request(gpus=8, partition=partition), site).nodes == nodes


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("kind", [None, "same", "larger", "bare"])
def test_the_plan_the_linter_and_the_twin_agree(partition: str, kind: str | None) -> None:
    types = {"same": GpuType(gpus=4, cpus=72), "larger": GpuType(gpus=16, cpus=512), "bare": GpuType()}
    site = Site(name="x", node=USUAL, partitions=PARTITIONS, gpu=Gpu(types=types))
    node = place_of(site, partition, kind).node
    plan = resolve(Request(gpus=node.gpus, gpu_type=kind, partition=partition), site)
    (shape,) = {group.shape for group in groups(site, 1, kind) if partition in group.partitions}
    assert (plan.nodes, plan.gpus_per_node) == (1, node.gpus)
    assert shape.gpus == node.gpus
    assert node.cpus in (None, shape.cpus)
    assert lint.lint(render(plan), site) == ()
    too_large = render(plan).replace(f":{node.gpus}\n", f":{(node.gpus or 0) + 1}\n")
    assert "SG904" in {report.rule.code for report in lint.lint(too_large, site)}


def test_lint_accepts_the_rendered_script_for_a_type_with_more_gpus(slurmgen: Run, tmp_path: Path) -> None:
    args = "--site daic --account a --gpu-type v100 --gpus 8 --cpus-per-gpu 8".split()
    (tmp_path / "job.sbatch").write_text(slurmgen("render", *args).stdout)
    linted = slurmgen("lint", "job.sbatch", "--site", "daic")
    assert (linted.returncode, linted.stdout) == (0, "1 file: nothing found\n")


def test_a_required_gpu_type_is_added_if_there_is_only_one() -> None:
    site = Site(name="x", gpu=Gpu(type_required=True, types={"gh200": GpuType(gpus=4)}))
    plan = resolve(Request(gpus=8), site)
    assert dict(plan.directives)["gres"] == "gpu:gh200:4"
    assert explain(plan)["gpu_type"] == ("profile", "the only GPU type of x, which requires one")


def test_cpus_per_gpu_of_the_site_must_fit_the_node_of_the_partition() -> None:
    site = Site(name="x", node=USUAL, cpu=Cpu(per_gpu=72), partitions=PARTITIONS)
    with pytest.raises(RequestError, match="the job needs 576 CPUs per node, but a node of x has 128"):
        resolve(Request(gpus=8, partition="big"), site)
