"""Train on a different number of batches per rank, with DDP's join context.

torchrun --standalone --nproc-per-node=2 uneven_load_join.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument(
    "--stop-early", action="store_true", help="end on all ranks when the first one has no batch left"
)
options = parser.parse_args()
CUDA = torch.cuda.is_available()
LOCAL_RANK = int(os.environ["LOCAL_RANK"])
DEVICE = torch.device("cuda", LOCAL_RANK) if CUDA else torch.device("cpu")
if CUDA:
    torch.cuda.set_device(DEVICE)
dist.init_process_group("nccl" if CUDA else "gloo")
rank = dist.get_rank()

model = DistributedDataParallel(nn.Linear(4, 1, bias=False).to(DEVICE))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.ones(8, 4, device=DEVICE)] * (3 + 2 * rank)  # rank 0 has three batches, rank 1 five
steps = 0
try:
    with Join([model], throw_on_early_termination=options.stop_early):
        for batch in batches:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
            steps += 1
except RuntimeError as error:
    print(f"rank {rank} stops: {error}", flush=True)
weights = [torch.zeros_like(model.module.weight) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.detach())
equal = all(torch.equal(weights[0], other) for other in weights)
print(
    f"rank {rank} made {steps} steps; the weights of all ranks are {'equal' if equal else 'different'}",
    flush=True,
)
dist.barrier()  # no rank leaves while another still communicates
dist.destroy_process_group()
