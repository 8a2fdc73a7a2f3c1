"""What `sites discover` reads from the output of Slurm's commands.

The texts follow the manual pages of scontrol and sacctmgr and the output of 22.05 and 24.11; they are not
recorded from a cluster. tests/scenarios/test_discover.py asks a real Slurm.
"""

import time
import tomllib

import msgspec
import pytest

from slurmgen.sites.checks import faults
from slurmgen.sites.discover import answers, differences, discover, profile_text
from slurmgen.sites.discover.query import ASSOCIATIONS, CONFIG, LOGIN_NODE, NODES, PARTITIONS, QOS
from slurmgen.sites.model import Site

CONFIG_TEXT = """Configuration data as of 2026-11-21T22:27:09
ClusterName             = big
JobSubmitPlugins        = lua
SelectTypeParameters    = CR_CORE_MEMORY
SLURM_VERSION           = 24.11.5
"""
PARTITION = (
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES QoS=N/A DefaultTime=NONE "
    "Hidden=NO MaxNodes=16 MaxTime=2-00:00:00 MinNodes=0 OverSubscribe=NO State=UP JobDefaults={} "
    "TRESBillingWeights=CPU=1.0,GRES/gpu=16.0"
)
NODE = (
    "NodeName=n{} Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 {}CPUTot=128 CPULoad=0.01 AvailableFeatures=ib "
    "Gres={} NodeAddr=n{} OS=Linux 5.14.0 #1 SMP Tue Jan 1  RealMemory=515000 MemSpecLimit=3000 Sockets=2 "
    "State=MIXED+PLANNED ThreadsPerCore=2 Partitions={} Reason=two words [root@2026-01-01T00:00:00]"
)


def replied(**texts: str) -> bytes:
    """The output of the query with these texts; other commands fail."""
    commands = {
        "config": CONFIG,
        "partitions": PARTITIONS,
        "nodes": NODES,
        "associations": ASSOCIATIONS,
        "qos": QOS,
        "login": LOGIN_NODE,
    }
    shown = b"Welcome to the cluster\r\n"
    for key, command in commands.items():
        text, status = (texts[key], 0) if key in texts else ("command not found", 127)
        shown += f"\0{command}\0{text}\0{status}".encode()
    return shown


def profile(output: bytes) -> Site:
    """The profile that a discovery writes, read again."""
    text = profile_text(discover(answers(output)), "big", "2026-11-21")
    site = msgspec.convert(tomllib.loads(text), Site)
    assert list(faults(site, "big")) == []
    return site


def node(
    number: int = 1, gres: str = "gpu:h100:4(S:0-1)", partitions: str = "gpu", effective: str = ""
) -> str:
    return NODE.format(number, effective, gres, number, partitions)


def test_nodes_partitions_and_shares_are_found() -> None:
    defaults = "DefCpuPerGPU=16,DefMemPerGPU=120000"
    found = profile(
        replied(
            config=CONFIG_TEXT, partitions=PARTITION.format(defaults), nodes=node(effective="CPUEfctv=124 ")
        )
    )
    assert (found.node.gpus, found.node.cpus, found.node.memory) == (4, 124, "500G")
    gpu = found.partitions["gpu"]
    assert (gpu.default, gpu.max_time, gpu.max_nodes, gpu.gpu_type) == (True, "2-00:00:00", 16, "h100")
    assert (found.cpu.per_gpu, found.memory.per_gpu, found.cpu.multiple_of) == (16, "120000M", 2)
    assert found.architecture == "x86_64"


def test_slurm_before_22_05_has_no_effective_cpus() -> None:
    assert profile(replied(partitions=PARTITION.format("(null)"), nodes=node())).node.cpus == 128


