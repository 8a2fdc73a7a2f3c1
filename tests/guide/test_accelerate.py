"""docs/guide/accelerate.md: its script and config files, on CPUs."""

import re
import shlex
import socket
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.ranks import Ended

from .pages import shown_output
from .running import GUIDE, run

SCRIPT = GUIDE / "accelerate_loop.py"
NODE, NODES = (GUIDE / f"accelerate_{name}.yaml" for name in ("1_node", "2_nodes"))
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch"]
CPU = ["--mixed_precision=no"]  # bf16 needs a GPU


def launch(folder: Path, *args: str) -> Ended:
    """Two processes with the config file of one node."""
    done = run(
        *LAUNCH, "--config_file", NODE, "--num_processes=2", *CPU, SCRIPT, "--cpu", "--run-dir", folder, *args
    )
    assert done.returncode == 0, done.err
    return done


def accuracies(out: str) -> list[str]:
    return re.findall(r"epoch \d accuracy \d+/\d+", out)


def correct(out: str) -> tuple[set[tuple[str, str]], list[int]]:
    """Epochs with the number of samples, and the number of correct ones in each."""
    found = re.findall(r"epoch (\d) accuracy (\d+)/(\d+)", out)
    return {(epoch, total) for epoch, _, total in found}, [int(number) for _, number, _ in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("accelerate")


@pytest.fixture(scope="module")
def done(folder: Path) -> Ended:
    return launch(folder)


def test_each_sample_of_the_test_set_counts_once(done: Ended) -> None:
    command = "accelerate launch --config_file accelerate_1_node.yaml accelerate_loop.py"
    (here, counted), (there, shown) = map(correct, (done.out, shown_output("accelerate", command)))
    assert here == there == {("0", "101"), ("1", "101"), ("2", "101")}
    assert counted == pytest.approx(shown, abs=3)  # another processor rounds differently


def test_a_continued_run_ends_with_the_same_weights(done: Ended, folder: Path, tmp_path: Path) -> None:
    assert done.returncode == 0
    launch(tmp_path, "--epochs", "1")
    assert accuracies(launch(tmp_path).out) == accuracies(done.out)[1:]
    weights = [path / "epoch-3" / "model.safetensors" for path in (folder, tmp_path)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_the_command_line_completes_the_config_file_of_two_nodes(tmp_path: Path) -> None:
    port = f"--main_process_port={free_port()}"
    shape = ["--config_file", NODES, "--num_processes=2", "--main_process_ip=127.0.0.1", port, *CPU]
    tail = [SCRIPT, "--cpu", "--run-dir", tmp_path, "--epochs", "1"]
    nodes = [[*LAUNCH, *shape, f"--machine_rank={rank}", *tail] for rank in range(2)]
    first, second = (shlex.join(map(str, words)) for words in nodes)
    ended = run("bash", "-c", f"{first} & p=$!; {second} && wait $p")
    assert ended.returncode == 0, ended.err
    assert sorted(re.findall(r"rank (\d) of (\d)", ended.out)) == [("0", "2"), ("1", "2")]


def test_without_multi_gpu_two_processes_are_one(tmp_path: Path) -> None:
    home = {"HF_HOME": str(tmp_path)}  # no config file of the user
    command = [*LAUNCH, "--num_processes=2", "--num_machines=1", *CPU, "--dynamo_backend=no", SCRIPT]
    alone = run(*command, "--cpu", "--run-dir", tmp_path, "--epochs", "1", env=home)
    assert re.findall(r"rank \d of \d", alone.out) == ["rank 0 of 1"]


@pytest.mark.parametrize("file", [NODE, NODES])
def test_accelerate_knows_every_key_of_the_files(file: Path) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    assert load_config_from_file(str(file)).mixed_precision == "bf16"


def test_a_port_in_use_is_refused_on_several_nodes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = f"--main_process_port={taken.getsockname()[1]}"
        where = ["--main_process_ip=127.0.0.1", "--machine_rank=0", port]
        refused = run(*LAUNCH, "--config_file", NODES, *where, *CPU, SCRIPT)
    assert "but another process is utilizing it" in refused.err
