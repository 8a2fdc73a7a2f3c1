"""A running twin, seen by Slurm's commands and by jobs."""

import re
import socket
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen import Request, load_site, render, resolve
from slurmgen.launchers import LAUNCHERS
from slurmgen.plan.model import Plan
from slurmgen.sites.model import Launch
from tests.support.fork_server import warm
from tests.support.programs import write_programs
from tests.support.twins import Testbed, twin

TWO_NODES = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:2 --cpus-per-task=8 --mem=64G --time=5
set -e -o pipefail
"""


def nodes(testbed: Testbed) -> list[str]:
    return sorted(set(testbed.run("sinfo", "-hN", "-o", "%N %T %c %m %G").splitlines()))


def test_nodes_are_idle_and_have_the_sites_size(daic: Testbed) -> None:
    assert nodes(daic) == [f"{name} idle 48 515072 gpu:a40:3" for name in ("127.0.0.1", "127.0.0.2")]
    assert daic.twin.nodes == ("127.0.0.1", "127.0.0.2")


def test_partitions_have_the_sites_limits_and_cpu_partitions_no_gpus(olivia: Testbed) -> None:
    found = olivia.run("sinfo", "-h", "-o", "%P %l %D %c %m %G").splitlines()
    assert found == [
        "accel* 7-00:00:00 2 288 827392 gpu:4",
        "small 7-00:00:00 2 256 758784 (null)",
        "large 7-00:00:00 2 256 758784 (null)",
    ]


def test_a_gpu_type_determines_the_nodes() -> None:
    with twin("daic", nodes=1, gpu_type="turing") as testbed:
        assert nodes(testbed) == ["127.0.0.1 idle 64 524288 gpu:turing:4"]


def test_a_job_sees_its_nodes_and_gpus(daic: Testbed) -> None:
    step = "srun --label bash -c 'echo $SLURM_NODEID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'\n"
    log = daic.batch(TWO_NODES + step)
    assert sorted(log.splitlines()) == ["0: 0 127.0.0.1 0,1", "1: 1 127.0.0.2 0,1"]


def test_gpus_have_types_if_the_site_lists_them(daic: Testbed) -> None:
    log = daic.batch("#!/bin/bash\n#SBATCH --gres=gpu:a40:2\nsrun printenv CUDA_VISIBLE_DEVICES\n")
    assert log == "0,1\n"


def test_node_names_resolve_without_configuration(daic: Testbed) -> None:
    for name in daic.twin.nodes:
        assert socket.getaddrinfo(name, 80, socket.AF_INET)[0][4] == (name, 80)


@pytest.mark.parametrize("export", ["ALL", "NONE"])
def test_batch_script_and_step_have_the_stand_ins(daic: Testbed, export: str) -> None:
    use = "module load 2025/gpu\napptainer exec --nv my.sif echo hello\n"
    log = daic.batch(f"{TWO_NODES}{use}srun --nodes=1 --ntasks=1 bash -c '{use}'\n", f"--export={export}")
    assert log.count("twin: stand-in for 'module load 2025/gpu', nothing was loaded\n") == 2
    assert log.count("twin: stand-in for apptainer: my.sif is not opened; running on the host\n") == 2
    assert log.count("hello\n") == 2  # the order of stdout and stderr varies


def started(daic: Testbed, launcher: str, nodes: int) -> tuple[Plan, str]:
    """A plan, and its job at a site whose sbatch adds --export=NONE; each program reports its environment."""
    asked = Request(
        framework=launcher,
        gpus=2 * nodes,
        nodes=nodes,
        account="a",
        mem="4G",
        script="train.py",
        python_env=f"venv:{daic.folder}/venv",
        modules=(),
        env={"EXTRA": "more"},
    )
    plan = resolve(asked, structs.replace(load_site("daic"), launch=Launch(mpi="pmi2")))
    (daic.folder / "job.sh").write_text(render(plan))
    return plan, daic.run("sbatch", "--parsable", "--export=NONE", "--output=%j.log", "job.sh").strip()


def test_each_rank_has_the_environment_where_sbatch_exports_none(daic: Testbed) -> None:
    names = ("python", "torchrun", "accelerate", "deepspeed")
    shown = 'echo "task $SLURM_PROCID $HOME $USER $EXTRA $MASTER_ADDR"'
    write_programs(daic.folder / "venv" / "bin", dict.fromkeys(names, shown))
    launchers = LAUNCHERS.keys() - {"ray"}  # the stand-ins do not listen on its port
    several = launchers - {"python", "spawn"}
    jobs = [started(daic, name, 1) for name in launchers] + [started(daic, name, 2) for name in several]
    for plan, job in jobs:
        state, log = daic.wait(job), (daic.folder / f"{job}.log").read_text()
        assert state == "COMPLETED", f"{plan.framework}: {log}"
        own = rf"{Path.home()} \w+ more {'127.0.0.[12]' if plan.rendezvous else ''}"
        found = sorted(re.findall(rf"^task (\d) {own}$", log, re.MULTILINE))
        assert found == [str(task) for task in range(plan.nodes * plan.ntasks_per_node)], log


def test_a_real_program_takes_precedence_over_the_stand_in(daic: Testbed, tmp_path: Path) -> None:
    write_programs(tmp_path, {"apptainer": "echo the real one"})
    log = daic.batch("#!/bin/bash\napptainer exec my.sif true\n", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert log == "the real one\n"


def test_a_rank_gets_one_thread_by_default(daic: Testbed) -> None:
    script = "#!/bin/bash\necho $OMP_NUM_THREADS\nOMP_NUM_THREADS=3 srun printenv OMP_NUM_THREADS\n"
    assert daic.batch(script) == "1\n3\n"


def test_the_time_limit_of_the_site_is_enforced(olivia: Testbed) -> None:
    refused = subprocess.run(
        ["sbatch", "--test-only", "--time=8-0", "--wrap=true"],
        env=olivia.environ,
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert "time limit" in refused.stderr


def test_ranks_on_two_nodes_meet(daic: Testbed) -> None:
    train = (
        "import torch.distributed as d; d.init_process_group('gloo'); print(d.get_rank(), d.get_world_size())"
    )
    (daic.folder / "train.py").write_text(f"{train}; d.destroy_process_group()\n")
    torchrun = f"{warm()} -m torch.distributed.run --nnodes=2 --nproc-per-node=1"
    log = daic.batch(
        f"""{TWO_NODES}
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR="${{hosts[0]}}" MASTER_PORT=$((20000 + SLURM_JOB_ID % 12768))
srun bash -c 'exec {torchrun} --node-rank="$SLURM_NODEID" --master-addr="$MASTER_ADDR" \\
  --master-port="$MASTER_PORT" train.py'