@pytest.mark.parametrize(
    ("gres", "types", "gpus"),
    [
        ("gpu:4", set(), 4),
        ("gpu:h100:4(S:0-1)", {"h100"}, 4),
        ("gpu:a100:2,gpu:h100:2,nvme:1", {"a100", "h100"}, 2),
        ("gpu:a100_1g.5gb:14(S:0),gpu:a100:2(S:1)", {"a100", "a100_1g.5gb"}, 2),
        ("gpu:nvidia_h100_80gb_hbm3:8(S:0-1),shard:32", {"nvidia_h100_80gb_hbm3"}, 8),
        ("craynetwork:4,gpu:4", set(), 4),
    ],
)
def test_gpus_are_read_in_every_form(gres: str, types: set[str], gpus: int) -> None:
    found = profile(replied(partitions=PARTITION.format("(null)"), nodes=node(gres=gres)))
    assert (set(found.gpu.types), found.node.gpus) == (types, gpus)


def test_a_partition_without_gpus_says_so() -> None:
    cpu = PARTITION.format("(null)").replace("=gpu ", "=cpu ", 1).replace("Default=YES", "Default=NO")
    nodes = "\n".join([node(1), node(2, gres="(null)", partitions="cpu")])
    found = profile(replied(partitions=f"{PARTITION.format('(null)')}\n{cpu}", nodes=nodes))
    assert (found.partitions["cpu"].max_gpus, found.partitions["gpu"].max_gpus) == (0, None)


def test_whole_nodes_hidden_and_closed_partitions() -> None:
    base = PARTITION.format("(null)")
    whole = base.replace("OverSubscribe=NO", "OverSubscribe=EXCLUSIVE").replace(
        "MaxTime=2-00:00:00", "MaxTime=UNLIMITED"
    )
    hidden = base.replace("=gpu ", "=secret ", 1).replace("Hidden=NO", "Hidden=YES")
    down = base.replace("=gpu ", "=old ", 1).replace("State=UP", "State=DOWN")
    output = replied(partitions="\n".join([whole, hidden, down]), nodes=node())
    found = profile(output)
    assert set(found.partitions) == {"gpu"}
    assert (found.partitions["gpu"].whole_nodes, found.partitions["gpu"].max_time) == (True, None)
    assert any("hidden partitions: secret" in text for text in discover(answers(output)).unknown)


def test_qos_of_the_user_are_found_with_their_limits() -> None:
    qos = (
        "normal|1-00:00:00|||DenyOnLimit|||\nlong|4-00:00:00|gres/gpu=32,node=8||OverPartQOS,DenyOnLimit|2|10|\n"
        "other|01:00:00||||||\nfree|||gres/gpu=1||||"
    )
    found = profile(replied(nodes=node(), associations="abc|normal,long,free|normal\n", qos=qos)).qos
    assert set(found) == {"normal", "long", "free"}
    assert (found["normal"].default, found["normal"].max_time) == (True, "1-00:00:00")
    long = found["long"]
    assert (long.max_gpus, long.max_nodes, long.replaces_partition_limits) == (32, 8, True)
    assert found["free"].min_gpus == 1


def test_what_is_not_known_is_listed() -> None:
    unknown = discover(
        answers(replied(config=CONFIG_TEXT, partitions=PARTITION.format(""), nodes=node()))
    ).unknown
    assert "QoS and their limits (`sacctmgr`: command not found)" in unknown
    assert any("job_submit plugin (lua)" in text for text in unknown)


@pytest.mark.parametrize(
    ("programs", "engine"),
    [("engine apptainer\nengine pyxis\n", "pyxis"), ("engine ch-run\n", "charliecloud"), ("", None)],
)
def test_the_container_engine_is_found(programs: str, engine: str | None) -> None:
    found = profile(replied(nodes=node(), login=programs)).container
    assert (found.engine if found else None) == engine


def test_each_fact_names_its_command_and_date() -> None:
    text = profile_text(discover(answers(replied(nodes=node()))), "big", "2026-11-21")
    assert "gpus = 4  # seen 2026-11-21 by scontrol show node" in text
    assert "[sources.discover]" in text


def test_the_reply_of_a_hostile_login_node_stays_text() -> None:
    hostile = PARTITION.format("(null)").replace(
        "MaxTime=2-00:00:00", 'MaxTime=1"\x1b[2J\n[sbatch]\nwrap="x"'
    )
    text = profile_text(
        discover(answers(replied(partitions=hostile, nodes=node(gres="gpu:$(x):2")))), "b", "d"
    )
    assert "\x1b" not in text
    assert "sbatch" not in tomllib.loads(text)
    assert tomllib.loads(text).get("gpu", {}).get("types", {}) == {}


