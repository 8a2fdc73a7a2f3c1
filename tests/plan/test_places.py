"""Which partition, QoS and GPU type a job gets, and what a profile sets for some jobs only."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import Site, lint, render
from slurmgen.errors import LimitExceeded, RequestError
from slurmgen.plan import as_dict
from slurmgen.plan.explain import explain
from slurmgen.plan.placement import notes
from slurmgen.plan.resources import charge
from slurmgen.sites.model import (
    Charge,
    Cpu,
    Gpu,
    GpuType,
    Launch,
    Limits,
    Memory,
    Modules,
    Node,
    Partition,
    Qos,
    Source,
    TimeByNodes,
    When,
)
from tests.support.plans import directives, plan_of
from tests.support.programs import write_programs

SIZES = Site(
    name="x",
    node=Node(gpus=4, cpus=128, memory="490G"),
    gpu=Gpu(types={"a100": GpuType()}, type_required=True),
    partitions={
        "small": Partition(default=True, max_gpus=2, max_nodes=1, max_time="12:00:00"),
        "medium": Partition(default=True, max_gpus=24, max_nodes=6, max_time="1-00:00:00"),
        "large": Partition(default=True, min_nodes=4, max_nodes=100),
        "test": Partition(max_gpus=4, max_time="00:15:00"),
    },
)


@pytest.mark.parametrize(
    ("request_", "partition"),
    [
        ({"gpus": 1}, "small"),
        ({"gpus": 2}, "small"),
        ({"gpus": 3}, "medium"),
        ({"gpus": 2, "nodes": 2}, "medium"),
        ({"gpus": 2, "time": "20:00:00"}, "medium"),
        ({"gpus": 24}, "medium"),
        ({"gpus": 28}, "large"),
        ({"gpus": 1, "partition": "test"}, "test"),
    ],
)
def test_the_first_default_partition_whose_limits_allow_the_job_is_used(
    request_: dict[str, object], partition: str
) -> None:
    assert directives(SIZES, **request_)["partition"] == partition


def test_a_job_that_fits_no_default_partition_is_refused_with_the_limit_of_the_last() -> None:
    with pytest.raises(RequestError, match="101 nodes exceed the limit of partition large: 100"):
        plan_of(SIZES, gpus=404)


def test_a_job_below_the_least_of_a_partition_is_refused() -> None:
    with pytest.raises(
        RequestError, match=r"1 node is below .* partition large: 4 per job\. Ask for at least"
    ):
        plan_of(SIZES, gpus=4, partition="large")


def test_a_partition_without_gpu_requests_gets_no_gpu_directive() -> None:
    site = Site(name="x", node=Node(gpus=1, cpus=72), gpu=Gpu(request="none"))
    found = directives(site, gpus=2)
    assert not {"gres", "gpus", "gpus-per-node"} & found.keys()
    assert found["nodes"] == "2"


TYPES = Site(
    name="x",
    gpu=Gpu(
        types={"a100": GpuType(constraint="a100", gpus=8), "h100": GpuType(constraint="h100", gpus=4)},
    ),
    partitions={
        "p5": Partition(default=True, gpu_type="a100"),
        "p6": Partition(gpu_type="h100"),
    },
    when={
        "h100": When(gpu_type="h100", account_suffix="@h100", modules=Modules(load=("arch/h100",))),
        "p5": When(partition="p5", account_suffix="@a100"),
    },
)


def test_a_constraint_selects_the_gpu_type() -> None:
    found = directives(TYPES, gpus=8, gpu_type="h100")
    assert (found["constraint"], found["gres"], found["nodes"]) == ("h100", "gpu:4", "2")


def test_a_constraint_of_the_request_is_added_to_that_of_the_type() -> None:
    assert directives(TYPES, sbatch={"constraint": "nvme"})["constraint"] == "a100&nvme"


def test_the_gpu_type_selects_its_partition() -> None:
    assert directives(TYPES, gpu_type="h100")["partition"] == "p6"


def test_a_type_that_the_named_partition_does_not_have_is_refused() -> None:
    with pytest.raises(
        RequestError, match=r"partition p6 has h100 GPUs, not a100\. Leave out --partition or"
    ):
        plan_of(TYPES, partition="p6", gpu_type="a100")


def test_partitions_of_several_types_are_refused() -> None:
    with pytest.raises(RequestError, match="has GPUs of several types: a100, h100"):
        plan_of(TYPES, partition="p5,p6")


def test_an_account_of_another_partition_is_refused() -> None:
    with pytest.raises(RequestError, match="the account abc@h100 ends with @h100, but this job needs @a100"):
        plan_of(TYPES, account="abc@h100")


def test_a_site_without_gpu_requests_accepts_no_type() -> None:
    with pytest.raises(RequestError, match="x accepts no GPU type"):
        plan_of(Site(name="x", gpu=Gpu(request="none")), gpu_type="a100")


def test_account_and_modules_follow_the_partition_and_the_type() -> None:
    assert directives(TYPES, account="abc")["account"] == "abc@a100"
    other = plan_of(TYPES, account="abc", gpu_type="h100")
    assert dict(other.directives)["account"] == "abc@h100"
    assert "module load arch/h100" in other.setup.modules


def test_an_account_that_has_the_suffix_stays() -> None:
    assert directives(TYPES, account="abc@a100")["account"] == "abc@a100"


def test_the_default_type_is_named_in_the_request() -> None:
    site = Site(name="x", gpu=Gpu(default_type="a100", types={"a100": GpuType(), "h100": GpuType()}))
    assert directives(site)["gres"] == "gpu:a100:1"
    assert directives(site, gpu_type="h100")["gres"] == "gpu:h100:1"


QUALITIES = Site(
    name="x",
    partitions={"p": Partition(default=True, max_time="1-00:00:00", max_nodes=64)},
    qos={
        "normal": Qos(default=True, max_time="1-00:00:00"),
        "long": Qos(default=True, max_time="4-00:00:00", max_nodes=8, replaces_partition_limits=True),
    },
)


def test_the_first_default_qos_whose_limits_allow_the_job_is_used() -> None:
    assert directives(QUALITIES)["qos"] == "normal"
    assert directives(QUALITIES, time="2-00:00:00")["qos"] == "long"


def test_limits_of_a_qos_replace_those_of_the_partition_one_by_one() -> None:
    assert directives(QUALITIES, qos="long", time="3-00:00:00", nodes=8, gpus=8)["time"] == "3-00:00:00"
    with pytest.raises(RequestError, match="9 nodes exceed the limit of qos long: 8"):
        plan_of(QUALITIES, qos="long", nodes=9, gpus=9)


def test_a_required_qos_is_asked_for() -> None:
    site = Site(name="x", qos_required=True, qos={"a": Qos(), "b": Qos()})
    with pytest.raises(RequestError, match=r"x needs a QoS\. Add --qos, one of a, b\."):
        plan_of(site)


def test_the_time_limit_may_depend_on_the_number_of_nodes() -> None:
    by_nodes = (TimeByNodes(nodes=2, time="02:00:00"), TimeByNodes(nodes=4, time="06:00:00"))
    part = Partition(default=True, max_time="12:00:00", max_time_by_nodes=by_nodes)
    site = Site(name="x", partitions={"p": part})
    with pytest.raises(RequestError, match="partition p allows 02:00:00"):
        plan_of(site, gpus=2, nodes=2, time="03:00:00")
    assert directives(site, gpus=3, nodes=3, time="06:00:00")["time"] == "06:00:00"
    assert directives(site, gpus=5, nodes=5, time="12:00:00")["time"] == "12:00:00"


def test_a_short_job_gets_the_shortest_time_of_the_site() -> None:
    site = Site(name="x", limits=Limits(min_time="02:00:00"))
    assert directives(site)["time"] == "02:00:00"
    with pytest.raises(RequestError, match="--time 00:30:00 is shorter than x allows: 02:00:00"):
        plan_of(site, time="00:30:00")


def test_other_than_the_exact_cpus_are_refused() -> None:
    site = Site(name="x", cpu=Cpu(per_gpu=20, exact=True))
    assert directives(site, gpus=4)["cpus-per-task"] == "80"
    with pytest.raises(RequestError, match="--cpus-per-gpu 16, but x allows exactly 20"):
        plan_of(site, cpus_per_gpu=16)


def test_shares_of_a_partitions_node_replace_those_of_the_site() -> None:
    node = Node(gpus=4, cpus=64, cpus_per_gpu=16, memory_per_gpu="62200M")
    site = Site(
        name="x",
        cpu=Cpu(per_gpu=8),
        memory=Memory(per_gpu="10G"),
        partitions={"a": Partition(default=True), "b": Partition(node=node)},
    )
    assert directives(site, gpus=2)["mem"] == "20G"
    assert directives(site, gpus=2)["cpus-per-task"] == "16"
    found = directives(site, gpus=2, partition="b")
    assert (found["mem"], found["cpus-per-task"]) == ("124400M", "32")


def test_an_optional_memory_request_is_the_users_only() -> None:
    site = Site(name="x", memory=Memory(form="optional", per_gpu="10G"))
    assert "mem" not in directives(site, gpus=2)
    assert directives(site, gpus=2, mem="30G")["mem"] == "30G"


CONDITIONS = Site(
    name="x",
    node=Node(gpus=4),
    launch=Launch(srun=("--mpi=none",), before=("ulimit -c 0",)),
    when={
        "several": When(nodes="several", sbatch={"switches": "1"}, env={"A": "1"}),
        "one": When(nodes="one", env={"A": "2"}),
        "full": When(whole_nodes=True, tasks="per-gpu", launch=Launch(srun=("--cpu-bind=mask_cpu:0xff",))),
        "mkdir": When(whole_nodes=True, launch=Launch(before_on_each_node=("mkdir -p /tmp/a",))),
    },
)


@pytest.mark.parametrize(
    ("framework", "gpus", "present", "absent"),
    [
        ("ddp", 2, ["export A=2", "--mpi=none"], ["switches", "mask_cpu", "mkdir"]),
        ("ddp", 4, ["export A=2", "mkdir -p /tmp/a"], ["switches", "mask_cpu"]),
        ("ddp", 8, ["export A=1", "#SBATCH --switches=1"], ["mask_cpu"]),
        (
            "lightning",
            8,
            [
                "--cpu-bind=mask_cpu:0xff",
                "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --export=ALL bash -c",
            ],
            [],
        ),
        ("lightning", 2, ["ulimit -c 0"], ["mask_cpu", "mkdir"]),
    ],
)
def test_conditions_select_what_a_script_contains(
    framework: str, gpus: int, present: list[str], absent: list[str]
) -> None:
    text = render(plan_of(CONDITIONS, framework=framework, gpus=gpus))
    assert [words for words in present if words not in text] == []
    assert [words for words in absent if words in text] == []


def test_the_command_of_torchrun_may_be_another() -> None:
    launch = Launch(
        torchrun=("python", "-m", "torch.distributed.run"), torchrun_options=("--numa-binding=exclusive",)
    )
    text = render(plan_of(Site(name="x", launch=launch), gpus=4))
    assert "python -m torch.distributed.run --standalone" in " ".join(text.split())
    assert "--numa-binding=exclusive" in text


def test_uv_is_refused_where_compute_nodes_do_not_reach_the_internet() -> None:
    with pytest.raises(RequestError, match="needs the internet, which the compute nodes of x do not reach"):
        plan_of(Site(name="x", internet="no"), python_env="uv", script="train.py")


def test_a_reason_cites_the_source_of_the_fact() -> None:
    source = Source(mark="users", title="notes", date="2026-07-27", facts=("cpu",))
    site = Site(name="x", cpu=Cpu(per_gpu=8), sources={"notes": source})
    assert "from the profile of x [notes]" in explain(plan_of(site))["cpus_per_task"].text
    assert as_dict(plan_of(site))["cited"] == {"notes": "users: notes, 2026-07-27"}


def test_the_charge_is_in_the_unit_of_the_site() -> None:
    site = Site(
        name="x",
        node=Node(gpus=4),
        partitions={"a": Partition(default=True), "b": Partition()},
        charge=Charge(unit="SU", per="node", rate=3, rates={"b": 1.5}),
    )
    assert charge(plan_of(site, gpus=8, time="02:00:00")) == "12 SU"
    assert charge(plan_of(site, gpus=8, time="02:00:00", partition="b")) == "6 SU"
    assert plan_of(site, gpus=8, time="02:00:00").gpu_hours == 16
    assert plan_of(site, gpus=8, time="02:00:00", sbatch={"array": "1,3-7:2%2"}).gpu_hours == 4 * 16
    assert plan_of(site, gpus=8, time="02:00:00", segments=3).gpu_hours == 3 * 16


def test_options_of_torchrun_with_blanks_stay_single_words(tmp_path: Path) -> None:
    launch = Launch(torchrun_options=("--tee=a;touch OWNED;", "--name=it's mine"))
    text = render(plan_of(Site(name="x", node=Node(gpus=4), launch=launch), gpus=8))
    step = text[text.index("srun --cpus") :]
    write_programs(tmp_path, {"srun": 'shift 3; exec "$@"', "torchrun": r'printf "%s\n" "$@"'})
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_NODEID": "0"}
    done = subprocess.run(
        ["bash", "-c", step], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    words = done.stdout.splitlines()
    assert words[-3:] == ["--tee=a;touch OWNED;", "--name=it's mine", "training/train_ddp.py"]
    assert not (tmp_path / "OWNED").exists()


def test_a_constraint_with_an_alternative_keeps_its_meaning() -> None:
    found = directives(TYPES, gpu_type="h100", sbatch={"constraint": "a|b"})
    assert found["constraint"] == "h100&(a|b)"


OPEN = structs.replace(SIZES, qos={"normal": Qos()})


@pytest.mark.parametrize(
    ("request_", "directive", "lines"),
    [
        ({"partition": "vip"}, ("partition", "vip"), "[partitions.vip]"),
        ({"partition": "smal"}, ("partition", "smal"), "Did you mean small?"),
        ({"qos": "premium"}, ("qos", "premium"), "[qos.premium]"),
        ({"gpu_type": "h100_1g.10gb"}, ("gres", "gpu:h100_1g.10gb:2"), '[gpu.types."h100_1g.10gb"]'),
    ],
)
def test_a_name_that_no_list_has_is_passed_on_with_a_note(
    request_: dict[str, str], directive: tuple[str, str], lines: str
) -> None:
    made = plan_of(OPEN, gpus=2, **{"gpu_type": "a100", **request_})
    assert directive in made.directives
    assert [text for text in notes(made).values() if lines in text]


@pytest.mark.parametrize(
    ("key", "request_", "fact"),
    [
        ("partitions", {"partition": "smal"}, r"x has no partition 'smal'\. Did you mean small\?"),
        ("qos", {"qos": "norml"}, r"x has no QoS 'norml'\. Did you mean normal\?"),
        ("gpu.types", {"gpu_type": "a10"}, r"x has no GPU type 'a10'\. Did you mean a100\?"),
    ],
)
def test_a_name_that_a_complete_list_lacks_is_refused(key: str, request_: dict[str, str], fact: str) -> None:
    site = structs.replace(OPEN, complete=(key,))
    with pytest.raises(RequestError, match=fact):
        plan_of(site, gpus=2, **request_)


def test_a_gpu_job_takes_a_gpu_partition_if_the_default_has_no_gpus() -> None:
    site = Site(
        name="x",
        partitions={"work": Partition(default=True, max_gpus=0), "gpu": Partition(max_time="10:00:00")},
    )
    assert directives(site, gpus=1, time="1:00:00")["partition"] == "gpu"
    assert directives(site, gpus=0, time="1:00:00")["partition"] == "work"


def test_a_partition_of_the_type_comes_before_one_whose_type_is_unknown() -> None:
    site = Site(
        name="x",
        gpu=Gpu(types={"a100": GpuType(), "h100": GpuType()}),
        partitions={
            "a": Partition(default=True, gpu_type="a100"),
            "b": Partition(),
            "c": Partition(gpu_type="h100"),
        },
    )
    assert directives(site, gpus=1, gpu_type="h100", time="1:00:00")["partition"] == "c"


def test_a_type_that_no_partition_has_is_refused() -> None:
    types = {**TYPES.gpu.types, "v100": GpuType()}
    with pytest.raises(
        RequestError, match=r"no partition of x has v100 GPUs\. GPU types of its partitions: a100, h100"
    ):
        plan_of(structs.replace(TYPES, gpu=Gpu(types=types)), gpu_type="v100")


def test_a_qos_replaces_neither_limits_of_the_site_nor_missing_gpus() -> None:
    site = Site(
        name="x",
        limits=Limits(max_gpus=16),
        partitions={"p": Partition(default=True, max_gpus=8), "cpu": Partition(max_gpus=0)},
        qos={"over": Qos(max_gpus=100, replaces_partition_limits=True)},
    )
    assert plan_of(site, gpus=12, nodes=2, qos="over").world_size == 12
    with pytest.raises(RequestError, match="40 GPUs exceed the limit of x: 16"):
        plan_of(site, gpus=40, nodes=5, qos="over")
    with pytest.raises(RequestError, match="partition cpu has no GPUs"):
        plan_of(site, gpus=4, partition="cpu", qos="over")


def test_a_qos_with_times_by_nodes_replaces_the_times_of_the_partition() -> None:
    qos = Qos(max_time_by_nodes=(TimeByNodes(nodes=2, time="02:00:00"),), replaces_partition_limits=True)
    site = Site(name="x", partitions={"p": Partition(default=True, max_time="1:00:00")}, qos={"q": qos})
    assert directives(site, qos="q", time="02:00:00")["time"] == "02:00:00"


def test_lines_for_each_node_may_be_any_shell(tmp_path: Path) -> None:
    lines = ("# a comment", "for i in 1 2; do", "  echo $i", "done")
    launch = Launch(before_on_each_node=lines)
    text = render(plan_of(Site(name="x", node=Node(gpus=4), launch=launch), gpus=4))
    step = text[text.index("srun --nodes=1") : text.index("# 1 task per node")]
    write_programs(tmp_path, {"srun": 'shift 4; exec "$@"'})
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", step], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n2\n"


def test_a_partition_whose_least_time_is_longer_is_not_chosen() -> None:
    partitions = {
        "long": Partition(default=True, min_time="02:00:00", max_time="1-00:00:00"),
        "short": Partition(default=True, max_time="02:00:00"),
    }
    assert directives(Site(name="x", partitions=partitions), time="00:30:00")["partition"] == "short"


CAPPED = Site(
    name="x",
    node=Node(gpus=4, cpus=64, memory="500G"),
    partitions={
        "main": Partition(default=True, default_without_gpus=True, max_cpus=8, max_memory="48G"),
        "long": Partition(default=True, default_without_gpus=True),
    },
    qos={"small": Qos(max_cpus=6, max_memory="32G")},
)


@pytest.mark.parametrize(
    ("asked", "partition", "cpus", "memory"),
    [
        ({"gpus": 1}, "main", "8", "48G"),
        ({"gpus": 2, "nodes": 2, "qos": "small"}, "main", "3", "16G"),
        ({"gpus": 0}, "main", "4", "32000M"),
        ({"gpus": 1, "cpus_per_gpu": 16}, "long", "16", "125G"),
        ({"gpus": 1, "mem": "64G"}, "long", "16", "64G"),
        ({"gpus": 0, "cpus": 9, "mem": "9G"}, "long", "9", "9G"),
    ],
)
def test_cpus_and_memory_stay_within_the_limits_of_partition_and_qos(
    asked: dict[str, object], partition: str, cpus: str, memory: str
) -> None:
    found = directives(CAPPED, **asked)
    assert (found["partition"], found["cpus-per-task"], found["mem"]) == (partition, cpus, memory)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"cpus_per_gpu": 16},
            "16 CPUs exceed the limit of partition main: 8 per job. Ask for at most --cpus",
        ),
        ({"cpus": 5, "nodes": 2}, "10 CPUs exceed the limit of partition main: 8 per job. .* --cpus 4"),
        ({"mem": "64G"}, "64G of memory exceed the limit of partition main: 48G per job. .* --mem 48G"),
        (
            {"mem": "17G", "nodes": 2, "qos": "small"},
            "34G of memory .* of qos small: 32G per job. .* --mem 16G",
        ),
        ({"gpus": 8, "nodes": 8, "qos": "small"}, "8 CPUs exceed the limit of qos small: 6 .* fewer GPUs"),
    ],
)
def test_more_cpus_or_memory_than_a_job_may_have_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(LimitExceeded, match=message):
        plan_of(CAPPED, partition="main", **{"gpus": asked.get("nodes", 1), **asked})


@pytest.mark.parametrize(
    ("form", "asked", "wanted"),
    [
        ("gres", {}, {"gres": "gpu:2,nvme:100,shard:1"}),
        ("gpus", {}, {"gpus": "2", "gres": "nvme:100,shard:1"}),
        ("gres", {"gpus": 0}, {"gres": "nvme:100,shard:1"}),
    ],
)
def test_other_generic_resources_are_joined_to_the_gpus(
    form: str, asked: dict[str, Any], wanted: dict[str, str]
) -> None:
    made = plan_of(
        Site(name="x", gpu=Gpu(request=form)), sbatch={"gres": "nvme:100,shard:1"}, **{"gpus": 2, **asked}
    )  # type: ignore[arg-type]
    found = dict(made.directives)
    assert {key: found[key] for key in ("gres", "gpus") if key in found} == wanted
    assert lint.lint(render(made), made.profile) == ()
    reason = explain(made)["directives.gres"].text
    assert reason == "as requested" or wanted["gres"].startswith("gpu:")


@pytest.mark.parametrize("gres", ["gpu:1", "nvme:1,gpu:2", "gpu", "nvme:1 x", "nvme:$(x)", "a:b:c:d"])
def test_gpus_and_malformed_resources_are_refused_among_them(gres: str) -> None:
    with pytest.raises(RequestError, match="slurmgen sets --gres itself"):
        plan_of(Site(name="x"), sbatch={"gres": gres})


def test_a_profile_adds_resources_to_a_gpu_type() -> None:
    kind = GpuType(sbatch={"gres": "gpumem:24g"})
    assert directives(Site(name="x", gpu=Gpu(types={"a": kind})), gpu_type="a")["gres"] == "gpu:1,gpumem:24g"
