"""Ranks use a fixed port.

## What it checks
Checks for a rendezvous port that is a literal number, also as the default in `${MASTER_PORT:-29500}` and as
an argument of the training script, such as `--dist-url tcp://HOST:29500`, and for accelerate or deepspeed
without a port, which use 29500. Jobs that have whole nodes are not reported: those with `--exclusive`,
`--mem=0`, or at least 8 GPUs on a node, and those in a partition that is known to allocate whole nodes.

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

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
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
    rendezvous,
    replace_assigned,
    takes_whole_nodes,
)
from slurmgen.lint.rules.ports import job_port, port_values

CODE = "SG301"
SEVERITY = "warning"
SUMMARY = "a fixed port conflicts with other jobs on the node"

_DEFAULT = {"accelerate": "main-process-port", "deepspeed": "master-port"}
_WHOLE_NODE = 8
"A job with so many GPUs on a node does not share it."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check every rendezvous port, and report each place once."""
    if takes_whole_nodes(script):
        return
    seen, values = set(), port_values(script)
    for launch in script.started:
        for finding in _findings(script, launch, values):
            if finding.span not in seen:
                seen.add(finding.span)
                yield finding


def _findings(script: Script, launch: Launch, values: tuple[str, ...]) -> Iterator[Finding]:
    options = launch.options
    if "standalone" in options.given:
        return
    fixed = list(_assignments(script, launch))
    yield from (_of_assignment(script, found, job_port(found, values)) for found in fixed)
    for found in rendezvous(launch, "port"):
        port = port_in(found.value) or default_port_in(found.word.raw)
        if port and not any(port in assigned.raw for assigned in fixed):
            yield _of_number(found.word.span, port)
    default = _DEFAULT.get(launch.kind)
    if (
        default
        and options.lacks(default, "config-file", "rdzv-endpoint", "rdzv-backend")
        and _is_distributed(script, launch)
    ):
        edits = (
            insert(script, launch.word, launch.options_at, " --main_process_port=0")
            if _on_one_node(launch)
            else ()
        )
        yield Finding(launch.span, f"{launch.kind} uses port 29500 by default", _advice(default), edits)


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


def _on_one_node(launch: Launch) -> bool:
    return launch.kind == "accelerate" and launch.options.lacks("num-machines")


def _assignments(script: Script, launch: Launch) -> Iterator[Assignment]:
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


def _advice(option: str) -> str:
    if option == "main-process-port":
        return f"add `--main_process_port=0` on one node, else `--main_process_port={JOB_PORT}`"
    return f"add `--master_port={JOB_PORT}`"
