"""ddp: one torchrun per node starts a worker per GPU.

On several nodes the static rendezvous puts rank 0 on the first node and numbers nodes
as Slurm does; with c10d rank 0 may land anywhere (pytorch/pytorch issue 137402).
"""

from slurmgen.launchers.base import Command, Launcher, Layout, Options, several_nodes

_MEETING = {
    "static": (
        '--node-rank="$SLURM_NODEID"',
        '--master-addr="$MASTER_ADDR"',
        '--master-port="$MASTER_PORT"',
    ),
    "c10d": (
        "--rdzv-backend=c10d",
        '--rdzv-id="$SLURM_JOB_ID"',
        '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"',
    ),
}


def command(layout: Layout, options: Options) -> Command:
    """`torchrun ... SCRIPT`, once per node."""
    size = (f"--nnodes={layout.nodes}", f"--nproc-per-node={layout.gpus_per_node}")
    torchrun = options.torchrun or ("torchrun",)
    further = (*options.torchrun_options, *options.labels, *options.further)
    if layout.nodes == 1:
        return Command((*torchrun, "--standalone", *size, *further))
    return Command((*torchrun, *size, *_MEETING[options.rendezvous], *further), expands_in_task=True)


RESTART_ENV = {
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": (
        "1",
        "Restarted ranks must not read the addresses of earlier ones.",
    ),
}
"""Seen with PyTorch 2.15: with torchrun's own store, `--max-restarts` ends in a refused connection."""

_RESERVED = tuple(
    "--standalone --nnodes --nproc-per-node --node-rank --master-addr --master-port "
    "--rdzv-backend --rdzv-endpoint --rdzv-id".split()
)
LAUNCHER = Launcher(
    name="ddp",
    shape="rank-per-gpu",
    why="each torchrun starts one worker per GPU",
    command=command,
    meets=several_nodes,
    bundled_script="training/train_ddp.py",
    takes=("rendezvous", "launcher_args"),
    program=("--no-python",),
    labels="torchrun",
    reserved=_RESERVED,
    restart_env=RESTART_ENV,
    sets=("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE"),
)
