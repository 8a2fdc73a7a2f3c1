"""DeepSpeed: ZeRO shards the optimizer state (stage 1), the gradients too (2), and the parameters too (3)."""

import argparse
import os
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist

CONFIG = {
    # Two of the three batch numbers; DeepSpeed computes train_batch_size and refuses numbers that do not fit.
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "bf16": {"enabled": torch.cuda.is_available()},
}


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=int, choices=range(4), default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--run-dir", type=Path, default=Path("runs/deepspeed"))
    args = parser.parse_args()

    gpu = torch.cuda.is_available()
    deepspeed.init_distributed("nccl" if gpu else "gloo")  # reads what torchrun set; no hostfile
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    torch.manual_seed(0)
    config = CONFIG | {"zero_optimization": {"stage": args.stage}}
    if not gpu:
        config["optimizer"]["params"]["torch_adam"] = True  # the fused CPU optimizer needs a compiler
    model = network()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    engine.load_checkpoint(str(args.run_dir))  # warns and starts anew if there is none
    micro, accumulate = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    print(
        f"rank {rank} batch {engine.train_batch_size()} = {micro} * {accumulate} * {world_size}", flush=True
    )

    data = torch.Generator().manual_seed(rank)  # other samples on each rank
    while engine.global_steps < args.steps:
        points = torch.randn(micro, 64, generator=data).to(engine.device)
        labels = points[:, :10].argmax(dim=1)
        dtype = next(engine.module.parameters()).dtype
        loss = torch.nn.functional.cross_entropy(engine(points.to(dtype)).float(), labels)
        engine.backward(loss)  # not loss.backward(): the engine divides, scales and reduces
        engine.step()  # after each backward pass; it steps at the end of an accumulation, clips and clears
    print(f"rank {rank} step {engine.global_steps} loss {loss.item():.4f}", flush=True)
    engine.save_checkpoint(str(args.run_dir))  # on all ranks: each writes its part
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
