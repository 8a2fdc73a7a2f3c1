"""Tar shards for several ranks and their workers, and a run that continues with the next unread sample."""

import argparse
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

SHARDS, SAMPLES, BATCH, WORKERS = 8, 12, 4, 2


def write_shards(folder: Path) -> None:
    """Write 96 samples in eight files, in the format of WebDataset: one name, an extension for each part."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:06}.tar", "w") as tar:
            for key in range(shard * SAMPLES, (shard + 1) * SAMPLES):
                member = tarfile.TarInfo(f"{key:06}.cls")
                member.size = len(content := str(key).encode())
                tar.addfile(member, io.BytesIO(content))


# [dataset]
class Shards(IterableDataset):
    """Each worker of each rank reads whole shards of its own, from the first sample that is not yet trained on."""

    def __init__(self, folder: Path, rank: int, ranks: int, epoch: int = 0, done: int = 0) -> None:
        self.paths, self.rank, self.ranks = sorted(folder.glob("*.tar")), rank, ranks
        self.epoch, self.done = epoch, done  # `done` batches of this rank in this epoch

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        order = torch.randperm(len(self.paths), generator=torch.Generator().manual_seed(self.epoch))
        ours = order[self.rank * workers + number :: self.ranks * workers]  # equal orders on all ranks
        skip = BATCH * len(range(number, self.done, workers))  # workers give the batches in turn
        for shard in ours:
            with tarfile.open(self.paths[shard]) as tar:
                for member in tar:
                    if skip:
                        skip -= 1
                        continue
                    yield int(tar.extractfile(member).read())


# [/dataset]
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("runs/shards"))
    parser.add_argument("--stop", type=int, help="stop after so many batches, as at a time limit")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    position = args.folder / "position.json"
    if rank == 0 and not args.folder.exists():
        write_shards(args.folder)
    dist.barrier()  # the others wait for the files
    done, before = json.loads(position.read_text()) if position.exists() else (0, [])
    loader = DataLoader(Shards(args.folder, rank, ranks, done=done), BATCH, num_workers=WORKERS)
    read: list[int] = []
    for batch in loader:  # the training step goes here
        read += batch.tolist()
        done += 1
        if done == args.stop:
            break
    print(f"rank {rank} ends after batch {done}: {len(read)} samples, first {read[0]}", flush=True)
    of_all: list[list[int]] = [[] for _ in range(ranks)]
    dist.all_gather_object(of_all, read)
    if rank == 0:
        times = Counter(sum(of_all, before))
        position.write_text(json.dumps([done, list(times.elements())]))  # belongs into the checkpoint
        print(
            f"{len(times)} of {SHARDS * SAMPLES} samples read, {times.total() - len(times)} twice", flush=True
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
