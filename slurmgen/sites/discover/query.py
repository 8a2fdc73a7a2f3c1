"""The commands that describe a cluster, in one shell script, and their output."""

import re
from typing import NamedTuple

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
ENGINES = ("apptainer", "singularity", "podman-hpc", "shifter", "ch-run")
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
