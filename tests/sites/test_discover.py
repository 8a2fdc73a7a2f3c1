"""What `sites discover` reads from the output of Slurm's commands.

The texts follow the manual pages of scontrol and sacctmgr and the output of 22.05 and 24.11; slurm_output/
has whole outputs. tests/scenarios/test_discover.py queries a running Slurm.
"""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from slurmgen.sites.checks import faults
from slurmgen.sites.discover.compare import corrected, differences, profile_text
from slurmgen.sites.discover.profile import Discovery, cluster_name, discover
from slurmgen.sites.discover.query import ASSOCIATIONS, CONFIG, LOGIN_NODE, NODES, PARTITIONS, QOS, answers
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


def discovered(**texts: str) -> Discovery:
    return discover(answers(replied(**texts)))


def written(found: Discovery) -> str:
    return profile_text(found, "big", "2026-11-21")


def profile(**texts: str) -> Site:
    """The profile that a discovery writes, read again."""
    return read_again(discovered(**texts))


def read_again(found: Discovery) -> Site:
    site = msgspec.convert(tomllib.loads(written(found)), Site)
    assert list(faults(site, "big")) == []
    return site


def differing(found: Discovery, **stated: object) -> list[str]:
    """The keys that such a profile states otherwise than the cluster."""
    site = msgspec.convert({"name": "big", **stated}, Site)
    return [one.key for one in differences(site, found, all_types="gpu" in stated)]


def node(
    number: int = 1, gres: str = "gpu:h100:4(S:0-1)", partitions: str = "gpu", effective: str = ""
) -> str:
    return NODE.format(number, effective, gres, number, partitions)


def test_nodes_partitions_and_shares_are_found() -> None:
    defaults = "DefCpuPerGPU=16,DefMemPerGPU=120000"
    found = profile(
        config=CONFIG_TEXT, partitions=PARTITION.format(defaults), nodes=node(effective="CPUEfctv=124 ")
    )
    assert (found.node.gpus, found.node.cpus, found.node.memory) == (4, 124, "500G")
    gpu = found.partitions["gpu"]
    assert (gpu.default, gpu.max_time, gpu.max_nodes, gpu.gpu_type) == (True, "2-00:00:00", 16, "h100")
    assert (found.cpu.per_gpu, found.memory.per_gpu, found.cpu.multiple_of) == (16, "120000M", 2)
    assert found.architecture == "x86_64"


def test_slurm_before_22_05_has_no_effective_cpus() -> None:
    assert profile(partitions=PARTITION.format("(null)"), nodes=node()).node.cpus == 128


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
    found = profile(partitions=PARTITION.format("(null)"), nodes=node(gres=gres))
    assert (set(found.gpu.types), found.node.gpus) == (types, gpus)


def test_a_partition_without_gpus_says_so() -> None:
    cpu = PARTITION.format("(null)").replace("=gpu ", "=cpu ", 1).replace("Default=YES", "Default=NO")
    nodes = "\n".join([node(1), node(2, gres="(null)", partitions="cpu")])
    found = profile(partitions=f"{PARTITION.format('(null)')}\n{cpu}", nodes=nodes)
    assert (found.partitions["cpu"].max_gpus, found.partitions["gpu"].max_gpus) == (0, None)


def test_whole_nodes_hidden_and_closed_partitions() -> None:
    base = PARTITION.format("(null)")
    whole = base.replace("OverSubscribe=NO", "OverSubscribe=EXCLUSIVE").replace(
        "MaxTime=2-00:00:00", "MaxTime=UNLIMITED"
    )
    hidden = base.replace("=gpu ", "=secret ", 1).replace("Hidden=NO", "Hidden=YES")
    down = base.replace("=gpu ", "=old ", 1).replace("State=UP", "State=DOWN")
    output = discovered(partitions="\n".join([whole, hidden, down]), nodes=node())
    found = read_again(output)
    assert set(found.partitions) == {"gpu"}
    assert (found.partitions["gpu"].whole_nodes, found.partitions["gpu"].max_time) == (True, "UNLIMITED")
    assert any("hidden partitions: secret" in text for text in output.unknown)


