"""The plan: derived values, and rejected requests."""

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import Plan, Request, load_site, resolve
from slurmgen.errors import RequestError
from slurmgen.plan import as_dict
from slurmgen.plan.explain import explain
from slurmgen.request.model import Then
from slurmgen.sites.model import Container, Cpu, Gpu, GpuType, Memory, Node, Partition, Qos, Rendezvous, Site
from tests.support import plans
from tests.support.examples import examples

ACCOUNT = {"daic": "a", "olivia": "nn1k", "generic": None}


def plan_of(site: str | Site, **asked: Any) -> Plan:
    name = site if isinstance(site, str) else site.name
    return plans.plan_of(site, **{"account": ACCOUNT.get(name), **asked})


@pytest.mark.parametrize(
    ("framework", "ntasks_per_node", "procs_per_task", "cpus_per_task"),
    [("lightning", 4, 1, 72), ("srun", 4, 1, 72), ("ddp", 1, 4, 288), ("accelerate", 1, 4, 288)],
)
def test_the_task_layout_follows_from_the_framework(
    framework: str, ntasks_per_node: int, procs_per_task: int, cpus_per_task: int
) -> None:
    plan = plan_of("olivia", framework=framework, gpus=8)
    assert (plan.nodes, plan.gpus_per_node, plan.world_size) == (2, 4, 8)
    assert (plan.ntasks_per_node, plan.procs_per_task, plan.cpus_per_task) == (
        ntasks_per_node,
        procs_per_task,
        cpus_per_task,
    )


@pytest.mark.parametrize(
    ("site", "gpus", "nodes", "layout"),
    [
        ("olivia", 1, None, (1, 1)),
        ("olivia", 4, None, (1, 4)),
        ("olivia", 8, None, (2, 4)),
        ("olivia", 4, 2, (2, 2)),
        ("daic", 6, None, (2, 3)),
        ("generic", 8, None, (1, 8)),
        ("generic", 8, 2, (2, 4)),
    ],
)
def test_nodes_follow_from_gpus_and_the_site(
    site: str, gpus: int, nodes: int | None, layout: tuple[int, int]
) -> None:
    plan = plan_of(site, gpus=gpus, nodes=nodes)
    assert (plan.nodes, plan.gpus_per_node) == layout


def test_the_gpu_type_determines_the_gpus_per_node() -> None:
    assert plan_of("daic", gpus=4, gpu_type="turing").nodes == 1
    assert plan_of("daic", gpus=8, gpu_type="v100").gpu_directive == (("gres", "gpu:v100:8"),)


IMPOSSIBLE = [
    ("generic", {"mem": "9" * 400 + "K"}, "is more than", "such as 64G"),
    ("generic", {"time": "9" * 5000}, "is not a Slurm time", "04:00:00"),
    ("generic", {"sbatch": {"array": "9" * 5000}}, "an index of more than 4,000,000", "no larger"),
    ("generic", {"name": "n" * 201}, "the job name has 201 characters", "at most 200"),
    ("generic", {"script": "a\udcffb"}, "script has a control character", "take it out"),
    ("daic", {"account": None}, "daic needs an account", "--account NAME"),
]


