"""accelerate is asked for several processes, but not for several GPUs.

## What it finds
`accelerate launch` with more than one process and none of `--multi_gpu`, `--use_deepspeed`, `--use_fsdp`,
`--cpu` or a configuration file.

## Why it is bad
accelerate then guesses from the machine it runs on: where it finds no GPU it starts one process and ignores
the number, and a configuration file of yours that nobody else has decides the rest.

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
from slurmgen.lint.rules.common import insert, starters

CODE = "SG208"
SEVERITY = "error"
SUMMARY = "accelerate gets several processes without --multi_gpu"

_KINDS = ("multi-gpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "use-parallelism-config", "cpu", "tpu")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look for the kinds of run that accelerate knows."""
    for launch in starters(script):
        number = launch.options.given.get("num-processes")
        one = launch.options.number("num-processes") == 1
        if (
            launch.kind == "accelerate"
            and number
            and not one
            and launch.options.lacks(*_KINDS, "config-file")
        ):
            yield Finding(
                launch.span,
                "accelerate is not told what kind of run this is, and guesses",
                "add `--multi_gpu`",
                insert(script, launch.word, launch.options_at, " --multi_gpu"),
            )