def test_qos_of_the_user_are_found_with_their_limits() -> None:
    qos = (
        "normal|1-00:00:00|||DenyOnLimit|||\nlong|4-00:00:00|gres/gpu=32,node=8||OverPartQOS,DenyOnLimit|2|10|\n"
        "other|01:00:00||||||\nfree|||gres/gpu=1||||"
    )
    found = profile(nodes=node(), associations="abc|normal,long,free|normal\n", qos=qos).qos
    assert set(found) == {"normal", "long", "free"}
    assert (found["normal"].default, found["normal"].max_time) == (True, "1-00:00:00")
    long = found["long"]
    assert (long.max_gpus, long.max_nodes, long.replaces_partition_limits) == (32, 8, True)
    assert found["free"].min_gpus == 1


def test_what_is_not_known_is_listed() -> None:
    unknown = discovered(config=CONFIG_TEXT, partitions=PARTITION.format(""), nodes=node()).unknown
    assert "QoS and their limits (`sacctmgr`: command not found)" in unknown
    assert any("job_submit plugin (lua)" in text for text in unknown)


@pytest.mark.parametrize(
    ("programs", "engine"),
    [("engine apptainer\nengine pyxis\n", "pyxis"), ("engine ch-run\n", "charliecloud"), ("", None)],
)
def test_the_container_engine_is_found(programs: str, engine: str | None) -> None:
    found = profile(nodes=node(), login=programs).container
    assert (found.engine if found else None) == engine


def test_the_login_node_is_described_in_comments() -> None:
    login = "architecture x86_64\nengine apptainer\nengine pyxis\nmodule cuda/12.4\n"
    text = written(discovered(nodes=node(), login=login))
    assert "architecture of the login node: x86_64  # seen 2026-11-21 by login node" in text
    assert "container engines: apptainer, pyxis" in text
    assert "modules: cuda/12.4" in text


def test_each_fact_names_its_command_and_date() -> None:
    text = written(discovered(nodes=node()))
    assert "gpus = 4  # seen 2026-11-21 by scontrol show node" in text
    assert "[sources.discover]" in text


def test_the_reply_of_a_hostile_login_node_stays_text() -> None:
    hostile = PARTITION.format("(null)").replace(
        "MaxTime=2-00:00:00", 'MaxTime=1"\x1b[2J\n[sbatch]\nwrap="x"'
    )
    text = profile_text(discovered(partitions=hostile, nodes=node(gres="gpu:$(x):2")), "b", "d")
    assert "\x1b" not in text
    assert "sbatch" not in tomllib.loads(text)
    assert tomllib.loads(text).get("gpu", {}).get("types", {}) == {}


def test_differences_name_profile_and_cluster() -> None:
    found = discovered(partitions=PARTITION.format("(null)"), nodes=node())
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
    assert profile(partitions=PARTITION.format("DefCpuPerGPU=many"), nodes=line).cpu.per_gpu is None


def test_a_reason_that_looks_like_a_key_is_ignored() -> None:
    reason = "Reason=MemSpecLimit=9 MemSpecLimit=9000"
    line = f"NodeName=a CPUTot=8 RealMemory=512000 Gres=gpu:4 Partitions=gpu {reason}"
    assert profile(partitions=PARTITION.format(""), nodes=line).node.memory == "500G"


def test_a_partition_that_is_listed_twice_is_written_once() -> None:
    base = PARTITION.format("(null)")
    found = profile(partitions=f"{base}\n{base.replace('MaxTime=2-00:00:00', 'MaxTime=junk')}", nodes=node())
    assert (set(found.partitions), found.partitions["gpu"].max_time) == ({"gpu"}, None)


