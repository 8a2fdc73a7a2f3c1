"""Train a classifier that brings its loss and its optimizer: the form that Lightning asks for."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(size: int, seed: int) -> TensorDataset:
    """Ten patterns with noise, labelled by pattern. Replace this with your data."""
    patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (size,), generator=rng)
    return TensorDataset(patterns[labels] + 2 * torch.randn(size, 64, generator=rng), labels)


class Classifier(nn.Module):
    """All that the training needs to know of the model."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)]


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    with torch.no_grad():
        hits = torch.cat([model(x.to(device)).argmax(dim=1) == y.to(device) for x, y in loader])
    return hits.sum().item() / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    train, test = make_data(8192, seed=1), make_data(1000, seed=2)
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, args.batch_size)

    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model = Classifier(model).to(device)
    (optimizer,), (scheduler,) = model.configure_optimizers()

    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = model.training_step([x, y])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: accuracy {accuracy:.4f}")
        torch.save(model.layers.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
