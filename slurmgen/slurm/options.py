"""sbatch's long options, as `sbatch --help` and sbatch(1) list them (22.05 to 24.11)."""

import re

from slurmgen.errors import RequestError

MANAGED = {
    "account": "--account",
    "chdir": "the folder you submit from",
    "container": "--container",
    "cores-per-socket": "--cpus-per-gpu",
    "cpus-per-gpu": "--cpus-per-gpu",
    "cpus-per-task": "--cpus-per-gpu",
    "error": "--log-dir",
    "gpus": "--gpus",
    "gpus-per-node": "--gpus and --nodes",
    "gpus-per-socket": "--gpus and --nodes",
    "gpus-per-task": "--gpus (it hides a node's GPUs from each other)",
    "gres": "--gpus and --gpu-type",
    "help": "`sbatch --help`",
    "job-name": "--name",
    "mem": "--mem",
    "mem-per-cpu": "--mem",
    "mem-per-gpu": "--mem",
    "mincpus": "--cpus-per-gpu",
    "nodes": "--nodes",
    "ntasks": "--framework and --gpus",
    "ntasks-per-core": "--framework and --gpus",
    "ntasks-per-gpu": "--framework and --gpus",
    "ntasks-per-node": "--framework and --gpus",
    "ntasks-per-socket": "--framework and --gpus",
    "output": "--log-dir",
    "parsable": "`slurmgen submit`",
    "partition": "--partition",
    "qos": "--qos",
    "tres-per-task": "--gpus (it hides a node's GPUs from each other)",
    "test-only": "`slurmgen submit --test-only`",
    "time": "--time",
    "usage": "`sbatch --usage`",
    "version": "`sbatch --version`",
    "wait": "`slurmgen submit --follow`",
    "wrap": "--script",
}
"Options that slurmgen sets itself, and what to say instead."

OTHERS = frozenset(
    """
    acctg-freq array batch bb bbf begin cluster-constraint clusters comment constraint contiguous
    core-spec cpu-bind cpu-freq deadline delay-boot dependency distribution exclude exclusive export
    export-file extra-node-info get-user-env gid gpu-bind gpu-freq gres-flags hint hold ignore-pbs input
    kill-on-invalid-dep licenses mail-type mail-user mcs-label mem-bind network nice no-kill no-requeue
    nodefile nodelist open-mode overcommit oversubscribe power prefer priority profile propagate quiet
    reboot requeue reservation resv-ports segment signal sockets-per-node spread-job stepmgr switches
    thread-spec threads-per-core time-min tmp tres-bind uid use-min-nodes verbose
    wait-all-nodes wckey
    """.split()
)
"Options that a request may pass through."

_SIGNAL = r"([RB]{1,2}:)?[A-Z0-9+-]+(@[0-9]+)?"
_NAME = r"[a-z][a-z0-9-]*"
_VALUE = r"""[^"'\\$`\n]*"""


def checked(key: str, value: str) -> tuple[str, str]:
    """One directive as it will stand in the script; the value quoted if sbatch needs it.

    An option that is in neither list may belong to a plug-in of the site, so it passes,
    unless it looks like a misspelt one.

    Raises:
        RequestError: slurmgen sets that option itself, or its name or value cannot stand in a script.
    """

    if key in MANAGED:
        raise RequestError(f"slurmgen sets --{key} itself", f"Use {MANAGED[key]} instead of --sbatch.")
    if not re.fullmatch(_NAME, key):
        raise RequestError(
            f"{key!r} is not an sbatch option", "Give its long name without dashes, as KEY=VALUE."
        )
    if key == "gpu-bind" and value != "none":
        raise RequestError(
            f"--sbatch gpu-bind={value} hides a node's GPUs from each other", "Only none is right."
        )
    if key not in OTHERS and (whole := [name for name in (*MANAGED, *OTHERS) if name.startswith(key)]):
        raise RequestError(f"--sbatch {key} is an abbreviation", f"Write {' or '.join(sorted(whole))}.")
    if key not in OTHERS and (close := _near(key)):
        raise RequestError(f"unknown sbatch option {key!r}", f"Did you mean {close[0]}?")
    if key == "signal" and not re.fullmatch(_SIGNAL, value):
        raise RequestError(f"--sbatch signal={value} is no signal", "Write one such as USR2@120.")
    if not re.fullmatch(_VALUE, value):
        raise RequestError(
            f"the value of --sbatch {key} has a quote, a backslash, a dollar or a backtick: {value!r}",
            "sbatch expands nothing in a directive; write the value itself.",
        )
    return key, f'"{value}"' if re.search(r"[\s#]", value) else value


def _near(key: str) -> list[str]:
    from difflib import get_close_matches  # only an unknown option needs it

    return get_close_matches(key, [*OTHERS, *MANAGED], n=1, cutoff=0.8)
