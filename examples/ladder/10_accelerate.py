"""Train a classifier with Accelerate: accelerate launch --multi_gpu --num_processes=2 10_accelerate.py."""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(size: int, seed: int) -> TensorDataset:
    """Ten patterns with noise, labelled by pattern. Replace this with your data."""
    patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (size,), generator=rng)
    return TensorDataset(patterns[labels] + 2 * torch.randn(size, 64, generator=rng), labels)


def evaluate(model: nn.Module, loader: DataLoader, accelerator: Accelerator) -> float:
    model.eval()
    with torch.no_grad():
        hits = [accelerator.gather_for_metrics(model(x).argmax(dim=1) == y) for x, y in loader]  # each once
    return torch.cat(hits).sum().item() / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="of all ranks together")
    args = parser.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    batch_size = args.batch_size // accelerator.num_processes
    torch.manual_seed(0)
    train, test = make_data(8192, seed=1), make_data(1000, seed=2)
    loader = DataLoader(train, batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size)

    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    model, optimizer, loader, test_loader = accelerator.prepare(model, optimizer, loader, test_loader)

    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        scheduler.step()
        accuracy = evaluate(model, test_loader, accelerator)
        accelerator.print(f"epoch {epoch}: accuracy {accuracy:.4f}", flush=True)
        accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
    accelerator.wait_for_everyone()  # no rank leaves while another still communicates
    accelerator.end_training()


if __name__ == "__main__":
    main()
