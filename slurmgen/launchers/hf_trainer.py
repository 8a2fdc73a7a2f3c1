"""hf-trainer: one torchrun per node starts a worker per GPU for the Trainer of Hugging Face's transformers.

The Trainer reads the variables of torchrun, and handles SIGTERM where `enable_jit_checkpoint` is set
(transformers 5). A configuration file is one of DeepSpeed, which TrainingArguments reads from `--deepspeed`.
https://huggingface.co/docs/transformers/main_classes/trainer
"""

from slurmgen.launchers import ddp
from slurmgen.launchers.base import Command, Layout, Options


def command(layout: Layout, options: Options) -> Command:
    """`torchrun ... SCRIPT ... --deepspeed FILE`, once per node."""
    config = (f"--deepspeed={options.config}",) if options.config else ()
    return ddp.command(layout, options)._replace(arguments=config)


LAUNCHER = ddp.LAUNCHER._replace(
    name="hf-trainer",
    command=command,
    bundled_script=None,
    requeue_signal="TERM",
    takes=(*ddp.LAUNCHER.takes, "launcher_config"),
)
