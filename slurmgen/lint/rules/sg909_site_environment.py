"""A variable that the site requires is not set.

## What it checks
With `--site`: checks that a script that starts Python or a launcher sets the environment variables that the
site's profile requires of such a job: always, with several GPUs, with several nodes, or in a container. A
script that sources a file, or loads a module whose name contains "nccl", is not reported: either may set
them.
SG911 reports the variables that the profile only recommends.

## Why it matters
The profile gives the reason for each variable. For example, NCCL may hang between GPUs, or the network may
corrupt data.

## Example
    srun python train.py             # two GPUs on DAIC

## Use instead
    export NCCL_P2P_DISABLE=1
    srun python train.py

## When to ignore
If the environment of the user or a module sets the variables.

## Reference
`slurmgen sites show NAME`
"""

from collections.abc import Callable, Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Launch, Script, Span
from slurmgen.lint.rules.common import loads_module
from slurmgen.lint.rules.place import settings

CODE = "SG909"
SEVERITY = "error"
SUMMARY = "a variable that the site requires is not set"


def check(script: Script, site: Site | None) -> Iterator[Finding]:
    """Report all missing variables that the profile requires as one finding."""
    if site is not None:
        yield from missing_variables(script, site, "requires", lambda name: name in site.env.required)


def missing_variables(
    script: Script, site: Site, verb: str, counts: Callable[[str], bool]
) -> Iterator[Finding]:
    """Report the missing variables of the site's profile that count."""
    if not script.launches or script.shell.sourced or loads_module(script, "nccl"):
        return
    in_steps = (launch for launch in script.launches if launch.under("srun"))
    launch = next(in_steps, script.launches[0])
    missing = {
        name: value
        for name, value in _needed(script, site, launch).items()
        if counts(name) and not _is_set(script, name)
    }
    if missing:
        from slurmgen.slurm.shell import word  # takes 20 ms; not needed without a site

        notes = " ".join(note for name in missing if (note := site.env.notes.get(name)))
        exports = [f"export {name}={word(value)}" for name, value in missing.items()]
        yield Finding(
            launch.span,
            f"{site.name} {verb} {', '.join(missing)}. {notes}".rstrip(". ") + ("." if notes else ""),
            f"add `{'; '.join(exports)}` before this line",
            _before(script, launch, exports),
        )


def _needed(script: Script, site: Site, launch: Launch) -> dict[str, str]:
    found = settings(script, site, launch).env
    return found | (site.env.container if launch.under("apptainer") is not None else {})


def _is_set(script: Script, name: str) -> bool:
    return any(script.sets(prefix + name) for prefix in ("", "APPTAINERENV_", "SINGULARITYENV_"))


def _before(script: Script, launch: Launch, exports: list[str]) -> tuple[Edit, ...]:
    command = launch.command
    at = script.source.line_span(command.span.start).start
    in_front = script.source.plain[at : command.span.start].strip()
    if in_front or {"function", "pipe", "or", "and"} & set(command.place):
        return ()
    return (Edit(Span(at, at), "".join(f"{line}\n" for line in exports)),)
