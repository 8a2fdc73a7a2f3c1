"""Each rank finds its place under every launcher, and refuses to run without one."""

import re
import shlex
import sys

from tests.support.fork_server import warm
from tests.support.ports import free_port
from tests.support.ranks import Ended
from tests.support.twins import twin

from .running import GUIDE, TWO_BY_TWO, python, ranks_of, run, torchrun


def test_every_rank_of_torchrun_reports_its_place() -> None:
    lines = ranks_of(torchrun("ranks.py", ranks=3).out)
    assert {rank: line.split(" (")[0] for rank, (line,) in lines.items()} == {
        rank: f"of 3: local rank {rank} on node 0" for rank in range(3)
    }


def test_a_launcher_per_node_numbers_ranks_node_by_node() -> None:
    shape = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2", "--node-rank={}"]
    where = ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    agents = [[sys.executable, *[word.format(node) for word in shape + where]] for node in range(2)]
    script = str(GUIDE / "ranks.py")
    out = run_both([[*agent, script] for agent in agents])
    assert sorted(re.findall(r"^rank (\d) of 4: local rank (\d) on node (\d)", out, re.M)) == TWO_BY_TWO


def run_both(commands: list[list[str]]) -> str:
    """The output of two commands that run at the same time."""
    return run("bash", "-c", f"{' & '.join(map(shlex.join, commands))} & wait").out


def test_a_rank_of_accelerate_reports_its_launcher() -> None:
    port = free_port()
    launch = f"--multi_gpu --num_processes=2 --num_machines=1 --machine_rank=0 --main_process_port={port}"
    plain = "--mixed_precision=no --dynamo_backend=no"
    module = ["-m", "accelerate.commands.launch", *launch.split(), *plain.split()]
    completed = run(sys.executable, *module, GUIDE / "ranks.py")
    assert sorted(re.findall(r"^rank (\d) of 2.*started by (\w+)$", completed.out, re.M)) == [
        ("0", "accelerate"),
        ("1", "accelerate"),
    ]


def assert_refused(completed: Ended, advice: str) -> None:
    assert completed.returncode == 1
    (line,) = completed.err.splitlines()
    assert line.startswith("error: ")
    assert advice in line


def test_a_process_without_a_launcher_refuses_and_names_torchrun() -> None:
    assert_refused(python("ranks.py"), "torchrun --standalone --nproc-per-node=2")


def test_a_batch_script_without_srun_is_refused() -> None:
    """Slurm sets SLURM_PROCID=0 and the number of tasks there too, so only the missing step gives it away."""
    batch = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    assert_refused(python("ranks.py", env=batch), "srun python")


def test_missing_variables_are_named() -> None:
    assert_refused(python("ranks.py", env={"RANK": "0", "WORLD_SIZE": "2"}), "LOCAL_RANK, GROUP_RANK")


def test_tasks_of_a_real_slurm_on_two_nodes_report_their_places() -> None:
    with twin("daic") as testbed:
        log = testbed.batch(
            "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n"
            f"{warm()} {GUIDE / 'ranks.py'}\nsrun {warm()} {GUIDE / 'ranks.py'}\n"
        )
    assert "error: this process is in a Slurm job, but no launcher started it" in log
    assert (
        sorted(re.findall(r"^rank (\d) of 4: local rank (\d) on node (\d) .*by srun$", log, re.M))
        == TWO_BY_TWO
    )