def impossible(site: str) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Requests as slurmgen.toml has them, each with the fact and the hint of its refusal."""
    for one in examples(Path(__file__).parent / f"impossible/{site}.txt"):
        fact, _, hint = one.expected.partition(" | ")
        asked = {key: tuple(v) if isinstance(v, list) else v for key, v in tomllib.loads(one.text).items()}
        yield site, asked, fact, hint


@pytest.mark.parametrize(
    ("site", "asked", "fact", "hint"),
    [*IMPOSSIBLE, *impossible("olivia"), *impossible("generic"), *impossible("daic")],
)
def test_an_impossible_request_is_rejected_with_fact_and_hint(
    site: str, asked: dict[str, object], fact: str, hint: str
) -> None:
    with pytest.raises(RequestError) as caught:
        plan_of(site, **asked)
    assert fact in caught.value.fact
    assert hint in caught.value.hint


def test_requeue_options_have_reasons_and_can_be_overridden() -> None:
    plan = plan_of("generic", requeue=True, sbatch={"signal": "USR2@300"})
    assert dict(plan.directives).items() >= {("requeue", ""), ("open-mode", "append"), ("signal", "USR2@300")}
    assert explain(plan)["requeue"].text == explain(plan)["directives.signal"].text == "as requested"
    assert "appends to the log" in explain(plan)["directives.open-mode"].text


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("90", "01:30:00"),
        ("24:00", "00:24:00"),
        ("4:00:00", "04:00:00"),
        ("1-12", "1-12:00:00"),
        ("7-0:0:0", "7-00:00:00"),
    ],
)
def test_time_is_written_in_canonical_form(text: str, time: str) -> None:
    assert plan_of("olivia", time=text).time == time


def test_the_default_time_is_limited_by_the_partition() -> None:
    site = Site(name="x", time="04:00:00", partitions={"debug": Partition(default=True, max_time="30")})
    assert plan_of(site).time == "00:30:00"


def test_defaults_are_explained_if_the_site_has_no_value() -> None:
    reasons = as_dict(plan_of("generic", gpus=2))["reasons"]
    assert isinstance(reasons, dict)
    defaults = {key for key, why in reasons.items() if "slurmgen's default" in why}
    assert {key for key in defaults if "." not in key} == {"cpus_per_task", "mem", "time"}


@pytest.mark.parametrize(
    ("form", "nodes", "directive"),
    [
        ("gres", 2, ("gres", "gpu:h100:2")),
        ("gpus-per-node", 2, ("gpus-per-node", "h100:2")),
        ("gpus", 1, ("gpus", "h100:4")),
        ("gpus", 2, ("gpus-per-node", "h100:2")),  # Slurm would allocate four as three and one
    ],
)
def test_gpus_are_requested_in_the_form_of_the_site(
    form: str, nodes: int, directive: tuple[str, str]
) -> None:
    site = Site(name="x", gpu=Gpu(request=form, type_required=True, types={"h100": GpuType()}))  # type: ignore[arg-type]
    assert directive in plan_of(site, gpus=4, nodes=nodes, gpu_type="h100").directives


@pytest.mark.parametrize(
    ("form", "directives"),
    [
        ("mem", [("mem", "64G")]),
        ("mem-per-gpu", [("mem-per-gpu", "32G")]),
        ("mem-per-cpu", [("mem-per-cpu", "4G")]),
        ("none", []),
    ],
)
def test_memory_is_requested_in_the_form_of_the_site(form: str, directives: list[tuple[str, str]]) -> None:
    site = Site(name="x", memory=Memory(form=form, per_gpu="32G"), cpu=Cpu(per_gpu=8))  # type: ignore[arg-type]
    found = [pair for pair in plan_of(site, gpus=2).directives if pair[0].startswith("mem")]
    assert found == directives


@pytest.mark.parametrize(("gpus", "mem"), [(2, "0"), (0, "1M")])
def test_memory_that_rounds_to_zero_is_rejected(gpus: int, mem: str) -> None:
    with pytest.raises(RequestError, match="is less than 1M for each of"):
        plan_of(Site(name="x", memory=Memory(form="mem-per-cpu")), gpus=gpus, mem=mem)


def test_c10d_is_rejected_with_a_rendezvous_suffix() -> None:
    site = Site(name="x", rendezvous=Rendezvous(suffix="i"))
    assert plan_of(site, gpus=4, nodes=2).rendezvous == Rendezvous(suffix="i")
    with pytest.raises(RequestError, match="suffix 'i'"):
        plan_of(site, gpus=4, nodes=2, rendezvous="c10d")


def test_unknown_facts_of_a_gpu_type_set_no_limit() -> None:
    assert plan_of("daic", gpu_type="v100", gpus=8, cpus_per_gpu=10, mem="900G").cpus_per_task == 80


def test_a_site_without_memory_requests_rejects_one() -> None:
    with pytest.raises(RequestError, match="allows no memory request"):
        plan_of(Site(name="x", memory=Memory(form="none")), mem="64G")


def test_a_site_that_needs_a_gpu_type_names_its_types() -> None:
    with pytest.raises(RequestError, match="one of a100, h100"):
        plan_of(Site(name="x", gpu=Gpu(type_required=True, types={"a100": GpuType(), "h100": GpuType()})))


def test_a_partition_can_have_its_own_nodes() -> None:
    site = Site(
        name="x",
        node=Node(gpus=4),
        partitions={"big": Partition(node=Node(gpus=8)), "std": Partition(default=True)},
    )
    assert plan_of(site, gpus=8).nodes == 2
    assert plan_of(site, gpus=8, partition="big").nodes == 1


def test_the_precision_is_passed_to_accelerate() -> None:
    plan = plan_of("generic", framework="accelerate", gpus=2, mixed_precision="bf16")
    assert "--mixed_precision=bf16" in " ".join(as_dict(plan)["launch"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "key",
    (
        "site framework nodes gpus_per_node ntasks_per_node procs_per_task cpus_per_task world_size mem "
        "time directives env launch reasons"
    ).split(),
)
def test_the_plan_as_a_dict_has_the_documented_keys(key: str) -> None:
    assert key in as_dict(plan_of("generic"))


@pytest.mark.parametrize(
    "asked",
    [
        {"gpus": 99999999999},
        {"gpus": 99991},
        {"gpus": 99991, "nodes": 60000},
        {"nodes": 10**30},
        {"cpus_per_gpu": 10**30},
        {"mem": "9" * 100_000},
        {"time": "9" * 100_000},
        {"sbatch": {"array": "9" * 100_000}},
        {"sbatch": {"array": ",".join(["1"] * 50_000) + "x"}},
    ],
)
def test_an_absurd_number_is_rejected_at_once(asked: dict[str, object]) -> None:
    start = time.process_time()
    with pytest.raises(RequestError):
        plan_of("olivia", **asked)
    assert time.process_time() - start < 1  # a collection of garbage may take a part of it


@pytest.mark.parametrize("options", [{"gpu_type": "a"}, {"qos": "q"}])
def test_the_error_names_no_partition_that_refuses_the_job(options: dict[str, str]) -> None:
    parts = {
        "small": Partition(default=True, max_gpus=4),
        "other": Partition(gpu_type="b"),
        "open": Partition(gpu_type="a"),
    }
    types = {"a": GpuType(), "b": GpuType()}
    qos = {"q": Qos(partitions=("small", "open"))}
    site = Site(name="x", node=Node(gpus=4), partitions=parts, gpu=Gpu(types=types), qos=qos)
    with pytest.raises(RequestError, match=r"or use --partition open\.") as error:
        plan_of(site, gpus=8, partition="small", **options)
    assert "other" not in str(error.value)
    assert plan_of(site, gpus=8, partition="open", **options).world_size == 8


def test_the_error_names_partitions_with_a_higher_limit() -> None:
    parts = {
        "small": Partition(default=True, max_gpus=4),
        "large": Partition(max_gpus=32),
        "open": Partition(),
        "cpus": Partition(max_gpus=0),
    }
    site = Site(name="x", node=Node(gpus=4), partitions=parts)
    with pytest.raises(RequestError, match=r"at most --gpus 4, or use --partition large or open\."):
        plan_of(site, gpus=8)
    with pytest.raises(RequestError, match=r"at most --gpus 32, or use --partition open\."):
        plan_of(site, gpus=36, partition="large")


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONUNBUFFERED"])
def test_a_variable_that_the_script_does_not_set_is_used(name: str) -> None:
    assert plan_of("generic", framework="python", env={name: "7"}).env[name] == "7"


def test_the_error_file_is_next_to_the_log() -> None:
    plan = plan_of("generic", log_dir="logs", sbatch={"error": "logs/%x-%j.err"})
    assert ("error", "logs/%x-%j.err") in plan.directives
    assert ("output", "logs/%x-%j.out") in plan.directives


def test_a_site_image_that_begins_with_a_dash_is_rejected() -> None:
    site = structs.replace(load_site("generic"), container=Container(image="--help"))
    with pytest.raises(RequestError, match="'--help' begins with a dash"):
        resolve(Request(), site)
    assert resolve(Request(container="none"), site).setup.image == ""


@pytest.mark.parametrize("value", ["a\nb", "a\x1b[2J", "\0"])
def test_a_control_character_in_a_variable_is_rejected(value: str) -> None:
    with pytest.raises(RequestError, match="env has a control character"):
        resolve(Request(env={"A": value}), load_site("generic"))


def test_a_module_and_what_runs_around_it_have_values_and_reasons() -> None:
    plan = plan_of(
        "generic",
        module="pkg.train",
        before=("mkdir out",),
        then=(Then(module="pkg.test", framework="python"),),
        after=("rm -r out",),
        stage=("/data/a",),
        preflight=True,
        requeue=True,
    )
    values = as_dict(plan)
    assert (values["program"], values["script"]) == ("-m pkg.train", None)
    assert (values["before"], values["after"], values["stage"]) == (["mkdir out"], ["rm -r out"], ["/data/a"])
    assert (values["on_bad_node"], values["requeue_signal"]) == ("stop", "USR2@120")
    assert [text.endswith("python -m pkg.test") for text in values["then"]] == [True]  # type: ignore[attr-defined]
    asked = ["program", "before", "then", "after", "stage", "preflight", "requeue"]
    assert {explain(plan)[key].text for key in asked} == {"as requested"}
