"""Ports of the rendezvous that another job, or another program, may use."""

import re
from collections.abc import Iterator
from itertools import count

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Assignment, Launch, Script, Span
from slurmgen.lint.rules.common import (
    JOB_PORT,
    default_port_in,
    has_ranks,
    in_force,
    insert,
    port_in,
    port_variables,
    procs_of,
    rank_launchers,
    rendezvous,
    replace_assigned,
    replace_value,
    takes_whole_nodes,
)

_PORT_VARIABLE = re.compile(r"(?:.*_)?port(?:_.*|\d*)", re.IGNORECASE | re.DOTALL)
_JOB_ID = "SLURM_JOB_ID"
_BETWEEN = 4000
"Jobs between two that have the same port, for different variables."


def port_values(script: Script) -> tuple[str, ...]:
    """The different values of the variables for ports, in the order of the script."""
    found = [one for one in script.shell.assignments if _PORT_VARIABLE.fullmatch(one.name)]
    return tuple(dict.fromkeys(_written(one) for one in found if one.value.isdigit() or _JOB_ID in one.raw))


def job_port(found: Assignment, values: tuple[str, ...]) -> str:
    """A port derived from the job ID for a variable that has another one.

    Args:
        found: where the variable is set.
        values: those of all variables for ports, one of which may be that of this one.
    """
    own = _written(found)
    first = values.index(own) if own in values else 0
    return next(port for port in map(_numbered, count(first)) if port not in values)


def _numbered(number: int) -> str:
    return JOB_PORT.replace(_JOB_ID, f"({_JOB_ID} + {number * _BETWEEN})") if number else JOB_PORT


def _written(found: Assignment) -> str:
    return found.raw.strip("\"'")


_PORT_OPTION = {"accelerate": "main-process-port", "deepspeed": "master-port"}
_DEFAULT_PORT_ADVICE = {
    "accelerate": f"add `--main_process_port=0` on one node, else `--main_process_port={JOB_PORT}`",
    "deepspeed": f"add `--master_port={JOB_PORT}`",
}
_WHOLE_NODE = 8
"A job with so many GPUs on a node does not share it."


@rule("SG301", "warning")
def fixed_port(script: Script) -> Iterator[Finding]:
    """Ranks use a fixed port.

    ## What it checks
    Checks for a rendezvous port that is a literal number, also as the default in `${MASTER_PORT:-29500}` and
    as an argument of the training script, such as `--dist-url tcp://HOST:29500`, and for accelerate or
    deepspeed without a port, which use 29500. Jobs that have whole nodes are not reported: those with
    `--exclusive`, `--mem=0`, or at least 8 GPUs on a node, and those in a partition that is known to allocate
    whole nodes.

    ## Why it matters
    Two jobs on the same node use the same port. The second one fails with "address already in use".

    ## Example
        export MASTER_PORT=29500

    ## Use instead
        export MASTER_PORT=$((20000 + SLURM_JOB_ID % 12768))

    On one node, torchrun's `--standalone` and accelerate's `--main_process_port=0` select a free port.

    ## When to ignore
    If the nodes are never shared with another job, but the header does not show this.

    ## Reference
    TorchDR/TorchDR issue 249 ; huggingface/accelerate issue 3312
    """
    if takes_whole_nodes(script):
        return
    values = port_values(script)
    for launch in script.started:
        yield from _fixed_ports(script, launch, values)


