"""Reads samples from tar shards on the node's own disk: `torchrun --standalone --nproc-per-node=2 data_loading_shards.py`.

It packs the samples first; do that once, on the login node or in a job of its own.
"""

import io
import os
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

SAMPLES, SHARDS, WORKERS = 96, 4, 2


# start-pack
def pack(folder: Path, samples: list[bytes]) -> None:
    """Write the samples to tar files: a few large files instead of many small ones."""
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:05}.tar", "w") as tar:
            for number in range(shard, len(samples), SHARDS):
                member = tarfile.TarInfo(f"{number:08}.bin")
                member.size = len(samples[number])
                tar.addfile(member, io.BytesIO(samples[number]))


def copy_to_node(shared: Path, local: Path) -> None:
    """Copy the shards to the node's disk, once on each node; the other ranks wait."""
    if int(os.environ["LOCAL_RANK"]) == 0:
        shutil.copytree(shared, local, dirs_exist_ok=True)
    dist.barrier()


# end-pack
# start-read
class Shards(IterableDataset):
    """The samples of this rank and this worker, read in sequence."""

    def __init__(self, folder: Path, seed: int = 0):
        self.paths = sorted(folder.glob("*.tar"))
        self.seed = seed
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()  # workers have no process group

    def __iter__(self) -> Iterator[bytes]:
        worker = get_worker_info()
        part, parts = (worker.id, worker.num_workers) if worker else (0, 1)
        parts, part = parts * self.ranks, self.rank * parts + part
        if len(self.paths) % parts:
            raise ValueError(f"{len(self.paths)} shards cannot be divided evenly among {parts} readers")
        generator = torch.Generator().manual_seed(self.seed)  # the same order for all readers
        order = torch.randperm(len(self.paths), generator=generator).tolist()
        for index in order[part::parts]:
            with tarfile.open(self.paths[index], "r|") as tar:  # "|": no seeking, one sequential read
                for member in tar:
                    yield tar.extractfile(member).read()


# end-read
def numbers_of_rank(folder: Path, epoch: int) -> list[int]:
    # A new data set for each epoch: persistent workers would keep a copy of the old one.
    loader = DataLoader(Shards(folder, seed=epoch), batch_size=8, num_workers=WORKERS, collate_fn=list)
    return [int.from_bytes(sample) for batch in loader for sample in batch]


def check(folder: Path, epoch: int) -> None:
    """Print how often each sample was read by all ranks together."""
    mine = numbers_of_rank(folder, epoch)
    print(f"rank {dist.get_rank()} epoch {epoch}: {len(mine)} samples, first {mine[0]}", flush=True)
    read: list[list[int]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(read, mine)
    times = Counter(Counter(number for part in read for number in part).values())
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {times[1]} samples once, {SAMPLES - times[1]} not", flush=True)


def main() -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    with tempfile.TemporaryDirectory() as shared:
        folder = [shared]
        dist.broadcast_object_list(folder)  # rank 0's folder stands for the parallel file system
        if dist.get_rank() == 0:
            pack(Path(folder[0]), [number.to_bytes(4) for number in range(SAMPLES)])
        dist.barrier()
        local = Path(
            tempfile.gettempdir(), f"shards-{os.environ['TORCHELASTIC_RUN_ID']}"
        )  # TMPDIR, else /tmp
        copy_to_node(Path(folder[0]), local)
        for epoch in range(2):
            check(local, epoch)
        dist.barrier()
        if int(os.environ["LOCAL_RANK"]) == 0:
            shutil.rmtree(local)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
