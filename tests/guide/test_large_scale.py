"""Beyond FSDP, data at scale, watching a run, AMD GPUs: their scripts, blocks and commands, on CPUs."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import Run

from .pages import blocks, shown_output
from .running import GUIDE, python, ranks_of, torchrun


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_kind_of_parallelism_has_the_loss_and_gradient_of_one_process(ranks: int) -> None:
    done = torchrun("beyond_fsdp.py", ranks=ranks)
    found = re.findall(r"^(\w+) +loss ([\d.]+), gradient ([\d.]+)$", done.out, re.M)
    command = "torchrun --standalone --nproc-per-node=4 examples/guide/beyond_fsdp.py"
    shown = re.findall(r"^(\w+) ", shown_output("beyond-fsdp", command), re.M)
    assert [kind for kind, *_ in found] == shown, done.err
    one = [float(number) for number in found[0][1:]]
    assert [[float(loss), float(norm)] for _, loss, norm in found] == [pytest.approx(one, abs=2e-5)] * 5


def test_a_run_continues_with_the_next_unread_sample(tmp_path: Path) -> None:
    for stop in (["--stop", "5"], []):
        done = torchrun("data_at_scale.py", *stop, cwd=tmp_path)
        command = "torchrun --standalone --nproc-per-node=2 examples/guide/data_at_scale.py"
        shown = "".join(blocks("data-at-scale", "console")).partition(f"$ {' '.join([command, *stop])}\n")[2]
        shown = shown.partition("$ ")[0]
        assert ranks_of(done.out) == ranks_of(shown), done.err
        assert shown.splitlines()[-1] in done.out.splitlines()


@pytest.mark.parametrize(
    ("package", "samples"), [("torchdata", 48), ("webdataset", 96), ("pyarrow", 96)], ids=str
)
def test_a_library_reads_each_sample_once(package: str, samples: int, tmp_path: Path) -> None:
    pytest.importorskip(package)
    (code,) = [block for block in blocks("data-at-scale", "python") if package in block]
    setup = "import torch\nfrom pathlib import Path\nfrom data_at_scale import Shards, write_shards\n"
    setup += 'write_shards(folder := Path("shards"))\n'
    (tmp_path / "block.py").write_text(f"{setup}{code}\nprint(sorted(samples.tolist()))\n")
    path = {"PYTHONPATH": os.pathsep.join([str(GUIDE), *sys.path])}
    done = python(tmp_path / "block.py", cwd=tmp_path, env=path, cold=True)
    assert done.returncode == 0, done.err
    read = json.loads(done.out)
    assert len(read) == len(set(read)) == samples


def test_one_rank_logs_the_loss_of_all_and_each_writes_a_trace(tmp_path: Path) -> None:
    done = torchrun("watching.py", "--run-dir", str(tmp_path))
    assert done.returncode == 0, done.err
    (events,) = tmp_path.glob("events*")
    log = EventAccumulator(str(events)).Reload()
    losses = [event.value for event in log.Scalars("loss")]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 4
    for rank in (0, 1):
        names = [
            event.get("name")
            for event in json.loads((tmp_path / f"trace-{rank}.json").read_text())["traceEvents"]
        ]
        assert len({name for name in names if str(name).startswith("ProfilerStep")}) == 3


def test_the_page_on_amd_shows_what_is_rendered_for_lumi(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    command = next(block for block in blocks("amd", "console") if "slurmgen" in block).removeprefix(
        "$ slurmgen "
    )
    rendered = slurmgen(*command.split(), cwd=tmp_path).stdout
    (shown,) = blocks("amd", "sh")
    assert set(shown.splitlines()) - set(rendered.splitlines()) == set()
    assert torch.version.hip or "not a ROCm build" in shown_output("amd", ROCM)


ROCM = """python -c "import torch; print(torch.version.hip or 'not a ROCm build')\""""


def test_the_job_of_torchtitan_is_one_of_torchrun(slurmgen: Run, tmp_path: Path) -> None:
    (line,) = [block for block in blocks("beyond-fsdp", "console") if "titan" in block]
    rendered = slurmgen(*shlex.split(line)[2:], cwd=tmp_path)
    assert "-m torchtitan.train --module llama3 --config llama3_8b" in rendered.stdout, rendered.stderr
