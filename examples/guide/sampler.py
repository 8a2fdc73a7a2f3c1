"""Exercise: which samples does each rank get from DistributedSampler?

python sampler.py                      # one process shows what all ranks get
python sampler.py --samples 12 --ranks 4
"""

import argparse

from torch.utils.data import DistributedSampler


def split(samples, ranks, epoch=None, **options):
    """The indices of each rank; `epoch=None` leaves set_epoch out."""
    parts = []
    for rank in range(ranks):
        sampler = DistributedSampler(range(samples), num_replicas=ranks, rank=rank, **options)
        if epoch is not None:
            sampler.set_epoch(epoch)
        parts.append(list(sampler))
    return parts


def show(title, parts, samples):
    print(title)
    for rank, part in enumerate(parts):
        print(f"  rank {rank}: {part}")
    seen = [index for part in parts for index in part]
    twice = sorted({index for index in seen if seen.count(index) > 1})
    print(f"  twice: {twice or 'none'}, never: {sorted(set(range(samples)) - set(seen)) or 'none'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=4)
    args = parser.parse_args()
    size = (args.samples, args.ranks)

    show("without shuffling", split(*size, shuffle=False), args.samples)
    show("the same with drop_last", split(*size, shuffle=False, drop_last=True), args.samples)
    for epoch in (0, 1):
        show(f"shuffled, epoch {epoch}, with set_epoch", split(*size, epoch=epoch), args.samples)
    same = split(*size) == split(*size, epoch=0)
    print(f"without set_epoch every epoch has the order of epoch 0: {'yes' if same else 'no'}")


if __name__ == "__main__":
    main()
