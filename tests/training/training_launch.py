"""Starts the bundled training as users do: in separate processes, on loopback, without a network."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from tests.conftest import THREADS
from tests.support.ports import free_port

TRAINING = Path(__file__).parents[2] / "training"
OUTER = re.compile(
    r"SLURM|SBATCH|SRUN|PMI|TORCH|ACCELERATE|OMP_|MASTER_|PYTHON|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|.*_proxy$",
    re.IGNORECASE,
)
ALONE = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https")}
ALONE |= {"OMP_NUM_THREADS": THREADS}
TIMEOUT = 600  # seconds; a machine may be busy


@dataclass(frozen=True)
class Run:
    """The exit codes and the output of the processes of one launch."""

    returncodes: list[int]
    out: str
    err: str

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


@dataclass
class Launcher:
    """Trains with each launcher; `data_dir` is shared by all runs. Variables are given as keywords."""

    data_dir: Path
    commands: dict[str, Callable[[int], list[str]]] = field(init=False)

    def __post_init__(self) -> None:
        self.commands = {
            "python": lambda _: [sys.executable],
            "ddp": self._torchrun,
            "fsdp": self._torchrun,
            "accelerate": self._accelerate,
        }

    def __call__(
        self, framework: str, *flags: str, ranks: int = 2, cwd: Path | None = None, **more: str
    ) -> Run:
        """Train; `python` is train_ddp.py without a launcher, and `lightning` has srun's variables."""
        script = TRAINING / f"train_{'ddp' if framework == 'python' else framework}.py"
        argv = [str(script), "--data-dir", str(self.data_dir), *flags]
        if framework == "lightning":
            commands = [([sys.executable, *argv], environ | more) for environ in srun_environments(ranks)]
        else:
            commands = [(self.commands[framework](ranks) + argv, more)]
        return run_together(commands, [cwd or self.data_dir.parent] * len(commands))

    def _torchrun(self, ranks: int) -> list[str]:
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]

    def _accelerate(self, ranks: int) -> list[str]:
        where = ["--main_process_ip=127.0.0.1", f"--main_process_port={free_port()}", "--machine_rank=0"]
        shape = ["--multi_gpu", "--num_machines=1", f"--num_processes={ranks}"]
        plain = ["--mixed_precision=no", "--dynamo_backend=no"]
        return [sys.executable, "-m", "accelerate.commands.launch", *shape, *where, *plain]


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


def run_together(commands: list[tuple[list[str], dict[str, str]]], folders: list[Path]) -> Run:
    """Run the commands in parallel until they end, each with its own variables and folder."""
    clean = {name: value for name, value in os.environ.items() if not OUTER.match(name)} | ALONE
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        processes = [
            subprocess.Popen(
                argv,
                env=clean | env,
                cwd=folder,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
            for (argv, env), folder in zip(commands, folders, strict=True)
        ]
        with ended(processes):
            returncodes = [process.wait(TIMEOUT) for process in processes]
        out.seek(0)
        err.seek(0)
        return Run(returncodes, out.read(), err.read())


@contextmanager
def ended(processes: list["subprocess.Popen[bytes]"]) -> Iterator[None]:
    """End `processes` and their children."""
    try:
        yield
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
