"""accelerate runs on several machines with one GPU each, without `--multi_gpu`.

## What it checks
Checks for `accelerate launch` with more than one process on machines with one GPU, without `--multi_gpu`,
`--use_deepspeed`, `--use_fsdp`, `--cpu`, a similar option or a configuration file. With several GPUs in a
machine, accelerate chooses `--multi_gpu` itself.

## Why it matters
accelerate looks at the GPUs of its own machine only. With one GPU it starts one process that is not part of a
group, so every machine trains alone. A default configuration file in the home directory can change this.

## Example
    #SBATCH --nodes=4
    #SBATCH --gpus-per-node=1
    srun accelerate launch --num_machines=4 --num_processes=4 ... train.py

## Use instead
    #SBATCH --nodes=4
    #SBATCH --gpus-per-node=1
    srun accelerate launch --multi_gpu --num_machines=4 --num_processes=4 ... train.py

## When to ignore
If a default configuration file of accelerate selects the kind of training.

## Reference
huggingface/accelerate pull requests 2096 and 3229
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import insert, rank_launchers

CODE = "SG208"
SEVERITY = "error"
SUMMARY = "accelerate has one GPU per machine, but no --multi_gpu"

_KINDS = ("multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "use-parallelism-config", "cpu", "tpu")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check for an option that selects the kind of distributed training."""
    for launch in rank_launchers(script):
        processes = launch.options.given.get("num-processes")
        one = launch.options.number("num-processes") == 1
        shape = script.step(launch)
        if (
            launch.kind == "accelerate"
            and processes
            and not one
            and shape.gpus_per_node == 1
            and shape.nodes != 1
            and launch.options.lacks(*_KINDS, "config-file")
        ):
            yield Finding(
                launch.span,
                "with one GPU per machine and no --multi_gpu, each machine trains alone",
                "add `--multi_gpu`",
                insert(script, launch.word, launch.options_at, " --multi_gpu"),
            )
