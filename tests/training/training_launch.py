"""Starts the bundled training: on ranks without a launcher, or with the launchers that users have."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import ranks as programs
from tests.support.ports import free_port
from tests.support.ranks import GRACE, Ended, launched

HERE = Path(__file__).parent
TRAINING = HERE.parents[1] / "training"


class Run(Ended):
    """The end of a training."""

    @property
    def starts(self) -> list[str]:
        """The `rank 0/2` of every rank that reported its start."""
        return sorted(re.findall(r"^(rank \d+/\d+) local_rank \d+ host \S+ device cpu$", self.out, re.M))

    @property
    def ends(self) -> dict[str, tuple[str, str]]:
        """The final loss and the hash of the weights by `rank 0/2`; checks that no rank prints them twice."""
        lines = re.findall(r"^(rank \d+/\d+) final_loss (\d+\.\d{6}) params ([0-9a-f]{8})$", self.out, re.M)
        assert len({rank for rank, *_ in lines}) == len(lines)
        return {rank: (loss, params) for rank, loss, params in lines}

    @property
    def done(self) -> tuple[float, int]:
        """The accuracy and the number of test images that rank 0 printed last."""
        (line,) = re.findall(r"^done: accuracy ([\d.]+),.* (\d+) test images,", self.out, re.M)
        return float(line[0]), int(line[1])

    @property
    def errors(self) -> list[str]:
        """The lines of stderr that begin with `error:`."""
        return [line for line in self.err.splitlines() if line.startswith("error:")]


class Started(programs.Started):
    """A training that may still go on."""

    def ended(self, grace: float = GRACE) -> Run:
        """Wait until all ranks have ended."""
        return Run(**vars(super().ended(grace)))


def script_of(framework: str) -> str:
    """The script of a framework; `python` is train_ddp.py without a launcher."""
    return f"train_{'ddp' if framework == 'python' else framework}"


@dataclass(frozen=True)
class Ranks:
    """Runs a training script on some ranks, without a launcher; `data_dir` is its folder for data."""

    data_dir: Path

    def __call__(
        self, framework: str, *flags: str, ranks: int = 2, folder: Path = TRAINING, **more: str
    ) -> Run:
        """Train with the script of `framework` in `folder`."""
        return self.start(framework, *flags, ranks=ranks, folder=folder, **more).ended()

    def start(
        self, framework: str, *flags: str, ranks: int = 2, folder: Path = TRAINING, **more: str
    ) -> Started:
        """The same, without waiting for the end."""
        environments = [{}] if framework == "python" else launched(ranks)
        return self.begin(
            folder / f"{script_of(framework)}.py", flags, [environ | more for environ in environments]
        )

    def run(self, script: str, flags: Sequence[str], environments: list[dict[str, str]]) -> Run:
        """Run a module of the training, or of these tests, once in each of the environments."""
        (path,) = (path for path in (TRAINING / f"{script}.py", HERE / f"{script}.py") if path.exists())
        return self.begin(path, flags, environments).ended()

    def begin(self, script: Path, flags: Sequence[str], environments: list[dict[str, str]]) -> Started:
        argv = [sys.executable, script, "--data-dir", self.data_dir, *flags]
        modules = {"PYTHONPATH": str(TRAINING)} if script.parent == HERE else {}
        commands = [(argv, environ | modules) for environ in environments]
        return Started(**vars(programs.start(commands, self.data_dir.parent)))


@dataclass(frozen=True)
class Launcher:
    """Trains with each launcher; `data_dir` is shared by all runs. Variables are given as keywords."""

    data_dir: Path

    def __call__(self, framework: str, *flags: str, cold: bool = False, **more: str) -> Run:
        """Train on two ranks; `lightning` has srun's variables. `cold` starts Python itself each time."""
        argv = [TRAINING / f"{script_of(framework)}.py", "--data-dir", self.data_dir, *flags]
        environments = srun_environments(2) if framework == "lightning" else [{}]
        command = [sys.executable, *launchers().get(framework, ()), *argv]
        return run_together(
            [(command, environ | more) for environ in environments], self.data_dir.parent, cold
        )


def launchers() -> dict[str, list[str]]:
    """The module, and its options, that starts two ranks of a script."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    where = ["--main_process_ip=127.0.0.1", f"--main_process_port={free_port()}", "--machine_rank=0"]
    shape = ["--multi_gpu", "--num_machines=1", "--num_processes=2"]
    plain = ["--mixed_precision=no", "--dynamo_backend=no"]
    accelerate = ["-m", "accelerate.commands.launch", *shape, *where, *plain]
    return {"ddp": torchrun, "fsdp": torchrun, "accelerate": accelerate}


def srun_environments(ranks: int) -> list[dict[str, str]]:
    """The variables that srun sets for each of `ranks` tasks on one node. The job decides the port."""
    step = {
        "SLURM_JOB_ID": str(free_port() - 20000),  # MASTER_PORT is 20000 + the job's number, modulo 12000
        "SLURM_JOB_NAME": "training",
        "SLURM_NTASKS": str(ranks),
        "SLURM_STEP_NUM_TASKS": str(ranks),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NODEID": "0",
    }
    return [{**step, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(ranks)]


def run_together(
    commands: list[tuple[Sequence[str | Path], dict[str, str]]], folder: Path, cold: bool = False
) -> Run:
    """Run the commands in parallel until they end, each with its own variables."""
    return Run(**vars(programs.start(commands, folder, cold).ended()))
