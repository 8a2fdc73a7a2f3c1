"""What a profile says against a job, and about it: refused options and combinations, notes, preemption."""

import pytest

from slurmgen import load_site
from slurmgen.errors import RequestError
from slurmgen.plan import as_dict
from slurmgen.plan.explain import explain
from slurmgen.plan.placement import notes
from slurmgen.plan.resources import charge as charge_of
from slurmgen.sites.model import Charge, Container, Gpu, GpuType, Memory, Node, Partition, Qos, When
from tests.conftest import Run
from tests.support.plans import plan_of, site_with

PART = When(
    nodes="several", whole_nodes=False, refuse="a job must fill its nodes", note="Ask for 4 GPUs a node."
)
FILLED = site_with(node=Node(gpus=4), when={"part": PART})


def test_a_combination_that_the_site_refuses_is_refused_with_its_advice() -> None:
    with pytest.raises(RequestError, match="a job must fill its nodes") as error:
        plan_of(FILLED, gpus=4, nodes=2)
    assert error.value.hint == "Ask for 4 GPUs a node."


@pytest.mark.parametrize(("gpus", "nodes"), [(8, 2), (2, 1)])
def test_other_jobs_are_not_refused(gpus: int, nodes: int) -> None:
    assert notes(plan_of(FILLED, gpus=gpus, nodes=nodes)) == {}


@pytest.mark.parametrize("whole", [True, False])
def test_a_condition_on_an_unknown_number_of_gpus_is_not_met(whole: bool) -> None:
    site = site_with(node=Node(), when={"t": When(whole_nodes=whole, note="Fill the nodes.")})
    assert notes(plan_of(site, gpus=2, nodes=1)) == {}


@pytest.mark.parametrize(("several", "gpus"), [(True, [2, 8]), (False, [1])])
def test_a_condition_may_be_several_gpus(several: bool, gpus: list[int]) -> None:
    site = site_with(node=Node(gpus=4), when={"t": When(several_gpus=several, note="Mind.")})
    assert [count for count in (1, 2, 8) if notes(plan_of(site, gpus=count))] == gpus


@pytest.mark.parametrize("site", ["narval", "mahti"])
def test_no_job_uses_several_parts_of_a_gpu(site: str) -> None:
    profile = load_site(site)
    for kind in filter(lambda name: "g." in name, profile.gpu.types):
        assert plan_of(profile, gpu_type=kind, account="a").world_size == 1
        with pytest.raises(RequestError, match="NCCL cannot use several parts of a GPU") as error:
            plan_of(profile, gpu_type=kind, account="a", gpus=2)
        assert "--gpu-type a100" in (error.value.hint or "")


def test_an_option_that_the_site_refuses_is_refused_with_the_reason() -> None:
    site = site_with(refused_options={"export": "it hides the modules"})
    with pytest.raises(RequestError, match="--export is refused by generic: it hides the modules") as error:
        plan_of(site, sbatch={"export": "NONE"})
    assert error.value.hint == "Leave --sbatch export out."
    assert "export" not in dict(plan_of(site, sbatch={"export": False}).directives)


@pytest.mark.parametrize(
    ("option", "form", "options", "hint"),
    [
        ("mem", "mem", {"mem": "4G"}, "Leave --mem out."),
        ("mem-per-gpu", "mem-per-gpu", {"mem": "4G"}, "Leave --mem out."),
        ("requeue", "mem", {"requeue": True}, "Leave --requeue out."),
        ("signal", "mem", {"requeue": True}, "Leave --requeue out."),
        ("gres", "mem", {}, "correct refused_options in the profile"),
    ],
)
def test_no_script_has_an_option_that_the_site_refuses(
    option: str, form: str, options: dict[str, object], hint: str
) -> None:
    site = site_with(refused_options={option: "not here"}, memory=Memory(form=form))
    with pytest.raises(RequestError, match=f"--{option} is refused by generic: not here") as error:
        plan_of(site, **options)
    assert hint in (error.value.hint or "")


def test_a_note_applies_to_the_jobs_that_meet_its_conditions() -> None:
    site = site_with(when={"image": When(container=True, note="Bind /data.")}, container=Container())
    assert notes(plan_of(site)) == {}
    plan = plan_of(site, container="a.sif")
    assert (as_dict(plan)["notes"], explain(plan)["notes.image"].source) == (
        {"image": "Bind /data."},
        "profile",
    )


def test_settings_may_depend_on_the_qos() -> None:
    site = site_with(qos={"a": Qos(), "b": Qos()}, when={"of_b": When(qos="b", env={"X": "1"})})
    assert "X" in plan_of(site, qos="b").env
    assert "X" not in plan_of(site, qos="a").env


@pytest.mark.parametrize("facts", [{"partition": "p"}, {"qos": "q"}])
def test_a_preemptible_job_without_requeue_has_a_note(facts: dict[str, str]) -> None:
    partitions = {"p": Partition(preemptible="partition" in facts)}
    site = site_with(partitions=partitions, qos={"q": Qos(preemptible="qos" in facts)})
    assert "--requeue" in notes(plan_of(site, **facts))["preemption"]
    assert notes(plan_of(site, **facts, requeue=True)) == {}


