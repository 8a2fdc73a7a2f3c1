"""The commands that describe a cluster, in one shell script, and their output."""

import re
from typing import NamedTuple

CONFIG = "scontrol show config"
PARTITIONS = "scontrol --all --oneliner show partition"
NODES = "scontrol --oneliner show node"
ASSOCIATIONS = "sacctmgr --noheader --parsable2 show associations user=$USER format=Account,QOS,DefaultQOS"
QOS = (
    "sacctmgr --noheader --parsable2 show qos "
    "format=Name,MaxWall,MaxTRES,MinTRES,Flags,MaxJobsPerUser,MaxSubmitJobsPerUser"
)
LOGIN_NODE = "login node"
ENGINES = ("apptainer", "singularity", "podman-hpc", "shifter", "ch-run")
_SECONDS = 30

QUERY = f"""
export LC_ALL=C USER="${{USER:-$(id -un)}}"
report() {{
  printf '\\000%s\\000' "$1"
  timeout {_SECONDS} sh -c "$2" </dev/null 2>&1
  printf '\\000%s' "$?"
}}
for command in '{CONFIG}' '{PARTITIONS}' '{NODES}' '{ASSOCIATIONS}' '{QOS}'; do
  report "$command" "$command"
done
report '{LOGIN_NODE}' 'for program in {" ".join(ENGINES)}; do
  command -v "$program" >/dev/null && echo "engine $program"
done
srun --help | grep -q -e --container-image && echo "engine pyxis"
srun --help | grep -q -e "--environment=" && echo "engine edf"
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
