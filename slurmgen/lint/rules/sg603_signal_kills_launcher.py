"""The requested signal kills the launcher before the ranks can save.

## What it checks
Checks for `--signal` without `B:` in a job whose step runs torchrun, accelerate or deepspeed, if the launcher
neither ignores the signal nor forwards it to its ranks.

## Why it matters
Slurm sends the signal to every process of the step. The launcher does not handle it and is killed, and its
ranks are killed with it.

## Example
    #SBATCH --signal=USR2@120
    srun torchrun --standalone --nproc-per-node=4 train.py

## Use instead
    #SBATCH --signal=USR2@120
    srun bash -c 'trap "" USR2; exec torchrun --standalone --nproc-per-node=4 train.py'

The ranks inherit the ignored signal, and must install their own handler for it.

## When to ignore
If the version of the launcher forwards the signal.

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
    """Check the launchers that run in a step."""
    request = requested_signal(script)
    if request is None or request.to_batch_shell or request.name in _FORWARDED + _HARMLESS:
        return
    for launch in rank_launchers(script):
        if launch.step and not _survives(launch, request.name):
            yield Finding(
                launch.span,
                f"{request.name} kills {launch.kind}, and its ranks with it",
                f"""start it with `srun bash -c 'trap "" {request.name}; exec {launch.kind} ...'`""",
            )


def _survives(launch: Launch, signal: str) -> bool:
    before = [command for layer in launch.layers for command in layer.before]
    given = launch.options.given.get("signals-to-handle")
    forwarded = launch.env.get("TORCHELASTIC_SIGNALS_TO_HANDLE", given.value if given else "")
    return bool(traps(before, signal)) or signal in forwarded or launch.options.open
