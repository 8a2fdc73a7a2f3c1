"""A variable that the site needs is not set.

## What it finds
With a site: a job of several GPUs or nodes that starts ranks and does not set what the site's profile sets
for them. A sourced file, or a module for NCCL, may set it and passes.

## Why it is bad
The profile says why for each: NCCL hangs between GPUs, or a network corrupts what it carries.

## Example
    srun python train.py             # two GPUs on DAIC

## Use instead
    export NCCL_P2P_DISABLE=1
    srun python train.py

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Launch, Script, Span
from slurmgen.lint.rules.common import loads_module

CODE = "SG909"
SEVERITY = "error"
SUMMARY = "a variable that the site needs is not set"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Look for each variable of the profile, once for the script."""
    if site is None or not script.launches or script.shell.sourced or loads_module(script, "nccl"):
        return
    launch = script.launches[0]
    missing = {
        name: value for name, value in _needed(script, site, launch).items() if not _is_set(script, name)
    }
    if missing:
        from slurmgen.slurm.shell import word  # takes 20 ms; not needed without a site

        notes = " ".join(note for name in missing if (note := site.env.notes.get(name)))
        exports = [f"export {name}={word(value)}" for name, value in missing.items()]
        yield Finding(
            launch.span,
            f"{site.name} needs {', '.join(missing)} here. {notes}".rstrip(". ") + ("." if notes else ""),
            f"add `{'; '.join(exports)}` before it",
            _before(script, launch, exports),
        )


def _needed(script: Script, site: Site, launch: Launch) -> dict[str, str]:
    gpus, nodes = script.job.gpus or script.job.gpus_per_node or 0, script.job.nodes or 1
    groups = [(True, site.env.always), (gpus > 1, site.env.multi_gpu), (nodes > 1, site.env.multi_node)]
    groups.append((launch.under("apptainer") is not None, site.env.container))
    return {name: value for applies, group in groups if applies for name, value in group.items()}


def _is_set(script: Script, name: str) -> bool:
    return any(script.sets(prefix + name) for prefix in ("", "APPTAINERENV_", "SINGULARITYENV_"))


def _before(script: Script, launch: Launch, exports: list[str]) -> tuple[Edit, ...]:
    command = launch.command
    at = script.source.line_span(command.span.start).start
    in_front = script.source.plain[at : command.span.start].strip()
    if in_front or {"function", "pipe", "or", "and"} & set(command.place):
        return ()
    return (Edit(Span(at, at), "".join(f"{line}\n" for line in exports)),)