def test_a_type_on_nodes_of_several_shapes_has_no_shape_of_its_own() -> None:
    small = PARTITION.format("").replace("=gpu ", "=small ", 1).replace("Default=YES", "Default=NO")
    nodes = "\n".join([node(1, "gpu:h100:8"), node(2, "gpu:h100:8"), node(3, "gpu:h100:4", "small")])
    found = profile(partitions=f"{PARTITION.format('')}\n{small}", nodes=nodes)
    assert found.gpu.types["h100"].gpus is None
    part = found.partitions["small"].node
    assert part
    assert (found.node.gpus, part.gpus) == (8, 4)


def test_hidden_and_closed_partitions_are_no_difference() -> None:
    hidden = PARTITION.format("").replace("Hidden=NO", "Hidden=YES")
    found = discover(answers(replied(partitions=hidden, nodes=node())), "me@login")
    assert differing(found, partitions={"gpu": {}}, login={"host": "other"}) == []


VERSIONS = ("20.11", "22.05", "23.11", "24.11", "25.05")
OUTPUT = Path(__file__).parent / "slurm_output"


def recorded(version: str) -> Discovery:
    """What is discovered of the same cluster with another version of Slurm."""
    return discovered(**{path.stem: path.read_text() for path in (OUTPUT / version).glob("*.txt")})


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_slurm_gives_the_same_facts(version: str) -> None:
    text = written(recorded(version))
    found = tomllib.loads(text)
    cpus = 128 if version == "20.11" else 124
    assert found["node"] == {"gpus": 4, "cpus": cpus, "memory": "511999M"}
    assert found["cpu"] == {"per_gpu": 30, "multiple_of": 2}
    assert found["memory"] == {"per_gpu": "120000M"}
    assert found["partitions"] == {
        "gpu": {"default": True, "max_time": "2-00:00:00", "max_nodes": 16, "gpu_type": "h100"},
        "mig": {
            "max_time": "UNLIMITED",
            "whole_nodes": True,
            "node": {"gpus": 2, "cpus": 32, "memory": "250G", "cpus_per_gpu": 16},
        },
        "cloud": {
            "max_time": "UNLIMITED",
            "gpu_type": "a100",
            "node": {"gpus": 2, "cpus": 64, "memory": "250000M", "cpus_per_gpu": 16},
        },
    }
    assert set(found["gpu"]["types"]) == {"1g.10gb", "a100", "h100"}
    assert found["qos"]["long"] == {
        "max_time": "4-00:00:00",
        "max_gpus": 8,
        "max_nodes": 2,
        "min_gpus": 1,
        "max_jobs": 10,
        "replaces_partition_limits": True,
    }
    assert set(found["qos"]) == {"normal", "long"}
    assert found["architecture"] == "x86_64"
    read_again(recorded(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_has_no_key_becomes_a_comment(version: str) -> None:
    text = written(recorded(version))
    for comment in (
        "max_array_size = 5001  # seen 2026-11-21 by scontrol show config",
        "2 nodes: 4 GPUs h100,",
        "features ib, h100  # seen",
        "# TRESBillingWeights: CPU=1.0,Mem=0.25G  # seen 2026-11-21 by scontrol show partition",
        "# AllowAccounts: abc,def",
        "# DefMemPerCPU: 4000",
        "# Flags: DenyOnLimit",
        "# UsageFactor: 2.000000",
        "hidden partitions: secret",
    ):
        assert comment in text
    assert "b200" not in text, "a node in the state FUTURE does not exist"


def partition(name: str, **values: str) -> str:
    """A partition like the usual one, with other values."""
    line = PARTITION.format(values.pop("JobDefaults", "(null)")).replace("=gpu ", f"={name} ", 1)
    for key, value in values.items():
        line = re.sub(rf"\b{key}=\S+", "", line) + f" {key}={value}"
    return line


def test_shares_of_a_partition_differ_from_those_of_the_default() -> None:
    lines = [
        partition("gpu", JobDefaults="DefCpuPerGPU=16,DefMemPerGPU=100000"),
        partition("small", JobDefaults="DefCpuPerGPU=8,DefMemPerGPU=50000", Default="NO"),
    ]
    nodes = "\n".join([node(1), node(2, partitions="small")])
    found = profile(partitions="\n".join(lines), nodes=nodes)
    small = found.partitions["small"].node
    assert small
    assert (found.cpu.per_gpu, small.cpus_per_gpu) == (16, 8)
    assert (found.memory.per_gpu, small.memory_per_gpu) == ("100000M", "50000M")


def test_a_share_is_not_larger_than_the_node_has() -> None:
    line = partition("gpu", JobDefaults="DefCpuPerGPU=64,DefMemPerGPU=900000")
    found = profile(partitions=line, nodes=node())
    assert (found.cpu.per_gpu, found.memory.per_gpu) == (32, "125G")


def test_the_configuration_has_shares_for_partitions_without() -> None:
    config = CONFIG_TEXT + "JobDefaults             = DefCpuPerGPU=12\n"
    assert profile(config=config, partitions=partition("gpu"), nodes=node()).cpu.per_gpu == 12


def test_a_partition_may_use_a_part_of_each_node() -> None:
    lines = [partition("gpu"), partition("part", Default="NO", MaxCPUsPerNode="48", MaxMemPerNode="256000")]
    found = profile(partitions="\n".join(lines), nodes=node(partitions="gpu,part")).partitions
    part = found["part"].node
    assert part
    assert (part.gpus, part.cpus, part.memory) == (4, 48, "250G")
    assert found["gpu"].node is None


def test_the_qos_of_a_partition_limits_its_jobs() -> None:
    line = partition("gpu", QoS="capped", MaxNodes="UNLIMITED")
    qos = "capped|1-00:00:00|||||||||\nother|||||||gres/gpu=1||gres/gpu=1|"
    limited = "capped|1-00:00:00|cpu=8,gres/gpu=64,mem=48G||||||gres/gpu=8,node=3||1.000000"
    assert profile(partitions=line, nodes=node(), qos=qos).partitions["gpu"].max_time == "1-00:00:00"
    found = profile(partitions=line, nodes=node(), qos=limited).partitions["gpu"]
    assert (found.max_time, found.max_gpus, found.max_nodes) == ("1-00:00:00", 64, None)
    assert (found.max_cpus, found.max_memory) == (8, "48G")


def test_the_fewest_gpus_of_a_partition_are_those_of_its_qos() -> None:
    line = partition("gpu", QoS="wide", MinNodes="3")
    output = discovered(partitions=line, nodes=node(), qos="wide|||gres/gpu=8,node=2||||||gres/gpu=64|")
    found = read_again(output).partitions["gpu"]
    assert (found.min_gpus, found.min_nodes) == (8, 3)
    assert differing(output, partitions={"gpu": {"min_gpus": 1}}) == ["partitions.gpu.min_gpus"]


def test_each_limit_of_a_partition_names_the_command_that_reported_it() -> None:
    line = partition("gpu", QoS="wide", MaxTime="1-00:00:00", MaxNodes="4")
    qos = "wide|2-00:00:00|gres/gpu=64,node=2|gres/gpu=8|||||||"
    facts = discovered(partitions=line, nodes=node(), qos=qos).facts
    commands = {fact.keys[2]: fact.command for fact in facts if fact.keys[:2] == ("partitions", "gpu")}
    limits = {"max_time": PARTITIONS, "max_gpus": QOS, "max_nodes": QOS, "min_gpus": QOS}
    assert commands.items() >= limits.items()


def test_the_least_limit_of_a_qos_counts() -> None:
    row = "long||gres/gpu=32,node=8||||20|gres/gpu=16||gres/gpu=64,node=4|1.0"
    found = profile(nodes=node(), associations="a|long|long|big|", qos=row).qos["long"]
    assert (found.max_gpus, found.max_nodes, found.max_jobs) == (16, 4, 20)


def test_associations_of_other_clusters_do_not_count() -> None:
    rows = "a|normal|normal|big|\na|huge|huge|other|\n"
    qos = "normal|||||||||\nhuge|||||||||"
    found = profile(config=CONFIG_TEXT, nodes=node(), associations=rows, qos=qos).qos
    assert set(found) == {"normal"}


def test_partitions_that_allow_none_of_the_accounts_are_named() -> None:
    lines = [partition("gpu"), partition("theirs", AllowAccounts="x,y"), partition("no", DenyAccounts="abc")]
    found = discovered(partitions="\n".join(lines), nodes=node(), associations="abc|normal|normal|big|")
    unknown = found.unknown
    assert "who may use the partitions theirs, no: they allow none of your accounts" in unknown


def test_select_linear_allocates_whole_nodes() -> None:
    config = CONFIG_TEXT + "SelectType              = select/linear\n"
    found = profile(config=config, partitions=partition("gpu"), nodes=node())
    assert found.partitions["gpu"].whole_nodes


def test_nodes_with_nearly_the_same_memory_are_one_kind() -> None:
    lines = [node(n).replace("RealMemory=515000", f"RealMemory={515000 - n}") for n in range(4)]
    found = discovered(partitions=partition("gpu"), nodes="\n".join(lines))
    assert [note.keys for note in found.notes if "node" in note.keys[0]] == [("4 nodes",)]
    assert ("node", "memory") in {fact.keys: fact for fact in found.facts}
    assert {fact.keys: fact.value for fact in found.facts}["node", "memory"] == "511997M"


def test_nodes_that_never_started_have_the_architecture_of_the_others() -> None:
    down = [node(n).replace("Arch=x86_64 ", "").replace("MIXED+PLANNED", "DOWN*") for n in (2, 3)]
    found = profile(partitions=partition("gpu"), nodes="\n".join([node(1), *down]))
    assert found.architecture == "x86_64"


def test_nodes_that_do_not_exist_yet_do_not_count() -> None:
    future = [node(n, gres="gpu:b200:8").replace("MIXED+PLANNED", "FUTURE") for n in (2, 3)]
    found = profile(partitions=partition("gpu"), nodes="\n".join([node(1), *future]))
    assert (found.node.gpus, set(found.gpu.types)) == (4, {"h100"})


def test_equal_nodes_are_counted_on_the_login_node() -> None:
    grouped = f"    900 {node(1)}\n    100 {node(2, 'gpu:a100:8')}"
    found = discovered(partitions=partition("gpu"), nodes=grouped)
    assert {fact.keys: fact.value for fact in found.facts}["node", "gpus"] == 4
    assert [note.keys[0] for note in found.notes if "node" in note.keys[0]] == ["900 nodes", "100 nodes"]


def test_ten_thousand_nodes_are_one_kind() -> None:
    nodes = "\n".join(node(number, partitions="gpu,long,all") for number in range(10_000))
    found = discovered(partitions=partition("gpu"), nodes=nodes)
    assert [note.keys[0] for note in found.notes if "node" in note.keys[0]] == ["10000 nodes"]


def test_without_nodes_it_is_unknown_which_partitions_lack_gpus() -> None:
    assert profile(partitions=partition("gpu")).partitions["gpu"].max_gpus is None


def test_a_limit_that_the_cluster_lifted_is_a_difference() -> None:
    found = discovered(partitions=partition("gpu", MaxTime="UNLIMITED"), nodes=node())
    assert differing(found, partitions={"gpu": {"max_time": "1-00:00:00"}}) == ["partitions.gpu.max_time"]


def test_qos_and_gpu_types_that_are_gone_are_differences() -> None:
    found = discovered(partitions=partition("gpu"), nodes=node(), qos="normal||||||||||")
    types = {"h100": {}, "a100": {}, "slow": {"constraint": "slow"}}
    assert differing(found, qos={"long": {}}, gpu={"types": types}) == ["qos.long", "gpu.types.a100"]


def test_a_gpu_type_differs_from_untyped_gpus() -> None:
    types = {"a100": {}, "slow": {"constraint": "slow"}, "kept": {"sbatch": {"reservation": "kept"}}}
    gpu = {"default_type": "a100", "types": types}
    found = discovered(partitions=partition("gpu"), nodes=node(gres="gpu:4"))
    assert differing(found, gpu=gpu) == ["gpu.types.a100"]
    assert differing(discovered(partitions=partition("gpu")), gpu=gpu) == []


def test_a_corrected_profile_has_the_facts_of_the_cluster() -> None:
    cluster = discovered(partitions=partition("gpu"), nodes=node(gres="gpu:4"), qos="normal||||||||||")
    site = msgspec.convert(
        {
            "name": "big",
            "account": {"required": True},
            "node": {"gpus": 8},
            "gpu": {"request": "gpus-per-node", "default_type": "a100", "types": {"a100": {}}},
            "partitions": {"gone": {"default": True}, "gpu": {"gpu_type": "a100", "max_nodes": 2}},
            "qos": {"long": {"default": True}},
        },
        Site,
    )
    found = corrected(site, cluster)
    assert (found.account.required, found.gpu.request, found.node.gpus) == (True, "gpus-per-node", 4)
    assert (found.gpu.default_type, dict(found.gpu.types)) == (None, {})
    assert (list(found.partitions), found.partitions["gpu"].gpu_type, found.qos) == (["gpu"], None, {})


def test_a_rounded_memory_does_not_differ() -> None:
    found = discovered(partitions=partition("gpu"), nodes=node())
    for memory, keys in (("512001M", []), ("499G", ["node.memory"])):
        assert differing(found, node={"memory": memory}) == keys


def test_the_engines_of_a_login_node_are_not_compared() -> None:
    found = discovered(nodes=node(), login="engine pyxis\n")
    assert differing(found, container={"engine": "apptainer"}) == []


@pytest.mark.parametrize(
    "text",
    [
        'x"\n[sbatch]\nwrap = "rm"',
        "a\x1b]0;title\x07b\u202ec",
        "']]\n[[partitions]]",
        "\x00gpu\x000",
        "A" * 100_000,
    ],
)
def test_hostile_text_stays_in_comments_and_strings(text: str) -> None:
    evil = text.replace(" ", "_")
    output = replied(
        config=CONFIG_TEXT.replace("lua", text).replace("= big", f"= {text}"),
        partitions=partition("gpu", AllowAccounts=evil, TRESBillingWeights=evil)
        + f"\nPartitionName={evil} State=UP",
        nodes=node(gres=f"gpu:{evil}:2").replace("ib", evil),
        associations=f"{text}|normal,{text}|normal|big|",
        qos=f"normal||||{text}|||||\n{text}||||||||||",
        login=f"module cuda{text}\nengine {text}\n",
    )
    replies = answers(output)
    written = profile_text(discover(replies), cluster_name(replies), "2026-11-21")
    found = tomllib.loads(written)
    assert set(found) <= {
        "name",
        "partitions",
        "node",
        "gpu",
        "architecture",
        "qos",
        "cpu",
        "memory",
        "complete",
        "sources",
    }
    assert set(found.get("partitions", {})) <= {"gpu"}
    assert all(character.isprintable() or character == "\n" for character in written)


def test_invalid_utf_8_is_replaced() -> None:
    output = replied(partitions=partition("gpu", AllowAccounts="abc"), nodes=node())
    text = written(discover(answers(output.replace(b"abc", b"\xff\xfe"))))
    assert tomllib.loads(text)["partitions"]["gpu"]["default"]
