"""`make test-lowest`: each script ends with the same weights with and without an interruption."""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

TRAINING = Path(__file__).parents[2] / "training"
SHORT = "--task mnist --data synthetic --limit 512 --epochs 3 --batch-size 64 --check-every 5".split()
RUNS = [
    ("train_ddp.py",),
    ("train_fsdp.py",),
    ("train_lightning.py",),
    ("train_lightning.py", "--strategy", "fsdp"),
    ("train_accelerate.py",),
]


def main() -> None:
    """Run all scripts; the first difference ends this."""
    for script, *flags in RUNS:
        with TemporaryDirectory() as folder:
            stopping = [*flags, "--run-dir", folder]
            uncut = weights(train(script, flags, {}))
            assert "not finished: saved a checkpoint" in train(script, stopping, {"SLURM_JOB_END_TIME": "1"})
            assert len(uncut) == 2
            assert weights(train(script, stopping, {})) == uncut
        sys.stdout.write(f"{' '.join([script, *flags])}: {uncut[0]}\n")


def train(script: str, flags: list[str], more: dict[str, str]) -> str:
    """Return the output of two ranks."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    command = [*torchrun, str(TRAINING / script), *SHORT, *flags]
    return subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=False).stdout


def weights(out: str) -> list[str]:
    """Return the final loss and the hash of the weights of each rank."""
    return sorted(re.findall(r"final_loss .*", out))


if __name__ == "__main__":
    main()
