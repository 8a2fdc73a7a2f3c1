"""DeepSpeed under torchrun, with the configuration file of `--launcher-config`."""

import argparse
import os

import deepspeed
import torch
import torch.distributed as dist


def main() -> None:
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())  # --deepspeed --deepspeed_config FILE
    args = parser.parse_args()

    gpu = torch.cuda.is_available()
    deepspeed.init_distributed("nccl" if gpu else "gloo")  # reads the variables of torchrun
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.Linear(64, 10)
    engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} batch {engine.train_batch_size()}", flush=True)

    for _ in range(4):
        points = torch.randn(engine.train_micro_batch_size_per_gpu(), 64, device=engine.device)
        loss = torch.nn.functional.cross_entropy(engine(points), points[:, :10].argmax(dim=1))
        engine.backward(loss)
        engine.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
