"""Jobs without GPUs: their partition, node, settings and launchers, and the sites that refuse them."""

import pytest
from msgspec import structs

from slurmgen import Request, Site, lint, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.launchers import LAUNCHERS
from slurmgen.plan import Plan
from slurmgen.sites.model import Container, Env, Modules, Node, OtherEngine, Partition, When
from slurmgen.sites.profiles import profile_paths

ONE_GPU = Node(gpus=4, cpus=32, memory="64G")
REFUSING = {
    "jupiter": ("has no partition without GPUs", "add it to the profile"),
    "juwels-booster": ("has no partition without GPUs", "add it to the profile"),
    "marenostrum5-acc": ("MareNostrum 5 GPP, with login nodes", "glogin1.bsc.es"),
    "roihu": ("CPU nodes are Roihu-CPU", "roihu-cpu.csc.fi"),
}
"The bundled sites that refuse such jobs, with the fact and the advice."
NAMING = {"berzelius"}
"Sites whose profile lists no partition, and where such a job must name one."
ACCEPTING = sorted(profile_paths(personal=False).keys() - REFUSING - NAMING)
OF_GPUS = ("gres", "gpu", "NCCL", "CUDA", "MIOPEN", "HSA_", "--nv", "--rocm")
ALL = {(framework, nodes) for framework in LAUNCHERS for nodes in (1, 2)}
STARTING = {("python", 1), ("ray", 1), ("ray", 2), ("tensorflow", 1), ("tensorflow", 2)}
"The launchers and nodes of jobs without GPUs."
SIZES = Site(
    name="x",
    node=ONE_GPU,
    partitions={
        "gpu": Partition(default=True, min_gpus=1),
        "test": Partition(max_gpus=0, default_without_gpus=False),
        "part": Partition(max_gpus=0, max_nodes=1, node=Node(cpus=16)),
        "whole": Partition(max_gpus=0, max_nodes=4),
    },
    cpu_node=Node(cpus=128, memory="256G"),
)


def plan(site: Site, **asked: object) -> Plan:
    return resolve(Request(gpus=0, script="prep.py", account="p1", **asked), site)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ACCEPTING)
def test_every_bundled_site_runs_it_without_naming_a_partition(name: str) -> None:
    text = render(plan(load_site(name), cpus=8))
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    assert [line for line in lines if any(word in line for word in OF_GPUS)] in (
        [],
        ["export MPICH_GPU_SUPPORT_ENABLED=0"],
    )
    assert not lint(text, site=load_site(name))


@pytest.mark.parametrize("name", sorted(NAMING))
def test_explain_says_where_a_partition_must_be_named(name: str) -> None:
    assert "add --partition" in plan(load_site(name)).ranks.settings.notes["without_gpus"]


@pytest.mark.parametrize("name", REFUSING)
def test_a_refusal_names_the_fact_and_what_to_do(name: str) -> None:
    site, (fact, advice) = load_site(name), REFUSING[name]
    with pytest.raises(RequestError) as raised:
        plan(site, qos=next(iter(site.qos), None) if site.qos_required else None)
    assert fact in raised.value.fact
    assert advice in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("daic", "all"),
        ("olivia", "small"),
        ("clariden", "normal"),
        ("delta", "cpu"),
        ("snellius", "rome"),
        ("vista", "gg"),
    ],
)
def test_the_partition_is_the_first_that_the_profile_marks(name: str, partition: str) -> None:
    assert plan(load_site(name)).place.partitions == (partition,)


@pytest.mark.parametrize(
    ("asked", "partition"),
    [({}, "part"), ({"cpus": 64}, "whole"), ({"nodes": 2, "framework": "ray"}, "whole")],
)
def test_the_partition_has_room_for_the_job(asked: dict[str, object], partition: str) -> None:
    assert plan(SIZES, **asked).place.partitions == (partition,)


def test_the_partition_accepts_the_qos_of_the_job() -> None:
    site = load_site("jean-zay")
    assert plan(site, qos="qos_cpu-t4", time="40:00:00").place.partitions == ("cpu_p1",)
    with pytest.raises(RequestError, match="not a partition for jobs without GPUs"):
        plan(site, qos="qos_gpu-t4")


def test_the_account_of_jean_zay_is_that_of_cpu_hours() -> None:
    assert dict(plan(load_site("jean-zay")).directives)["account"] == "p1@cpu"


def test_a_named_partition_that_needs_gpus_is_refused_with_those_that_do_not() -> None:
    with pytest.raises(RequestError) as raised:
        plan(SIZES, partition="gpu")
    assert "0 GPUs are below the limit of partition gpu" in raised.value.fact
    assert "use --partition part or whole" in (raised.value.hint or "")


def test_its_memory_is_its_share_of_a_node_without_gpus() -> None:
    assert plan(SIZES, partition="whole", cpus=8).mem == "16G"
    assert plan(Site(name="x", node=ONE_GPU, cpu_node=SIZES.cpu_node), cpus=8).mem == "16G"


