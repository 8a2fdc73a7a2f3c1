"""Ask a cluster what it is like."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from slurmgen.slurm import units

CONFIG = "scontrol show config"
PARTITIONS = "scontrol --all --oneliner show partition"
NODES = "scontrol --all --oneliner show node"
ASSOCIATIONS = (
    "sacctmgr --noheader --parsable2 show associations user=$USER "
    "format=Account,QOS,DefaultQOS,Cluster,Partition"
)
QOS_FIELDS = (
    *("Name", "MaxWall", "MaxTRES", "MinTRES", "Flags", "MaxJobsPerUser", "MaxSubmitJobsPerUser"),
    *("MaxTRESPerUser", "MaxTRESPerNode", "GrpTRES", "UsageFactor"),
)
QOS = f"sacctmgr --noheader --parsable2 show qos format={','.join(QOS_FIELDS)}"
LOGIN_NODE = "login node"
PROBE = "the probe job"
COMMANDS = (CONFIG, PARTITIONS, NODES, ASSOCIATIONS, QOS)
ENGINES = {
    "apptainer": "apptainer",
    "singularity": "singularity",
    "podman-hpc": "podman-hpc",
    "shifter": "shifter",
    "ch-run": "charliecloud",
}
"The container engines by their programs, the preferred one first."
MODULES = ("cuda", "nvhpc", "nccl", "aws-ofi", "rocm", "python", "pytorch", "conda", "uv", "apptainer")
"The beginnings of the names of modules that matter to a training job."
FREE_TEXT = ("Reason", "Comment", "Extra")
"The last keys of a node: their values may look like further keys."
NODE_KEYS = (
    *("Arch", "AvailableFeatures", "CPUEfctv", "CPUTot", "Gres", "MemSpecLimit", "Partitions"),
    *("RealMemory", "State", "ThreadsPerCore"),
)
_SECONDS = 30
_MOST_BYTES = 100_000_000
"Of nodes that are grouped: there are 130,000 in as many."

# The login node groups equal nodes: 10,000 of them are 10 MB, and a few lines in groups.
QUERY = f"""
export LC_ALL=C USER="${{USER:-$(id -un)}}"
export GROUP='{{
  line = ""
  for (i = 1; i <= NF && $i !~ /^({"|".join(FREE_TEXT)})=/; i++)
    if ($i ~ /^({"|".join(NODE_KEYS)})=/) line = line " " $i
  print line
}}'
report() {{
  printf '\\000%s\\000' "$1"
  timeout {_SECONDS} bash -c "$2" </dev/null 2>&1
  printf '\\000%s' "$?"
}}
for command in '{CONFIG}' '{PARTITIONS}' '{ASSOCIATIONS}' '{QOS}'; do
  report "$command" "$command"
done
report '{NODES}' 'set -o pipefail; {NODES} | head -c {_MOST_BYTES} | awk "$GROUP" | sort | uniq -c'
report '{LOGIN_NODE}' 'echo "architecture $(uname -m)"
for program in {" ".join(ENGINES)}; do
  command -v "$program" >/dev/null && echo "engine $program"
done
srun --help | grep -q -e --container-image && echo "engine pyxis"
srun --help | grep -q -e "--environment=" && echo "engine edf"
if [ -n "$LMOD_CMD" ]; then
  timeout 2 "$LMOD_CMD" bash --terse avail
elif [ -n "$MODULES_CMD" ]; then
  timeout 2 "$MODULES_CMD" bash avail --terse
