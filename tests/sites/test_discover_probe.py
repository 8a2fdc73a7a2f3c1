"""What `sites discover --probe` reads from the log of its job."""

import tomllib

import msgspec
import pytest

from slurmgen.errors import RequestError
from slurmgen.sites.checks import faults
from slurmgen.sites.discover.probe import is_complete, report, with_probe
from slurmgen.sites.discover.profile import Discovery
from slurmgen.sites.model import Site
from slurmgen.submit.probe import batch_script, probe_plan
from tests.sites import test_discover
from tests.sites.test_discover import differing, discovered, node, partition

LOG = """Loading modules
probe: architecture: aarch64
probe: interface: hsn0: up, 200000 Mb/s
probe: infiniband: mlx5_0: InfiniBand, 400 Gb/sec (4X NDR), 4: ACTIVE
probe: vendor: amd
probe: gpu: AMD Instinct MI250X
probe: link: GPU0\t X \tXGMI
probe: shm: 1048576
probe: ports: 32768\t60999
probe: internet: proxy
probe: node: done
probe: task: 1: visible GPUs 0; GPU devices 1; CPUs 8-15
probe: task: 0: visible GPUs 0; GPU devices 1; CPUs 0-7
"""


def probed(log: str | bytes) -> Discovery:
    """A discovery with the report in a log."""
    text = log.encode() if isinstance(log, str) else log
    return with_probe(discovered(partitions=partition("gpu"), nodes=node()), report(text))


def written(log: str | bytes) -> str:
    return test_discover.written(probed(log))


def test_the_facts_of_a_probe_have_a_source_of_their_own() -> None:
    text = written(LOG)
    found = tomllib.loads(text)
    assert (found["internet"], found["architecture"], found["gpu"]["vendor"]) == ("proxy", "aarch64", "amd")
    assert 'internet = "proxy"  # seen 2026-11-21 by the probe job' in text
    assert set(found["sources"]["probe"]["facts"]) == {"internet", "architecture", "gpu.vendor"}
    assert list(faults(msgspec.convert(found, Site), "big")) == []


def test_what_has_no_key_becomes_a_comment() -> None:
    text = written(LOG)
    for comment in (
        "network interface: hsn0: up, 200000 Mb/s  # seen 2026-11-21 by the probe job",
        "InfiniBand: mlx5_0: InfiniBand, 400 Gb/sec (4X NDR), 4: ACTIVE",
        "link: GPU0     X      XGMI",
        "shared memory: 1024G",
        "GPU: AMD Instinct MI250X",
    ):
        assert comment in text
    assert text.index("task: 0:") < text.index("task: 1:")


def test_what_the_probe_found_leaves_the_list_of_unknowns() -> None:
    unknown = "whether compute nodes reach the internet"
    assert unknown not in written(LOG)
    assert unknown in written(LOG.replace("internet: proxy", "internet: perhaps"))


def test_ports_that_may_collide_with_the_rendezvous_are_a_warning() -> None:
    warning = "ephemeral ports begin below 32768"
    assert warning in written(LOG.replace("32768", "1024"))
    assert warning not in written(LOG)


@pytest.mark.parametrize("missing", ["probe: node: done\n", "probe: task"])
def test_a_report_without_its_end_is_not_complete(missing: str) -> None:
    assert is_complete(report(LOG.encode()))
    assert not is_complete(report(LOG.replace(missing, "").encode()))


@pytest.mark.parametrize(
    "log",
    [
        b"\xff\xfe" * 1000,
        b'probe: internet: yes"\nprobe: internet: [sbatch]\n',
        b"probe: link: \x1b[2J\xe2\x80\xae]]\nprobe: link: #\rname = 1\nprobe: link: " + b"x" * 5_000_000,
        b"probe: link: a\n" * 200_000,
        b"probe: ports: \nprobe: shm: many\nprobe: vendor: \nprobe: gpu:\n",
        b"",
    ],
)
def test_a_hostile_log_stays_in_short_comments(log: bytes) -> None:
    text = written(log)
    assert tomllib.loads(text) == tomllib.loads(written(""))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert len(text) < 120_000


def test_a_probe_is_compared_with_a_profile() -> None:
    assert differing(probed(LOG), internet="yes", gpu={"vendor": "amd"}) == ["internet"]


def cluster(**values: object) -> Site:
    given = {"name": "big", "node": {"gpus": 4, "cpus": 64, "memory": "256G"}}
    return msgspec.convert(given | values, Site)


def test_the_probe_requests_two_gpus_for_a_minute() -> None:
    text = batch_script(probe_plan(cluster(gpu={"request": "gpus-per-node"}), account="abc"))
    for line in ("--account=abc", "--time=00:01:00", "--gpus-per-node=2", "--ntasks-per-node=2", "--nodes=1"):
        assert f"#SBATCH {line}\n" in text
    assert "\nsh probe.sh node\nsrun " in text


@pytest.mark.parametrize(
    ("partitions", "name", "gpus"),
    [
        ({"cpu": {"default": True, "max_gpus": 0}, "gpu": {}}, "gpu", 2),
        ({"cpu": {"max_gpus": 0}, "gpu": {"default": True, "whole_nodes": True}}, "gpu", 4),
        ({"gpu": {"node": {"gpus": 1}}}, "gpu", 1),
    ],
)
def test_the_probe_takes_a_partition_with_gpus(partitions: dict[str, object], name: str, gpus: int) -> None:
    plan = probe_plan(cluster(partitions=partitions))
    assert (plan.place.partitions, plan.world_size) == ((name,), gpus)


def test_the_probe_takes_no_less_than_the_shortest_time_of_the_site() -> None:
    plan = probe_plan(cluster(limits={"min_time": "01:00:00"}))
    assert plan.time == "01:00:00"


def test_the_probe_takes_the_requested_gpu_type_and_qos() -> None:
    types = {"type_required": True, "types": {"h100": {}, "a100": {}}}
    plan = probe_plan(cluster(gpu=types, qos={"q": {}}), qos="q", gpu_type="h100")
    assert (plan.place.gpu_type, plan.place.qos) == ("h100", "q")


def test_a_cluster_without_gpus_cannot_be_probed() -> None:
    with pytest.raises(RequestError, match="no node with GPUs is known on big"):
        probe_plan(cluster(node={}))
