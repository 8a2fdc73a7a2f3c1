"""A stand-in for an evaluation script."""

import torch

print(f"evaluating on {torch.cuda.get_device_name() if torch.cuda.is_available() else 'the CPU'}")
