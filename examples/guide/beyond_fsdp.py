"""One step of a transformer by tensor, context and pipeline parallelism: the loss and gradient of one process."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

VOCABULARY, WIDTH, HEAD, BLOCKS, BATCH, TOKENS = 97, 64, 16, 4, 8, 32
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def gathered(part: Tensor, mesh: DeviceMesh) -> Tensor:
    """The tokens of all ranks; in the backward pass, their gradients are added up."""
    return DTensor.from_local(part, mesh, [Shard(2)]).full_tensor(grad_placements=[Partial()])


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.context: DeviceMesh | None = None  # the ranks that share the tokens

    def attention(self, x: Tensor) -> Tensor:
        # -1 heads: with tensor parallelism, a rank has only some of them.
        q, k, v = (each(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for each in (self.q, self.k, self.v))
        first = 0
        if self.context:  # the queries of our tokens, and the keys and values of all tokens
            first = self.context.get_local_rank() * x.shape[1]
            k, v = (gathered(each, self.context) for each in (k, v))
        keys, queries = (torch.arange(each.shape[2], device=x.device) for each in (k, q))
        earlier = keys <= queries[:, None] + first
        return self.out(scaled_dot_product_attention(q, k, v, earlier).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.up(self.norm2(x)).relu())


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [Block() for _ in range(BLOCKS)]
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *blocks, nn.Linear(WIDTH, VOCABULARY)).to(DEVICE)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(output.flatten(0, 1), target.flatten())


def split_matrices(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """Columns of the first matrix of a pair, rows of the second: one all-reduce after each pair."""
    plan = dict.fromkeys(("q", "k", "v", "up"), ColwiseParallel())
    plan |= dict.fromkeys(("out", "down"), RowwiseParallel())
    for block in model[1:-1]:
        parallelize_module(block, mesh, plan)


# [kinds]
def tensor_parallel(x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor]:
    """Each rank has a part of every matrix, and all samples."""
    split_matrices(model := make_model(), init_device_mesh(DEVICE, (dist.get_world_size(),)))
    loss = loss_of(model(x), y)
    loss.backward()
    return model, loss


def context_parallel(x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor]:
    """Each rank has a part of the tokens of every sample, and all weights."""
    model, mesh = make_model(), init_device_mesh(DEVICE, (dist.get_world_size(),))
    for block in model[1:-1]:
        block.context = mesh
    x, y = (each.chunk(mesh.size(), dim=1)[mesh.get_local_rank()] for each in (x, y))
    loss = loss_of(model(x), y) / mesh.size()
    loss.backward()
    for weight in model.parameters():  # as DDP does
        dist.all_reduce(weight.grad)
    dist.all_reduce(loss := loss.detach())
    return model, loss


def pipeline_parallel(x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor]:
    """Each rank has some of the layers, and sends activations to the next one, a micro-batch at a time."""
    model, rank, stages = make_model(), dist.get_rank(), dist.get_world_size()
    ours = model[rank * len(model) // stages : (rank + 1) * len(model) // stages]
    schedule = ScheduleGPipe(PipelineStage(ours, rank, stages, torch.device(DEVICE)), 4, loss_fn=loss_of)
    losses: list[Tensor] = []
    schedule.step(*[x] * (rank == 0), target=y if rank == stages - 1 else None, losses=losses)
    loss = torch.stack(losses).mean() if losses else torch.zeros((), device=DEVICE)
    dist.all_reduce(loss := loss.detach())  # it is known to the last stage only
    return model, loss


def tensor_and_data_parallel(x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor]:
    """FSDP between the rows of a grid of ranks, tensor parallelism within a row: a node, on a cluster."""
    mesh = init_device_mesh(DEVICE, (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "tensor"))
    split_matrices(model := make_model(), mesh["tensor"])
    fully_shard(model, mesh=mesh["data"])
    part, parts = mesh.get_local_rank("data"), mesh.size(0)
    loss = loss_of(model(x[part::parts]), y[part::parts])
    loss.backward()
    dist.all_reduce(loss := loss.detach() / parts, group=mesh.get_group("data"))
    return model, loss


# [/kinds]
def one_process(x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor]:
    model = make_model()
    loss = loss_of(model(x), y)
    loss.backward()
    return model, loss


def main() -> None:
    dist.init_process_group()
    torch.manual_seed(1)
    text = torch.randint(VOCABULARY, (BATCH, TOKENS + 1)).to(DEVICE)
    for kind in (one_process, tensor_parallel, context_parallel, pipeline_parallel, tensor_and_data_parallel):
        model, loss = kind(text[:, :-1], text[:, 1:])
        gradient = model[0].weight.grad  # of the first layer, so it has passed through all the others
        gradient = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
        if dist.get_rank() == 0:
            print(f"{kind.__name__:25} loss {loss:.5f}, gradient {gradient.norm():.5f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