def _fixed_ports(script: Script, launch: Launch, values: tuple[str, ...]) -> Iterator[Finding]:
    options = launch.options
    if "standalone" in options.given:
        return
    fixed = list(_fixed_assignments(script, launch))
    yield from (_of_assignment(script, found, job_port(found, values)) for found in fixed)
    for found in rendezvous(launch, "port"):
        port = port_in(found.value) or default_port_in(found.word.raw)
        if port and not any(port in assigned.raw for assigned in fixed):
            yield _of_number(found.word.span, port)
    default = _PORT_OPTION.get(launch.kind)
    lacks_port = default and options.lacks(default, "config-file", "rdzv-endpoint", "rdzv-backend")
    if lacks_port and _is_distributed(script, launch):
        edits = insert(script, launch.word, launch.options_at, " --main_process_port=0")
        yield Finding(
            launch.span,
            f"{launch.kind} uses port 29500 by default",
            _DEFAULT_PORT_ADVICE[launch.kind],
            edits if launch.kind == "accelerate" and options.lacks("num-machines") else (),
        )


def _is_distributed(script: Script, launch: Launch) -> bool:
    """Whether a launcher starts several ranks, on nodes that it may share with other jobs."""
    gpus = script.step(launch).gpus_per_node
    if launch.kind != "deepspeed" and (gpus or 1) >= _WHOLE_NODE:
        return False
    if any(name.startswith(("PET_MASTER", "PET_RDZV", "PET_STANDALONE")) for name in launch.env):
        return False
    all_gpus = launch.kind == "accelerate" and launch.options.lacks("num-processes", "cpu")
    unknown = launch.kind == "torchrun" and "nproc-per-node" in launch.options.given
    procs = procs_of(script, launch) or (gpus if all_gpus or unknown else 0)
    return (procs or 0) > 1


def _fixed_assignments(script: Script, launch: Launch) -> Iterator[Assignment]:
    """The assignments that set the port of a launch to a number; Python scripts read MASTER_PORT."""
    names = port_variables(script, launch)
    if _reads_environment(launch) and has_ranks(script, launch):
        names |= {"MASTER_PORT"}
    assigned = in_force(script, launch, names, branches=True)
    return (found for found in assigned if _fixed_port(found))


def _reads_environment(launch: Launch) -> bool:
    return launch.kind == "python" or (launch.kind == "program" and launch.step is not None)


def _fixed_port(found: Assignment) -> str | None:
    return (port_in(found.value) if found.value.isdigit() else None) or default_port_in(found.raw)


def _of_assignment(script: Script, found: Assignment, better: str) -> Finding:
    edits = replace_assigned(script, found, better) if found.value.isdigit() else ()
    return _of_number(found.span, _fixed_port(found) or "", better)._replace(edits=edits)


def _of_number(span: Span, port: str, better: str = JOB_PORT) -> Finding:
    return Finding(
        span, f"every job of this script uses port {port}", f"derive the port from the job ID: `{better}`"
    )


_FIRST, _LAST = 32768, 60999
_SHUF = r"shuf\s[^|)]*?(?:-[a-z]*i\s*|--input-range[= ])['\"]?"
_DRAWN = rf"(?:{_SHUF}|rand(?:int|range)\()(\d{{1,9}})\s*[-,]\s*(\d{{1,9}})"
"The range of `shuf -i LOW-HIGH` or of Python's `randint(LOW, HIGH)`."


