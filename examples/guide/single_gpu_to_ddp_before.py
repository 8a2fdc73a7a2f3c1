"""Train a classifier on one GPU. `single_gpu_to_ddp.py` does the same on several.

python single_gpu_to_ddp_before.py
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, LR = 5, 64, 0.1


def points(samples=2048):
    """Points in the plane; the class is the quadrant."""
    x = torch.randn(samples, 2, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long())


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)

    dataset = points()
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
    for epoch in range(EPOCHS):
        correct = torch.zeros((), device=device)
        for x, label in loader:
            x, label = x.to(device), label.to(device)
            output = model(x)
            optimizer.zero_grad()
            cross_entropy(output, label).backward()
            optimizer.step()
            correct += (output.argmax(dim=1) == label).sum()
        print(f"epoch {epoch}: accuracy {correct.item() / len(dataset):.3f}", flush=True)
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