def test_a_setting_depends_on_whether_the_job_has_gpus() -> None:
    tables = {
        "with": When(has_gpus=True, sbatch={"constraint": "gpu"}),
        "without": When(has_gpus=False, sbatch={"constraint": "cpu"}),
    }
    site = Site(name="x", when=tables)
    assert dict(plan(site).directives)["constraint"] == "cpu"
    assert dict(resolve(Request(gpus=1), site).directives)["constraint"] == "gpu"


def test_variables_and_libraries_of_several_gpu_nodes_are_left_out() -> None:
    container = Container(
        image="/a.sif",
        gpu_options=("--nccl",),
        multi_node_modules=("NCCL",),
        multi_node_binds=("/nccl",),
        multi_node_library_path=("/nccl/lib",),
    )
    site = Site(name="x", env=Env(multi_node={"NCCL_DEBUG": "INFO"}), container=container)
    asked: dict[str, object] = {"nodes": 2, "framework": "ray", "container": "/b.sif"}
    assert "nccl" not in render(plan(site, **asked)).lower()
    with_gpus = render(resolve(Request(gpus=2, script="prep.py", **asked), site))  # type: ignore[arg-type]
    assert with_gpus.lower().count("nccl") > 4


def test_options_of_another_engine_for_gpus_are_left_out() -> None:
    other = OtherEngine(image="b", gpu_options=("--nccl",))
    site = Site(name="x", container=Container(engine="shifter", engines={"podman-hpc": other}))
    asked: dict[str, object] = {"container_engine": "podman-hpc", "container": "b"}
    assert "--nccl" not in render(plan(site, **asked))
    assert "--nccl" in render(resolve(Request(gpus=1, script="a.py", **asked), site))  # type: ignore[arg-type]


def test_modules_of_the_request_are_loaded() -> None:
    site = Site(name="x", modules=Modules(load=("CUDA/12",)))
    assert plan(site, modules=("Python",)).setup.modules == ("module load Python",)


@pytest.mark.parametrize(("framework", "nodes"), sorted(STARTING))
def test_a_launcher_of_processes_starts_one_on_each_node(framework: str, nodes: int) -> None:
    found = plan(Site(name="x"), framework=framework, nodes=nodes, cpus=8)
    assert (found.world_size, found.ntasks_per_node, found.cpus_per_task) == (nodes, 1, 8)


@pytest.mark.parametrize(("framework", "nodes"), sorted(ALL - STARTING))
def test_another_launcher_is_refused_with_those_that_start(framework: str, nodes: int) -> None:
    with pytest.raises(RequestError) as raised:
        plan(Site(name="x"), framework=framework, nodes=nodes, cpus=8)
    for one, most in STARTING:
        assert most != nodes or one in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("name", "gpus", "hint"),
    [
        ("daic", 4, "at most --gpus 3, or use --gpu-type v100 or --gpu-type turing"),
        ("daic", 8, "at most --gpus 3, or use --gpu-type v100 or --framework"),
        ("delta", 8, "--partition gpuA100x8"),
        ("mahti", 8, "at most --gpus 4, or use --framework ddp"),
    ],
)
def test_one_process_with_more_gpus_than_a_node_has_is_shown_larger_nodes(
    name: str, gpus: int, hint: str
) -> None:
    with pytest.raises(RequestError) as raised:
        resolve(Request(framework="python", gpus=gpus, account="p1"), load_site(name))
    assert "python starts one process" in raised.value.fact
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize("name", ACCEPTING)
def test_a_job_with_all_cpus_of_a_node_has_no_finding(name: str) -> None:
    site = load_site(name)
    every = plan(site).place.node.cpus or 8
    assert not lint(render(plan(site, cpus=every)), site=site)


def test_a_job_on_whole_nodes_gets_all_their_cpus() -> None:
    whole = structs.replace(
        SIZES,
        partitions={"cpu": Partition(max_gpus=0, whole_nodes=True)},
        cpu_node=Node(cpus=64, memory="128G"),
    )
    found = plan(whole)
    assert (found.cpus_per_task, found.mem) == (64, "128G")
    assert plan(whole, cpus=8).cpus_per_task == 8


def test_the_memory_selects_the_partition() -> None:
    assert plan(SIZES, mem="100G").place.partitions == ("part",)
    small = structs.replace(
        SIZES,
        partitions={
            "small": Partition(max_gpus=0, node=Node(cpus=16, memory="64G")),
            "large": Partition(max_gpus=0, node=Node(cpus=16, memory="512G")),
        },
    )
    assert plan(small, mem="100G").place.partitions == ("large",)


def test_a_named_gpu_partition_keeps_its_own_nodes() -> None:
    gpu = structs.replace(SIZES, partitions={"gpu": Partition(default=True)})
    with pytest.raises(RequestError, match="has 32"):
        plan(gpu, partition="gpu", cpus=64)


def test_a_limit_that_no_partition_meets_is_that_of_one_with_enough_nodes() -> None:
    limited = structs.replace(
        SIZES,
        partitions={
            "few": Partition(max_gpus=0, max_nodes=1, max_time="01:00:00"),
            "many": Partition(max_gpus=0, min_nodes=4),
        },
    )
    with pytest.raises(RequestError, match="partition few allows 01:00:00"):
        plan(limited, time="02:00:00")
