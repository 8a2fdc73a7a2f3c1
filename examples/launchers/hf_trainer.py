"""Hugging Face's Trainer under torchrun, which saves and stops on SIGTERM and continues when it starts again."""

import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint


class StopTogether(TrainerCallback):
    """SIGTERM on any rank stops all ranks after the same step, with a checkpoint."""

    def __init__(self) -> None:
        self.asked = 0.0
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_: object) -> None:
        self.asked = 1.0

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        asked = torch.tensor(self.asked, device=args.device)
        if args.world_size > 1:
            dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        if asked:
            control.should_save = control.should_training_stop = True


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}


def main() -> None:
    args = TrainingArguments(
        output_dir="runs/hf-trainer", max_steps=400, save_strategy="no", report_to="none", disable_tqdm=True
    )
    print(f"rank {args.process_index} of {args.world_size}", flush=True)
    set_seed(0)
    data = [{"x": torch.randn(8), "labels": i % 2} for i in range(256)]
    trainer = Trainer(model=Net(), args=args, train_dataset=data, callbacks=[StopTogether()])
    last = get_last_checkpoint(args.output_dir) if Path(args.output_dir).is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    print(
        f"rank {args.process_index} ended at step {trainer.state.global_step} of {args.max_steps}", flush=True
    )
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