fi 2>&1 | grep -i -E "^({"|".join(MODULES)})" | head -n 40 | sed "s/^/module /"
true'
"""
"A script for sh. It prints each command, its output and its exit status, separated by NULs."


class Answer(NamedTuple):
    """What a command printed."""

    output: str
    status: int

    @property
    def succeeded(self) -> bool:
        """Whether the command exists and reported no error."""
        return self.status == 0


def answers(output: bytes) -> dict[str, Answer]:
    """The output of each command, by the command. What a login shell prints before is ignored."""
    parts = output.decode(errors="replace").split("\0")[1:]
    triples = zip(parts[0::3], parts[1::3], parts[2::3], strict=False)
    return {
        command: Answer(text, int(status))
        for command, text, status in triples
        if re.fullmatch("[0-9]{1,3}", status)
    }


COUNT = "count"
"The key for the number of equal records, which `uniq -c` prints in front of them."
_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=")
_DIGITS = 9
_ABSENT = frozenset(("", "(null)", "N/A", "NONE", "None", "UNLIMITED", "INFINITE"))


class Gres(NamedTuple):
    """GPUs of one type on a node; the type is empty where they have none."""

    type: str
    number: int


def records(text: str) -> Iterator[dict[str, str]]:
    """The lines of `scontrol --oneliner`, each as its keys and values. A value may contain blanks."""
    for line in text.splitlines():
        marks = _marks(line)
        ends = [mark.start() for mark in marks[1:]] + [len(line)]
        if marks:
            pairs = [(mark[1], line[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=True)]
            yield dict([*reversed(pairs), (COUNT, line[: marks[0].start()].strip())])


def _marks(line: str) -> list[re.Match[str]]:
    """The keys of a line, up to the first with free text, which may look like further keys."""
    found = list(_PAIR.finditer(line))
    end = next((index for index, mark in enumerate(found) if mark[1] in FREE_TEXT), len(found))
    return found[: end + 1]


def settings(text: str) -> dict[str, str]:
    """The lines `Key = value` of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def number(text: str | None) -> int | None:
    """A whole number; None if the text is not one, or is absurdly long."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def known(value: str | None) -> str | None:
    """A value that Slurm sets; None for its words for no value or no limit."""
    return None if value is None or value.strip() in _ABSENT else value.strip()


def least(*values: int | None) -> int | None:
    """The least of the values that are known."""
    return min((value for value in values if value is not None), default=None)


def gpus(gres: str | None) -> tuple[Gres, ...]:
    """The GPUs in a node's list of generic resources, by type.

    >>> gpus("gpu:h100:4(S:0-1),nvme:1"), gpus("gpu:4")
    ((Gres(type='h100', number=4),), (Gres(type='', number=4),))
    >>> gpus("gpu:a100_1g.5gb:7,gpu:a100:2"), gpus("gpu:4090:8"), gpus("gpu:l4:1(S:0),gpu:l4:1(S:1)")
    ((Gres(type='a100_1g.5gb', number=7), Gres(type='a100', number=2)), \
(Gres(type='4090', number=8),), (Gres(type='l4', number=2),))
    """
    found: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", gres or "").split(","):
        name, *rest = (word for word in entry.strip().split(":") if word != "no_consume")
        if name == "gpu":
            kind, count = _type_and_count(rest)
            found[kind] = found.get(kind, 0) + count
    return tuple(Gres(kind, count) for kind, count in found.items() if count)


def _type_and_count(words: list[str]) -> tuple[str, int]:
    """The words behind `gpu:`; either may be missing, and a type may consist of digits."""
    if len(words) == 1 and number(words[0]) is None:
        return words[0], 1
    count = number(words[-1]) if words else 1
    return ":".join(words[:-1]), 1 if count is None else count


def tres(text: str) -> dict[str, int]:
    """The whole numbers in a list of trackable resources; memory in MiB.

    >>> tres("cpu=128,gres/gpu=8,mem=4G,node=2")
    {'cpu': 128, 'gres/gpu': 8, 'mem': 4096, 'node': 2}
    """
    pairs = (entry.partition("=") for entry in text.split(","))
    found = {name: _mebibytes(value) if name == "mem" else number(value) for name, _, value in pairs}
    return {name: count for name, count in found.items() if count is not None}


def _mebibytes(text: str) -> int | None:
    try:
        return units.megabytes(text)
    except ValueError:
        return None


def least_of(name: str, lists: Iterable[str]) -> int | None:
    """The least number of one resource in several lists of them."""
    return least(*(tres(text).get(name) for text in lists))
