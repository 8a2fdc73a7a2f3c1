"""The configuration files of a twin."""

from pathlib import Path

import pytest

from slurmgen.errors import TwinError
from slurmgen.sites.model import Gpu, GpuType, Node, Partition, Rendezvous, Site
from slurmgen.sites.profiles import load_site
from slurmgen.twin.configuration import SLURM_FILES, cgroup_conf, known_hosts, ssh_config, sshd_config
from slurmgen.twin.installation import Installation
from slurmgen.twin.layout import Layout, Shape, assumptions, features, groups

GOLDEN = Path(__file__).parent / "golden"


def layout(site: Site, nodes: int = 2, **changes: object) -> Layout:
    facts: dict[str, object] = {
        "site": site,
        "groups": groups(site, nodes),
        "folder": Path("/home/ada/.local/state/slurmgen/twin") / site.name,
        "run": Path("/tmp/slurmgen-abc"),
        "user": "ada",
        "hostname": "laptop",
        "loopback": "127.0.0.1",
        "slurm": Installation((22, 5)),
        "port": 10000,
    }
    return Layout(**(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["daic", "generic", "olivia"])
def test_the_configuration_equals_the_golden_file(name: str, request: pytest.FixtureRequest) -> None:
    files = {**SLURM_FILES, "sshd_config": sshd_config, "ssh_config": ssh_config}
    here = layout(load_site(name))
    text = "".join(f"==> {file} <==\n{write(here)}\n" for file, write in files.items())
    golden = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ((22, 5), "CgroupAutomount=no\n"),
        ((23, 2), "CgroupAutomount=no\n"),
        ((23, 11), "CgroupPlugin=disabled\n"),
        ((24, 11), "CgroupPlugin=disabled\n"),
    ],
)
def test_cgroup_conf_suits_the_release_of_slurm(version: tuple[int, int], text: str) -> None:
    assert cgroup_conf(layout(Site(name="x"), slurm=Installation(version))) == text


def test_paths_with_spaces_are_quoted() -> None:
    text = ssh_config(layout(Site(name="x"), folder=Path("/home/ada l/x")))
    assert '  IdentityFile "/home/ada l/x/id"\n' in text


def test_known_hosts_has_the_address_as_ssh_looks_it_up() -> None:
    here = layout(Site(name="x"))
    assert known_hosts(here, "ssh-ed25519 AAAA someone\n") == "[127.0.0.1]:10003 ssh-ed25519 AAAA\n"


def test_a_site_without_facts_gets_the_stated_defaults() -> None:
    site = Site(name="x")
    (group,) = groups(site, 1)
    assert (group.partitions, group.shape) == (("main",), Shape(gpus=8, cpus=64, memory=512 * 1024))
    assert list(assumptions(site)) == [
        "no partition is known; it has one, main",
        "GPUs per node unknown in partition main; took 8",
        "CPUs per node unknown in partition main; took 64",
        "memory per node unknown in partition main; took 512G",
    ]


def test_a_partition_without_gpus_lacks_no_fact_about_them() -> None:
    site = Site(name="x", partitions={"cpu": Partition(max_gpus=0)}, cpu_node=Node(cpus=8, memory="16G"))
    (group,) = groups(site, 1)
    assert (group.shape, list(assumptions(site))) == (Shape(gpus=0, cpus=8, memory=16 * 1024), [])


def test_limits_that_need_accounting_are_reported() -> None:
    assert list(assumptions(load_site("olivia"))) == [
        "limits on a job's GPUs are not enforced: Slurm needs accounting for that",
        "any --qos is accepted, devel or not: Slurm needs accounting to know them",
    ]


@pytest.mark.parametrize(
    ("directives", "names"),
    [
        ({"constraint": "gpu"}, ("gpu",)),
        ({"constraint": "a100&nvlink|v100-32"}, ("a100", "nvlink", "v100-32")),
        ({"constraint": "[rack1|rack2]"}, ("rack1", "rack2")),
        ({"constraint": "[(knl&snc4)*2&gpu*40]"}, ("knl", "snc4", "gpu")),
        ({"constraint": "a,b", "prefer": "b|c"}, ("a", "b", "c")),
        ({"mail-type": "END"}, ()),
    ],
)
def test_nodes_have_the_features_that_the_site_requests(
    directives: dict[str, str], names: tuple[str, ...]
) -> None:
    site = Site(name="x", sbatch=directives)
    assert features(site) == names
    assert (f" Feature={','.join(names)} " in SLURM_FILES["slurm.conf"](layout(site))) == bool(names)


def test_a_directive_that_names_what_only_the_site_has_is_reported() -> None:
    directives = {"reservation": "class", "exclude": "n[1-3]", "licenses": "scratch", "mail-type": "END"}
    site = Site(name="x", node=Node(gpus=4, cpus=8, memory="1G"), sbatch=directives)
    refused = [text for text in assumptions(site) if "refused" in text]
    assert [text.split()[4] for text in refused] == ["--reservation", "--exclude"]


def test_an_unresolvable_rendezvous_suffix_is_reported() -> None:
    site = Site(name="x", node=Node(gpus=4, cpus=8, memory="1G"), rendezvous=Rendezvous(suffix="i"))
    assert "node names with the suffix 'i' do not resolve here" in list(assumptions(site))


def test_the_usual_gpu_type_is_the_one_with_the_usual_number() -> None:
    kinds = {"big": GpuType(gpus=8), "small": GpuType(gpus=2, cpus=16)}
    site = Site(name="x", node=Node(gpus=2, cpus=32, memory="64G"), gpu=Gpu(types=kinds))
    assert groups(site, 1)[0].shape == Shape(gpus=2, cpus=32, memory=64 * 1024, gpu_type="small")


def test_a_gpu_type_has_its_own_facts() -> None:
    shape = groups(load_site("daic"), 2, "l40")[0].shape
    assert shape == Shape(gpus=3, cpus=64, memory=755 * 1024, gpu_type="l40")


def test_an_unknown_gpu_type_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(TwinError, match=r"daic has no GPU type 'a400'\. Did you mean a40\?"):
        groups(load_site("daic"), 2, "a400")


def test_partitions_with_other_nodes_get_separate_nodes() -> None:
    usual, other, none = Partition(), Partition(node=Node(gpus=8)), Partition(max_gpus=0)
    parts = {"a": usual, "b": other, "c": none, "d": usual}
    found = groups(Site(name="x", node=Node(gpus=4), partitions=parts), 3)
    assert [(g.hostlist, g.shape.gpus, g.partitions) for g in found] == [
        ("127.0.0.[1-3]", 4, ("a", "d")),
        ("127.0.0.[4-6]", 8, ("b",)),
        ("127.0.0.[7-9]", 0, ("c",)),
    ]


@pytest.mark.parametrize("nodes", [-1, 0, 255])
def test_an_impossible_number_of_nodes_is_rejected(nodes: int) -> None:
    with pytest.raises(TwinError, match=f"a twin cannot have {nodes} nodes. Give it 1 to 254"):
        groups(Site(name="x"), nodes)