"""
    )
    assert sorted(line for line in log.splitlines() if line[:1].isdigit()) == ["0 2", "1 2"]


def test_ssh_reaches_the_twin_by_the_name_of_the_login_host(daic: Testbed) -> None:
    ssh = ("ssh", "-F", str(daic.twin.ssh_config), "-o", "BatchMode=yes")
    assert daic.twin.ssh_host == "login.daic.tudelft.nl"
    assert daic.run(*ssh, "login.daic.tudelft.nl", "sinfo -h -o %P").strip() == "all*"
    assert daic.run(*ssh, "daic", "sbatch --test-only --wrap=true 2>&1 | wc -l").strip() == "1"


def test_two_twins_run_side_by_side(daic: Testbed, olivia: Testbed) -> None:
    clusters = [testbed.run("scontrol", "show", "config") for testbed in (daic, olivia)]
    for name, text in zip(("daic", "olivia"), clusters, strict=True):
        assert f"ClusterName             = {name}\n" in text
    firsts = [int(re.findall(r"FirstJobId += (\d+)", text)[0]) for text in clusters]
    assert abs(firsts[0] - firsts[1]) > 2000


def test_a_job_is_remembered_for_a_day(daic: Testbed) -> None:
    assert "MinJobAge               = 86400 sec" in daic.run("scontrol", "show", "config")


def test_waiting_for_a_forgotten_job_ends(daic: Testbed) -> None:
    assert daic.wait("1") == "GONE"
