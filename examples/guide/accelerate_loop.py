"""Accelerate: one loop for any number of processes, with accumulation, exact metrics and a checkpoint."""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset


def dataset(size: int, seed: int) -> TensorDataset:
    """Points in 16 dimensions, labelled by the sign of their sum. Replace this with your data."""
    points = torch.randn(size, 16, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(points, (points.sum(dim=1) > 0).long())


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


def evaluate(accelerator: Accelerator, model: torch.nn.Module, loader: DataLoader) -> tuple[int, int]:
    """The right answers and the samples of all ranks, without those that fill the last batch."""
    model.eval()
    right = count = 0
    for points, labels in loader:
        with torch.inference_mode():
            answers = model(points).argmax(dim=1)
        answers, labels = accelerator.gather_for_metrics((answers, labels))
        right += int((answers == labels).sum())
        count += len(labels)
    model.train()
    return right, count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16, help="of one process and one backward pass")
    parser.add_argument("--accumulate", type=int, default=2, help="backward passes for each step")
    parser.add_argument("--run-dir", type=Path, default=Path("runs/accelerate"))
    parser.add_argument("--cpu", action="store_true", help="gloo on CPUs, for a test without GPUs")
    args = parser.parse_args()

    # No device, rank or precision here: `accelerate launch` sets them.
    accelerator = Accelerator(
        cpu=args.cpu,
        gradient_accumulation_steps=args.accumulate,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),  # order = f(seed, epoch)
    )
    set_seed(0)
    rank = f"rank {accelerator.process_index}"
    print(f"{rank} of {accelerator.num_processes}: {accelerator.mixed_precision}", flush=True)

    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train = DataLoader(dataset(512, 0), batch_size=args.batch_size, shuffle=True)
    test = DataLoader(dataset(101, 1), batch_size=args.batch_size)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)

    finished = newest(args.run_dir)
    if finished:  # model, optimizer and random states, on each rank
        accelerator.load_state(str(args.run_dir / f"epoch-{finished}"))
    for epoch in range(finished, args.epochs):
        train.set_epoch(epoch)
        for points, labels in train:
            with accelerator.accumulate(model):  # no synchronization, no step until the last of the passes
                loss = torch.nn.functional.cross_entropy(model(points), labels)
                accelerator.backward(loss)  # divides by the number of passes; scales in fp16
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        right, count = evaluate(accelerator, model, test)
        if accelerator.is_main_process:
            print(f"epoch {epoch} accuracy {right}/{count}", flush=True)
        save(accelerator, args.run_dir, epoch + 1)
    accelerator.end_training()


def newest(run_dir: Path) -> int:
    """The number of epochs in the newest complete checkpoint; 0 if there is none."""
    return max((int(path.name[6:]) for path in run_dir.glob("epoch-*") if path.suffix != ".new"), default=0)


def save(accelerator: Accelerator, run_dir: Path, epochs: int) -> None:
    """Rename the folder when it is complete: a killed run leaves no half checkpoint."""
    new = run_dir / f"epoch-{epochs}.new"
    accelerator.save_state(str(new))  # all ranks must call it
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        new.rename(new.with_suffix(""))


if __name__ == "__main__":
    main()
