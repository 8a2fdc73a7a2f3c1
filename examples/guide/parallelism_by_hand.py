"""Data, tensor and pipeline parallelism by hand: one network, two ranks, equal losses.

torchrun --standalone --nproc-per-node=2 parallelism_by_hand.py
"""

import os

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss, relu


def network():
    """Two layers, the same on every rank."""
    torch.manual_seed(0)
    return torch.randn(8, 16, requires_grad=True), torch.randn(16, 4, requires_grad=True)


def one_process(x, y, first, second):
    """The reference."""
    return mse_loss(relu(x @ first) @ second, y)


def data_parallel(x, y, first, second):
    """Splits the batch. Communicates gradients (in training) and here, to report it, the loss."""
    part = slice(dist.get_rank() * len(x) // 2, (dist.get_rank() + 1) * len(x) // 2)
    loss = one_process(x[part], y[part], first, second).detach()
    dist.all_reduce(loss)
    return loss / 2


def tensor_parallel(x, y, first, second):
    """Splits each matrix: `first` by columns, `second` by rows. Communicates activations in each layer."""
    part = slice(dist.get_rank() * 8, (dist.get_rank() + 1) * 8)
    partial = (relu(x @ first[:, part]) @ second[part]).detach()  # half of the sum over the 16 hidden units
    dist.all_reduce(partial)
    return mse_loss(partial, y)


def pipeline_parallel(x, y, first, second):
    """Splits the layers: rank 0 has `first`, rank 1 has `second`. Communicates activations at the cut.

    Without micro-batches one rank is idle while the other computes; with them, both compute most of the time.
    """
    losses = []
    for micro_x, micro_y in zip(x.chunk(4), y.chunk(4), strict=True):
        if dist.get_rank() == 0:
            dist.send(relu(micro_x @ first).detach(), dst=1)
        else:
            hidden = torch.empty(len(micro_x), 16, device=x.device)
            dist.recv(hidden, src=0)
            losses.append(mse_loss(hidden @ second, micro_y).detach())
    loss = torch.stack(losses).mean() if losses else torch.zeros((), device=x.device)
    dist.broadcast(loss, src=1)
    return loss


def main():
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if dist.get_world_size() != 2:
        raise SystemExit("error: this script needs exactly two ranks. Start it with --nproc-per-node=2")

    first, second = (weights.to(device) for weights in network())
    torch.manual_seed(1)
    x, y = torch.randn(32, 8).to(device), torch.randn(32, 4).to(device)
    for kind in (one_process, data_parallel, tensor_parallel, pipeline_parallel):
        loss = kind(x, y, first, second).item()
        if dist.get_rank() == 0:
            print(f"{kind.__name__:<18} loss {loss:.4f}")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