def test_explain_prints_the_notes(slurmgen: Run) -> None:
    options = ["--site", "frontier", "--account", "a", "--gpus", "16"]
    note, _, _ = slurmgen("explain", *options).stdout.split("notes.several_nodes")[1].partition("from the")
    assert "hsn0" in note


def test_the_vendor_may_differ_between_gpu_types() -> None:
    site = site_with(
        gpu=Gpu(types={"mi100": GpuType(vendor="amd"), "a100": GpuType()}), container=Container()
    )
    for kind, flag in {"mi100": "--rocm", "a100": "--nv"}.items():
        words = [word for line in plan_of(site, gpu_type=kind, container="x.sif").step.lines for word in line]
        assert flag in words


def test_directives_select_a_gpu_type_instead_of_its_name() -> None:
    site = site_with(gpu=Gpu(types={"slice": GpuType(sbatch={"reservation": "1g.10gb"})}))
    directives = dict(plan_of(site, gpu_type="slice").directives)
    assert (directives["reservation"], directives["gres"]) == ("1g.10gb", "gpu:1")
    assert "reservation" not in dict(plan_of(site).directives)


def test_a_partition_of_one_type_selects_it() -> None:
    site = site_with(
        partitions={"a": Partition(gpu_type="a100", default=True), "b": Partition(gpu_type="h100")},
        gpu=Gpu(types={"a100": GpuType(), "h100": GpuType()}),
    )
    directives = dict(plan_of(site, gpu_type="h100").directives)
    assert (directives["partition"], directives["gres"]) == ("b", "gpu:1")


def test_the_charge_may_depend_on_the_gpu_type() -> None:
    site = site_with(charge=Charge(rates={"fat": 2.0}), gpu=Gpu(types={"fat": GpuType(), "thin": GpuType()}))
    assert charge_of(plan_of(site, gpu_type="fat", time="01:00:00")) == "2 GPU hours"
    assert charge_of(plan_of(site, gpu_type="thin", time="01:00:00")) == "1 GPU hours"


QUALITIES = site_with(
    partitions={"a": Partition(default=True), "b": Partition()},
    qos={"of_a": Qos(default=True, partitions=("a",)), "of_b": Qos(partitions=("b",))},
)


def test_a_qos_selects_a_partition_that_accepts_it() -> None:
    place = plan_of(QUALITIES, qos="of_b").place
    assert (place.partitions, place.qos) == (("b",), "of_b")


def test_a_default_qos_is_not_used_in_a_partition_that_does_not_accept_it() -> None:
    assert plan_of(QUALITIES, partition="b").place.qos is None
    assert plan_of(QUALITIES).place.qos == "of_a"


def test_a_qos_that_the_partition_does_not_accept_is_refused() -> None:
    with pytest.raises(RequestError, match="partition a does not accept QoS of_b") as error:
        plan_of(QUALITIES, partition="a", qos="of_b")
    assert "--partition b" in (error.value.hint or "")


@pytest.mark.parametrize("options", [{}, {"gpu_type": "h100"}])
def test_a_qos_of_other_partitions_than_the_profile_has_is_refused(options: dict[str, str]) -> None:
    site = site_with(
        gpu=Gpu(types={"h100": GpuType(), "a100": GpuType()}),
        partitions={
            "a": Partition(default=True, gpu_type="h100"),
            "b": Partition(gpu_type="a100"),
            "cpu": Partition(max_gpus=0),
        },
        qos={
            "unlisted": Qos(partitions=("gone",)),
            "cpu": Qos(partitions=("cpu",)),
            "b": Qos(partitions=("b",)),
        },
    )
    for qos in ("unlisted", "cpu", *(["b"] if options else [])):
        with pytest.raises(RequestError, match=f"QoS {qos} is accepted by .* only"):
            plan_of(site, qos=qos, **options)


def test_a_qos_of_some_partitions_needs_a_partition_where_none_are_listed() -> None:
    site = site_with(qos={"q": Qos(partitions=("p",))})
    with pytest.raises(RequestError, match="QoS q is accepted by p only") as error:
        plan_of(site, qos="q")
    assert "--partition p" in (error.value.hint or "")
    assert plan_of(site, partition="p", qos="q").place.partitions == ("p",)


def test_a_remote_folder_that_compute_nodes_do_not_reach_is_refused(slurmgen: Run) -> None:
    options = ["--site", "jupiter", "--account", "a", "--host", "127.0.0.1"]
    reply = slurmgen("submit", "--script", "training/train_ddp.py", *options, "--remote-dir", "/p/scratch/me")
    assert reply.returncode == 2
    assert "do not reach /p/scratch/me" in reply.stderr
    assert "--remote-dir" in reply.stderr


def test_the_charge_in_one_of_several_partitions_is_the_highest() -> None:
    rates = Charge(rates={"a": 2.0, "b": 0.5})
    site = site_with(charge=rates, partitions={"a": Partition(), "b": Partition(), "c": Partition()})
    for partition, charge in {"a": "2", "b": "0.5", "b,a": "2", "b,c": "1"}.items():
        assert charge_of(plan_of(site, partition=partition, time="01:00:00")) == f"{charge} GPU hours"
