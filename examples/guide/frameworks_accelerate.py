"""The training of `single_gpu_to_ddp.py` with Accelerate.

accelerate launch --multi_gpu --num_processes=2 frameworks_accelerate.py
torchrun --standalone --nproc-per-node=2 frameworks_accelerate.py
"""

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, LR = 5, 64, 0.1


def points(samples=2048):
    """Points in the plane; the class is the quadrant."""
    x = torch.randn(samples, 2, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long())


def main():
    # split_batches: BATCH is the global batch size, which the ranks share.
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(), dataloader_config=DataLoaderConfiguration(split_batches=True)
    )
    set_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    loader = DataLoader(points(), batch_size=BATCH, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(EPOCHS):
        correct = torch.zeros((), device=accelerator.device)
        for x, label in loader:
            output = model(x)
            optimizer.zero_grad()
            accelerator.backward(cross_entropy(output, label))
            optimizer.step()
            correct += (output.argmax(dim=1) == label).sum()
        correct = accelerator.reduce(correct, "sum")
        accelerator.print(f"epoch {epoch}: accuracy {correct.item() / len(loader.dataset):.3f}", flush=True)
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
    accelerator.wait_for_everyone()  # no rank leaves while another still communicates
    accelerator.end_training()


if __name__ == "__main__":
    main()
