"""accelerate is given several processes, but no kind of distributed training.

## What it checks
Checks for `accelerate launch` with more than one process and without `--multi_gpu`, `--use_deepspeed`,
`--use_fsdp`, `--cpu`, a similar option or a configuration file.

## Why it matters
accelerate then chooses the kind from the machine that it runs on. Without a GPU it starts one process and
ignores the number. A default configuration file in the home directory can change the result from user to
user.

## Example
    accelerate launch --num_processes=4 train.py

## Use instead
    accelerate launch --multi_gpu --num_processes=4 train.py

## Reference
huggingface/accelerate pull requests 2096 and 3229
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import insert, rank_launchers

CODE = "SG208"
SEVERITY = "error"
SUMMARY = "accelerate has several processes, but no --multi_gpu"

_KINDS = ("multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "use-parallelism-config", "cpu", "tpu")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check for an option that selects the kind of distributed training."""
    for launch in rank_launchers(script):
        processes = launch.options.given.get("num-processes")
        one = launch.options.number("num-processes") == 1
        if (
            launch.kind == "accelerate"
            and processes
            and not one
            and launch.options.lacks(*_KINDS, "config-file")
        ):
            yield Finding(
                launch.span,
                "accelerate has no option for the kind of distributed training, and guesses",
                "add `--multi_gpu`",
                insert(script, launch.word, launch.options_at, " --multi_gpu"),
            )
