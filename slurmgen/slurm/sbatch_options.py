"""sbatch's long options, as `sbatch --help` and sbatch(1) list them (22.05 to 24.11)."""

import re

from slurmgen.errors import RequestError, option

SbatchOptions = dict[str, str | bool]
"By long name; `true` for an option without a value, `false` to leave the option out."

MANAGED = {
    "account": option("account"),
    "chdir": "the folder you submit from",
    "container": option("container"),
    "cores-per-socket": option("cpus_per_gpu"),
    "cpus-per-gpu": option("cpus_per_gpu"),
    "cpus-per-task": f"{option('cpus_per_gpu')} or {option('cpus')}",
    "gpus": option("gpus"),
    "gpus-per-node": f"{option('gpus')} and {option('nodes')}",
    "gpus-per-socket": f"{option('gpus')} and {option('nodes')}",
    "gpus-per-task": f"{option('gpus')} (it hides a node's GPUs from each other)",
    "gres": f"{option('gpus')} and {option('gpu_type')}",
    "help": "`sbatch --help`",
    "job-name": option("name"),
    "mem": option("mem"),
    "mem-per-cpu": option("mem"),
    "mem-per-gpu": option("mem"),
    "nodes": option("nodes"),
    "ntasks": f"{option('framework')} and {option('gpus')}",
    "ntasks-per-gpu": f"{option('framework')} and {option('gpus')}",
    "ntasks-per-node": option("ntasks_per_node"),
    "parsable": "`slurmgen submit`",
    "partition": option("partition"),
    "qos": option("qos"),
    "tres-per-task": f"{option('gpus')} (it hides a node's GPUs from each other)",
    "test-only": "`slurmgen submit --test-only`",
    "time": option("time"),
    "usage": "`sbatch --usage`",
    "version": "`sbatch --version`",
    "wait": "`slurmgen submit --follow`",
    "wrap": option("script"),
}
"Options that slurmgen sets, and what to use instead."

OTHERS = frozenset(
    """
    acctg-freq array batch bb bbf begin cluster-constraint clusters comment constraint contiguous
    core-spec cpu-bind cpu-freq deadline delay-boot dependency distribution error exclude exclusive export
    export-file extra-node-info get-user-env gid gpu-bind gpu-freq gres-flags hint hold ignore-pbs input
    kill-on-invalid-dep licenses mail-type mail-user mcs-label mem-bind mincpus network nice no-kill
    no-requeue nodefile nodelist ntasks-per-core ntasks-per-socket open-mode output overcommit oversubscribe
    power prefer priority profile propagate quiet
    reboot requeue reservation resv-ports segment signal sockets-per-node spread-job stepmgr switches
    thread-spec threads-per-core time-min tmp tres-bind uid use-min-nodes verbose
    wait-all-nodes wckey
    """.split()
)
"Options that a request may pass through."

FLAGS = frozenset(
    """
    contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot requeue
    spread-job stepmgr test-only usage use-min-nodes verbose version wait
    """.split()
)
"Options that take no value."
OPTIONAL = frozenset("exclusive get-user-env nice no-kill propagate resv-ports".split())
"Options that may have a value."

MOST_TASKS = 4_000_000
"The largest MaxArraySize that Slurm allows."
_TASKS = r"\d+(-\d+(:[1-9]\d*)?)?"
_ARRAY = rf"{_TASKS}(,{_TASKS})*(%\d+)?"
_SIGNAL = r"([RB]{1,2}:)?[A-Z0-9+-]+(@[0-9]+)?"
_NAME = r"[a-z][a-z0-9_-]*"
_GRES = r"(?!gpu\b)[a-z]\w*(:[\w.-]+){0,2}"
_OTHER_GRES = rf"{_GRES}(,{_GRES})*"
"Generic resources besides GPUs, such as nvme:100 or lscratch:20,shard:1."
_VALUE = r"""[^"'\\$`\n]*"""

LEFT_OUT = ("cpus-per-task", "mem", "nodes", "time")
"""Options of slurmgen that `false` leaves out of the script, so that the cluster's defaults apply.
Without nodes, it counts all tasks."""


