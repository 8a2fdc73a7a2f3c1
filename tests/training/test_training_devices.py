"""Ranks, CPUs, GPUs (which exist only by name), and options that are refused."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from device import choose_device, cpus, peak_memory, prepare, settle, shared_gpu
from ranks import Ranks, first_host, place, start
from training_options import ALONE, CPU, parsed, settled

from tests.support.ports import free_port

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Without a process group, and with the settings of torch as before."""
    threads, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    convolutions = torch.backends.cudnn.allow_tf32
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(products)
    torch.backends.cudnn.allow_tf32 = convolutions
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_ranks_that_do_not_start_are_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    variables = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="2"):
        Ranks(parsed("--start-timeout", "1"))
    assert "error: of 4 ranks, 1, 2, 3 did not start within 1 s." in capfd.readouterr().err


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[1-4]", "n1"),
        ("n[03-05,9],m1", "n03"),
        ("n[7,9]", "n7"),
        ("gpu-a100-[001-016]", "gpu-a100-001"),
        ("r[1-2]n[3-4]", "r1n3"),
        ("n[1-2].cluster.org,m[1-2]", "n1.cluster.org"),
        ("login,n[1-2]", "login"),
    ],
)
def test_the_first_host_of_a_slurm_list(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


def test_a_slurm_step_without_a_launcher_names_rank_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # so that what `place` sets is removed after the test
        monkeypatch.delenv(name)
    step = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
    step |= {"SLURM_STEP_NODELIST": "n[3-4]", "SLURM_JOB_ID": "4711"}
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    assert place() == (5, 8, 1)
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("n3", "24711")


def test_a_rank_names_the_slurm_node_it_is_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    start(parsed("--device", "cpu"))
    assert capfd.readouterr().out == "rank 0/1 local_rank 0 host n2 device cpu\n"


def test_the_topology_names_the_cpus_of_each_rank_and_the_settings_of_nccl(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("device.cpus", lambda: [0, 1, 2, 5])
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    start(parsed("--device", "cpu", "--topology"))
    lines = capfd.readouterr().out.splitlines()[1:]
    assert lines == ["rank 0 host n2 CPUs 0-2,5 cpu no GPU", "NCCL_DEBUG=INFO"]


@pytest.mark.parametrize(("before", "after"), [(288, 4), (1, 1)])
def test_threads_do_not_exceed_the_available_cpus_and_are_not_raised(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    monkeypatch.setattr("device.cpus", lambda: [0, 1, 2, 3])
    torch.set_num_threads(before)
    prepare(settled(), ALONE)
    assert torch.get_num_threads() == after


@pytest.mark.parametrize(("flag", "used"), [("auto", 2), ("1", 1), ("100", 3)])
def test_workers_leave_the_cpus_of_other_ranks_alone(
    monkeypatch: pytest.MonkeyPatch, flag: str, used: int
) -> None:
    """Two ranks share these six CPUs; a third has others."""
    monkeypatch.setattr("device.cpus", lambda: list(range(6)))
    options = settled("--workers", flag)
    prepare(
        options, Namespace(host="here", gather=lambda own: [own, ["here", list(range(6))], ["here", [6, 7]]])
    )
    assert options.workers == used


def test_a_system_without_affinity_uses_all_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as macOS."""
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cpus() == [0, 1, 2]
    start(parsed("--device", "cpu"))


def test_memory_on_macos_is_counted_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = peak_memory(CPU)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_memory(CPU) == pytest.approx(elsewhere / 1024, rel=0.1)


@pytest.mark.parametrize(
    ("flag", "on", "products"), [("--tf32", True, "high"), ("--no-tf32", False, "highest")]
)
def test_tf32_is_switched_for_products_and_convolutions(flag: str, on: bool, products: str) -> None:
    torch.backends.cudnn.allow_tf32 = not on
    prepare(settled(flag), ALONE)
    assert torch.backends.cudnn.allow_tf32 is on
    assert torch.get_float32_matmul_precision() == products


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Namespace:
    gpus = Namespace(count=4, bf16=True, chosen=None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus.count)
    monkeypatch.setattr("torch.cuda.set_device", lambda index: setattr(gpus, "chosen", index))
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **_: gpus.bf16)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _=None: "Tesla V100")
    return gpus


@pytest.mark.parametrize(("visible", "local_rank", "index"), [(4, 3, 3), (1, 0, 0), (1, 3, 0)])
def test_a_task_that_sees_one_gpu_uses_it(gpus: Namespace, visible: int, local_rank: int, index: int) -> None:
    gpus.count = visible
    assert choose_device("auto", local_rank) == torch.device("cuda", index)
    assert gpus.chosen == index


def test_a_rank_without_a_gpu_is_refused(gpus: Namespace, capfd: pytest.CaptureFixture[str]) -> None:
    gpus.count = 2
    with pytest.raises(SystemExit, match="2"):
        choose_device("auto", 2)
    assert capfd.readouterr().err.startswith("error: local rank 2 has no GPU: 2 visible.")


def test_ranks_with_the_same_gpu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: Namespace(uuid="GPU-1"))
    ranks = Namespace(host="here", device=GPU)
    ranks.gather = lambda own: ["here GPU-0", "here GPU-1", "there GPU-1", own]
    assert shared_gpu(ranks) == "ranks 1, 3 have the same GPU. Request one GPU per rank."
    ranks.gather = lambda own: [own, "there GPU-1"]
    assert shared_gpu(ranks) is None


@pytest.mark.parametrize(("bf16", "precision"), [(True, "bf16"), (False, "fp16")])
def test_gpus_compile_in_the_precision_that_they_have(gpus: Namespace, bf16: bool, precision: str) -> None:
    gpus.bf16 = bf16
    options = parsed()
    assert settle(options, GPU) is None
    assert (options.precision, options.channels_last, options.compile) == (precision, True, True)


def test_cpus_compute_in_fp32_and_do_not_compile() -> None:
    options = settled()
    assert (options.precision, options.channels_last, options.compile) == ("fp32", False, False)


def test_bf16_on_a_gpu_without_it_is_refused(gpus: Namespace) -> None:
    gpus.bf16 = False
    error = settle(parsed("--precision", "bf16"), GPU)
    assert error == "Tesla V100 has no bf16. Use --precision fp16."


def refusal(capfd: pytest.CaptureFixture[str], *flags: str, framework: str = "ddp") -> str:
    """What one rank prints when it refuses these flags."""
    with pytest.raises(SystemExit, match="2"):
        start(parsed("--device", "cpu", *flags, framework=framework))
    return capfd.readouterr().err


@pytest.mark.parametrize(
    ("framework", "flags", "message"),
    [
        ("ddp", "--static-graph --accumulate 2", "--static-graph does not work with --accumulate"),
        ("ddp", "--sync-batchnorm", "--sync-batchnorm needs GPUs. Use --device cuda, or leave it out."),
        ("fsdp", "--strategy fsdp --channels-last", "--channels-last does not work with FSDP"),
        ("lightning", "--strategy fsdp --channels-last", "--channels-last does not work with FSDP"),
        (
            "lightning",
            "--strategy fsdp --precision fp16",
            "--precision fp16 does not work with Lightning and",
        ),
        ("accelerate", "--precision fp16", "accelerate has fp16 only for GPUs."),
        ("accelerate", "--strategy fsdp", "accelerate has FSDP only for GPUs. Use train_fsdp.py on CPUs."),
        ("ddp", "--tensorboard", "--tensorboard needs --run-dir. Add --run-dir DIR."),
        ("ddp", "--crop-padding 28", "--crop-padding 28 is more than 27, the image's side less one."),
        ("ddp", "--crash-rank 1", "--crash-rank 1 is not a rank. The last one is 0."),
        ("ddp", "--accumulate 5", "--batch-size 64 is not divisible by 1 ranks with --accumulate 5."),
    ],
)
def test_options_that_cannot_work_together_are_refused_in_one_line(
    framework: str, flags: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capfd, *flags.split(), framework=framework)
    assert line.startswith(f"error: {message}")
    assert line.count("\n") == 1


def test_compiling_without_a_compiler_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("options.which", lambda name: None)
    line = refusal(capfd, "--compile")
    assert line.startswith("error: --compile on CPUs needs a C++ compiler and Python.h")


def test_tensorboard_that_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("options.find_spec", lambda name: None)
    line = refusal(capfd, "--tensorboard", "--run-dir", str(tmp_path))
    assert line.startswith("error: tensorboard, which --tensorboard needs, is not installed.")


@pytest.mark.parametrize(
    "flags",
    [
        *("--epochs 0", "--batch-size -4", "--seed -1", f"--seed {2**63}", "--limit x"),
        *("--lr nan", "--lr -1", "--label-smoothing 2", "--model resnet18", "--epoch 1"),
    ],
)
def test_an_invalid_value_is_refused(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parsed(*flags.split())
    assert flags.split()[0] in capsys.readouterr().err
