"""deepspeed: one torchrun per node starts a worker per GPU, without DeepSpeed's own launcher or a hostfile.

`deepspeed.init_distributed()` reads the variables of torchrun. DeepSpeed's launcher connects to the nodes by
SSH, outside the step. `deepspeed.add_config_arguments(parser)` defines both options of the configuration
file.
https://www.deepspeed.ai/getting-started/
"""

from slurmgen.launchers import ddp
from slurmgen.launchers.base import Command, Layout, Options


def command(layout: Layout, options: Options) -> Command:
    """`torchrun ... SCRIPT ... --deepspeed --deepspeed_config FILE`, once per node."""
    config = ("--deepspeed", f"--deepspeed_config={options.config}") if options.config else ()
    return ddp.command(layout, options)._replace(arguments=config)


LAUNCHER = ddp.LAUNCHER._replace(
    name="deepspeed",
    command=command,
    bundled_script=None,
    takes=(*ddp.LAUNCHER.takes, "launcher_config"),
)
