"""One process per GPU, started by the script itself with mp.spawn, on any number of nodes."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(local_rank, local_ranks):
    """Runs in a new Python process, which imports this file again. spawn passes the local rank first."""
    rank = int(os.environ["NODE_RANK"]) * local_ranks + local_rank
    ranks = int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    # MASTER_ADDR and MASTER_PORT come from the environment.
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=ranks)
    total = torch.ones(1, device=device)
    dist.all_reduce(total)
    print(f"rank {rank} of {ranks}: the sum over all ranks is {total.item():.0f}", flush=True)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
    mp.spawn(train, args=(local_ranks,), nprocs=local_ranks)
