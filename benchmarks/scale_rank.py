"""One rank of `scale_start.py`: prints when it started, imported torch, met the others and reduced."""

import time

started = time.time()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

imported = time.time()
dist.init_process_group("gloo")
met = time.time()
total = torch.ones(1)
dist.all_reduce(total)
print("rank", started, imported, met, time.time(), int(total.item()), flush=True)
dist.barrier()
time.sleep(
    0.3
)  # gloo's threads must finish before Python does: https://github.com/pytorch/pytorch/pull/179291
dist.destroy_process_group()
