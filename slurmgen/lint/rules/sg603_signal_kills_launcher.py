"""The signal kills the launcher before the ranks can save.

## What it finds
`--signal` without `B:` in a job whose step is torchrun or accelerate, which neither ignores the signal nor
passes it on.

## Why it is bad
Slurm sends it to every process of the step. The launcher has no handler for it and dies, and its ranks are
killed with it.

## Example
    #SBATCH --signal=USR2@120
    srun torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    #SBATCH --signal=USR2@120
    srun bash -c 'trap "" USR2; exec torchrun --standalone --nproc-per-node=4 train.py'

The ranks install a handler of their own; one that is ignored stays ignored only until then.

## Reference
pytorch/pytorch issue 154849 and pull request 160690
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.rules.common import rank_launchers
from slurmgen.lint.rules.signals import requested_signal, traps

CODE = "SG603"
SEVERITY = "error"
SUMMARY = "the signal kills the launcher"

_FORWARDED = ("TERM", "INT", "HUP", "QUIT")
_HARMLESS = ("CONT", "CHLD", "URG", "WINCH")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at the launchers of steps."""
    asked = requested_signal(script)
    if asked is None or asked.to_batch_shell or asked.name in _FORWARDED + _HARMLESS:
        return
    for launch in rank_launchers(script):
        if launch.step and not _survives(launch, asked.name):
            yield Finding(
                launch.span,
                f"{asked.name} reaches {launch.kind} too, which dies of it and takes its ranks along",
                f"""start it as: srun bash -c 'trap "" {asked.name}; exec {launch.kind} ...'""",
            )


def _survives(launch: Launch, signal: str) -> bool:
    before = [command for layer in launch.layers for command in layer.before]
    told = launch.options.given.get("signals-to-handle")
    passed_on = launch.env.get("TORCHELASTIC_SIGNALS_TO_HANDLE", told.value if told else "")
    return bool(traps(before, signal)) or signal in passed_on or launch.options.open
