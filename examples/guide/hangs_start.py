"""Connect the ranks, or say within --timeout seconds why that is not possible.

RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=20001 python hangs_start.py --timeout 10 &
RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=20002 python hangs_start.py --timeout 10
"""

import argparse
import os
import socket
from datetime import timedelta

import torch
import torch.distributed as dist


def meeting_point() -> str:
    """Where this rank looks for rank 0; compare this line between the ranks."""
    address = os.environ["MASTER_ADDR"]
    try:
        ip = socket.getaddrinfo(address, None)[0][4][0]
    except socket.gaierror as error:
        ip = f"not resolvable: {error.strerror}"
    return f"{address}:{os.environ['MASTER_PORT']} ({ip})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for the other ranks")
    options = parser.parse_args()
    rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    print(f"rank {rank} of {world_size} on {socket.gethostname()} meets at {meeting_point()}", flush=True)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group(backend, timeout=timedelta(seconds=options.timeout))
    print(f"rank {rank} is connected to {dist.get_world_size()} ranks", flush=True)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
