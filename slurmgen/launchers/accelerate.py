"""accelerate: one `accelerate launch` per node starts a process per GPU.

Without --multi_gpu the launcher ignores --num_processes on a machine without GPUs and warns
on others; without a port of its own, two jobs on one node both use 29500
(huggingface/accelerate issues 3312, 3229).
"""

from slurmgen.launchers.base import Command, Launcher, Layout, Options, several_ranks

_KINDS = {"--use_fsdp", "--use_deepspeed", "--use_megatron_lm", "--use_parallelism_config"}
"Other kinds of distribution than --multi_gpu; a configuration file names one too."


def command(layout: Layout, options: Options) -> Command:
    """`accelerate launch ... SCRIPT`, once per node."""
    head = ("accelerate", "launch", f"--num_machines={layout.nodes}", f"--num_processes={layout.gpus}")
    settings = _settings(options)
    if not several_ranks(layout):
        return Command((*head, *settings, *options.further))
    tail = (*settings, *options.labels, *options.further)
    meeting = (
        *(() if options.config or _KINDS & set(options.further) else ("--multi_gpu",)),  # one kind at most
        '--machine_rank="$SLURM_NODEID"',
        '--main_process_ip="$MASTER_ADDR"',
        '--main_process_port="$MASTER_PORT"',
    )
    return Command((*head, *meeting, *tail), expands_in_task=True)


def _settings(options: Options) -> tuple[str, ...]:
    if options.config is None:
        return (f"--mixed_precision={options.mixed_precision or 'no'}", "--dynamo_backend=no")
    precision = (f"--mixed_precision={options.mixed_precision}",) if options.mixed_precision else ()
    return (f"--config_file={options.config}", *precision)


LAUNCHER = Launcher(
    name="accelerate",
    shape="rank-per-gpu",
    why="each `accelerate launch` starts one process per GPU",
    command=command,
    meets=several_ranks,
    bundled_script="training/train_accelerate.py",
    takes=("mixed_precision", "launcher_args", "launcher_config"),
    reserved=("--config-file", "--cpu", "--num-machines", "--num-processes", "--machine-rank"),
    program=("--no_python",),
    labels="torchrun",
    sets=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
)
