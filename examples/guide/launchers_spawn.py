"""One process per GPU, started by the script itself with mp.spawn: one node only.

python launchers_spawn.py --ranks 2
"""

import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def free_port():
    """Another job on the node may use any fixed port, such as 12355."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def train(rank, ranks, port):
    """Runs in a new Python process, which imports this file again. spawn passes the rank first."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=ranks)
    total = torch.ones(1, device=device)
    dist.all_reduce(total)
    print(f"rank {rank} of {ranks}: the sum over all ranks is {total.item():.0f}", flush=True)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count() or 2)
    args = parser.parse_args()
    mp.spawn(train, args=(args.ranks, free_port()), nprocs=args.ranks)


if __name__ == "__main__":
    main()