def leaves_out(options: SbatchOptions, name: str) -> bool:
    """Whether a request leaves out one of `LEFT_OUT`."""
    return options.get(name) is False and name in LEFT_OUT


def given(options: SbatchOptions) -> dict[str, str]:
    """Options with their values as text, without those that are `false`."""
    return {key: "" if value is True else value for key, value in options.items() if value is not False}


def checked(key: str, value: str) -> tuple[str, str]:
    """One directive as the script has it, with a value that is quoted if sbatch needs that.

    An option in neither list may belong to a plug-in of the site, so it is accepted, unless it looks like a
    misspelling of a known option.

    Raises:
        RequestError: slurmgen sets the option itself, or its name or value is not valid.
    """
    if key == "gres" and re.fullmatch(_OTHER_GRES, value):
        return key, value
    _check_name(key)
    _check_presence(key, value)
    if key in _CHECKS:
        _CHECKS[key](value)
    if not re.fullmatch(_VALUE, value):
        raise RequestError(
            f"the value of {option('sbatch', key)} has a quote, a backslash, a dollar sign or a backtick: "
            f"{value!r}",
            "sbatch expands nothing in a directive; write the value itself.",
        )
    return key, f'"{value}"' if re.search(r"[\s#]", value) else value


def array_size(value: str) -> int:
    """The tasks of a valid value of --array.

    >>> array_size("0-7%2"), array_size("1,3,5-9:2")
    (8, 5)
    """
    return sum(map(_count, value.partition("%")[0].split(",")))


def _count(part: str) -> int:
    low, _, rest = part.partition("-")
    high, _, step = rest.partition(":")
    return len(range(int(low), int(high or low) + 1, int(step or 1)))


def _check_name(key: str) -> None:
    if key in MANAGED:
        raise RequestError(
            f"slurmgen sets --{key} itself", f"Use {MANAGED[key]} instead of {option('sbatch')}.", "sbatch"
        )
    if not re.fullmatch(_NAME, key):
        raise RequestError(
            f"{key!r} is not an sbatch option", "Write its long name without dashes, as KEY=VALUE.", "sbatch"
        )
    if key not in OTHERS and (whole := [name for name in (*MANAGED, *OTHERS) if name.startswith(key)]):
        fact = f"{option('sbatch', key)} is an abbreviation"
        raise RequestError(fact, f"Write {' or '.join(sorted(whole))}.")
    if key not in OTHERS and (close := _near(key)):
        raise RequestError(f"unknown sbatch option {key!r}", f"Did you mean {close[0]}?", "sbatch")


def _check_presence(key: str, value: str) -> None:
    if key in FLAGS and value:
        raise RequestError(f"{option('sbatch', key)} takes no value, not {value!r}", f"Write {key} alone.")
    if key in OTHERS - FLAGS - OPTIONAL and not value:
        raise RequestError(f"{option('sbatch', key)} has no value", f"Write {key}=VALUE.")


def _check_array(value: str) -> None:
    if not re.fullmatch(_ARRAY, value, re.ASCII):
        raise RequestError(
            f"{option('sbatch', 'array')}={value} is not an array", "Write one such as 0-7, 1,3,5 or 0-99%4."
        )
    if any(
        len(number) > len(str(MOST_TASKS)) or int(number) > MOST_TASKS for number in re.findall(r"\d+", value)
    ):
        raise RequestError(
            f"{option('sbatch', 'array')}={value} has an index of more than {MOST_TASKS:,}",
            "Slurm has no larger arrays.",
        )


def _check_signal(value: str) -> None:
    if not re.fullmatch(_SIGNAL, value):
        raise RequestError(
            f"{option('sbatch', 'signal')}={value} is not a signal", "Write one such as USR2@120."
        )


def _check_gpu_bind(value: str) -> None:
    if value != "none":
        raise RequestError(
            f"{option('sbatch', 'gpu-bind')}={value} hides a node's GPUs from each other",
            "Only none is allowed.",
        )


_CHECKS = {"array": _check_array, "signal": _check_signal, "gpu-bind": _check_gpu_bind}


def _near(key: str) -> list[str]:
    from difflib import get_close_matches  # slow to import; only an unknown option needs it

    return get_close_matches(key, [*OTHERS, *MANAGED], n=1, cutoff=0.8)