def test_ten_thousand_nodes_are_read_within_two_seconds() -> None:
    nodes = "\n".join(node(number, partitions="gpu,long,all") for number in range(10_000))
    output = replied(config=CONFIG_TEXT, partitions=PARTITION.format("(null)"), nodes=nodes)
    start = time.process_time()
    assert profile(output).node.gpus == 4
    assert time.process_time() - start < 2


def test_differences_name_profile_and_cluster() -> None:
    found = discover(answers(replied(partitions=PARTITION.format("(null)"), nodes=node())))
    site = msgspec.convert(
        {
            "name": "big",
            "node": {"gpus": 8, "cpus": 128, "memory": "512000M"},
            "partitions": {"gpu": {"max_time": "48:00:00"}, "gone": {}},
        },
        Site,
    )
    assert [(one.key, one.profile, one.cluster) for one in differences(site, found)] == [
        ("partitions.gone", "stated", "no such partition"),
        ("node.gpus", "8", "4"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "NodeName=a CPUTot=x RealMemory=N/A ThreadsPerCore=two Gres=gpu:\u00b2 Partitions=gpu",
        "NodeName=a CPUTot=" + "9" * 5000 + " RealMemory=1 Gres=gpu:4 Partitions=gpu",
        "NodeName=a CPUTot=8 RealMemory=500000 Gres=gpu:4 Partitions=gpu Reason=raise RealMemory=x soon",
        "NodeName=a RealMemory=10 MemSpecLimit=90000 CPUTot=0 Gres=gpu:4 Partitions=gpu",
    ],
)
def test_odd_numbers_are_left_out(line: str) -> None:
    assert profile(replied(partitions=PARTITION.format("DefCpuPerGPU=many"), nodes=line)).cpu.per_gpu is None


def test_a_reason_that_looks_like_a_key_is_ignored() -> None:
    line = "NodeName=a CPUTot=8 RealMemory=512000 Gres=gpu:4 Partitions=gpu Reason=raise RealMemory=1 soon"
    assert profile(replied(partitions=PARTITION.format(""), nodes=line)).node.memory == "500G"


def test_a_partition_that_is_listed_twice_is_written_once() -> None:
    base = PARTITION.format("(null)")
    found = profile(
        replied(partitions=f"{base}\n{base.replace('MaxTime=2-00:00:00', 'MaxTime=junk')}", nodes=node())
    )
    assert (set(found.partitions), found.partitions["gpu"].max_time) == ({"gpu"}, None)


def test_a_type_on_nodes_of_several_shapes_has_no_shape_of_its_own() -> None:
    small = PARTITION.format("").replace("=gpu ", "=small ", 1).replace("Default=YES", "Default=NO")
    nodes = "\n".join([node(1, "gpu:h100:8"), node(2, "gpu:h100:8"), node(3, "gpu:h100:4", "small")])
    found = profile(replied(partitions=f"{PARTITION.format('')}\n{small}", nodes=nodes))
    assert found.gpu.types["h100"].gpus is None
    part = found.partitions["small"].node
    assert part
    assert (found.node.gpus, part.gpus) == (8, 4)


def test_hidden_and_closed_partitions_are_no_difference() -> None:
    hidden = PARTITION.format("").replace("Hidden=NO", "Hidden=YES")
    found = discover(answers(replied(partitions=hidden, nodes=node())), "me@login")
    site = msgspec.convert({"name": "big", "partitions": {"gpu": {}}, "login": {"host": "other"}}, Site)
    assert list(differences(site, found)) == []


def test_many_partitions_are_read_in_time() -> None:
    parts = "\n".join(PARTITION.format("").replace("=gpu ", f"=p{n} ", 1) for n in range(4000))
    nodes = "\n".join(
        node(n, f"gpu:{n % 7 + 1}", f"p{n}").replace("RealMemory=515000", f"RealMemory={515000 + n}")
        for n in range(4000)
    )
    start = time.process_time()
    discover(answers(replied(partitions=parts, nodes=nodes)))
    assert time.process_time() - start < 3
