"""The same under a launcher, on any number of nodes: the script starts no process and chooses no port.

torchrun --standalone --nproc-per-node=2 launchers.py
srun python launchers.py        # with MASTER_ADDR and MASTER_PORT exported by the batch script
"""

import os

import torch
import torch.distributed as dist

SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_STEP_NUM_TASKS", "LOCAL_RANK": "SLURM_LOCALID"}
"PyTorch reads the names on the left, which torchrun sets. srun sets those on the right."


def main():
    if "RANK" not in os.environ and "SLURM_STEP_ID" in os.environ:
        os.environ |= {name: os.environ[slurm] for name, slurm in SLURM.items()}
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    total = torch.ones(1, device=device)
    dist.all_reduce(total)
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()}: the sum over all ranks is {total.item():.0f}",
        flush=True,
    )
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