@rule("SG302", "warning")
def ephemeral_port(script: Script) -> Iterator[Finding]:
    """The port may be in the ephemeral range.

    ## What it checks
    Checks for a port whose possible values overlap 32768-60999: a number, also in an
    argument such as `--dist-url tcp://HOST:40000`, or one that is computed or random. A loop that tries ports
    until one is free is not reported.

    ## Why it matters
    Linux assigns these ports to programs that open outgoing connections. If one is in use when the ranks
    start, the job fails. This is rare for a single job, but likely over many jobs.

    ## Example
        MASTER_PORT=$((10000 + RANDOM % 50000))

    ## Use instead
        MASTER_PORT=$((20000 + SLURM_JOB_ID % 12768))

    ## When to ignore
    If the port is known to be reserved on the nodes (ip_local_reserved_ports).

    ## Reference
    NVIDIA/enroot issue 243 ; https://docs.kernel.org/networking/ip-sysctl.html (ip_local_port_range)
    """
    used: set[Assignment] = {
        found
        for launch in script.started
        for found in in_force(script, launch, _port_names(script, launch), branches=True)
    }
    values = port_values(script)
    for found in used:
        if _is_probed(script, found):
            continue
        low, high = _bounds(found)
        if low <= _LAST and high >= _FIRST:
            better = job_port(found, values)
            value = f"in {low:.0f}-{high:.0f}" if low < high else f"{low:.0f}"
            yield Finding(
                found.span,
                f"{found.name} is {value}; the ephemeral ports are {_FIRST}-{_LAST}",
                f"use a port below {_FIRST}: `{better}`",
                replace_assigned(script, found, better) if found.value.isdigit() or low < high else (),
            )
    for launch in script.started:
        for given in () if "standalone" in launch.options.given else rendezvous(launch, "port"):
            port = port_in(given.value)
            if port and port in given.word.raw and _FIRST <= int(port) <= _LAST:
                yield Finding(
                    given.word.span,
                    f"the port is {port}; the ephemeral ports are {_FIRST}-{_LAST}",
                    f"use a port below {_FIRST}: `{JOB_PORT}`",
                )


def _is_probed(script: Script, found: Assignment) -> bool:
    """Whether a loop draws the port until one is free: another command of the loop uses it."""
    return "loop" in found.place and any(
        "loop" in command.place and any(found.name in word.names for word in command.words)
        for command in script.commands
    )


def _port_names(script: Script, launch: Launch) -> set[str]:
    if "standalone" in launch.options.given:
        return set()
    reads = launch.kind in ("python", "program") and has_ranks(script, launch)
    return port_variables(script, launch) | ({"MASTER_PORT"} if reads else set())


def _bounds(found: Assignment) -> tuple[float, float]:
    drawn = re.search(_DRAWN, found.raw)
    if drawn and "comm" not in found.within:
        return int(drawn[1]), int(drawn[2])
    low, high = found.range
    if low >= 0 and high <= 10**9:
        return low, high
    port = float(port_in(found.value) or default_port_in(found.raw) or 0)
    return port, port


@rule("SG305", "warning")
def fixed_rendezvous_id(script: Script) -> Iterator[Finding]:
    """Every job uses the same rendezvous ID.

    ## What it checks
    Checks for torchrun with a dynamic rendezvous, such as c10d or etcd, a constant `--rdzv-id` and an
    endpoint with a fixed port. Jobs that have whole nodes are not reported: no other job can reach their
    endpoint by accident.

    ## Why it matters
    Two jobs, or a job and the remains of an earlier one, join each other's rendezvous.

    ## Example
        srun torchrun --rdzv_backend=c10d --rdzv_id=101 ... train.py

    ## Use instead
        srun torchrun --rdzv_backend=c10d --rdzv_id="$SLURM_JOB_ID" ... train.py

    ## When to ignore
    If the address of the rendezvous differs from job to job.

    ## Reference
    NVIDIA-NeMo/Run pull request 143 ; https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    if takes_whole_nodes(script):
        return
    for launch in rank_launchers(script):
        given = launch.options.given.get("rdzv-id")
        has_fixed_port = any(port_in(found.value) for found in rendezvous(launch, "port"))
        if given and has_fixed_port and _is_constant(launch):
            yield Finding(
                launch.span,
                f"the rendezvous ID is {given.value!r} in every job",
                'write `--rdzv-id="$SLURM_JOB_ID"`',
                replace_value(script, given, '"$SLURM_JOB_ID"'),
            )


def _is_constant(launch: Launch) -> bool:
    """Whether torchrun uses the ID, and it is the same in every job."""
    given, value = launch.options.given["rdzv-id"], launch.options.text("rdzv-id")
    is_used = launch.options.text("rdzv-backend") not in (None, "static")
    return is_used and value is not None and "$" not in value and not given.word.names
