"""The rungs of examples/ladder: each learns, and each is a small change of the one that it follows."""

import ast
import difflib
import os
import re
import runpy
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.conftest import AT_EXIT, REPOSITORY, THREADS, Run
from tests.guide.running import python, run_ranks, slurm_step, torchrun
from tests.support.fork_server import warm
from tests.support.twins import twin

LADDER = REPOSITORY / "examples" / "ladder"
RUNGS = sorted(LADDER.glob("[0-9]*.py"), key=lambda path: int(path.name.partition("_")[0]))
ONE_PROCESS = {rung for rung in RUNGS if rung.name.startswith(("1_", "11_", "12_"))}
TORCHRUN, SLURM, *RESUMABLE, LIGHTNING = *RUNGS[1:9], RUNGS[11]
STOPPABLE, SHARDED, MIXED, ACCUMULATE = RESUMABLE[1:], RESUMABLE[2:4], RESUMABLE[4], RESUMABLE[5]
LIMIT = 40
ROW = re.compile(r"^\| \[(\w+\.py)\]\(\1\) \| .* \| (\d*) \| (\d*) \|$", re.M)
Weights = dict[str, torch.Tensor]


def name(rung: Path) -> str:
    return rung.stem


def accuracies(out: str) -> list[float]:
    """The accuracy of each epoch; fails if there are other lines, such as those of a second rank."""
    lines = out.splitlines()
    found = [re.fullmatch(rf"epoch {epoch}: accuracy ([\d.]+)", line) for epoch, line in enumerate(lines)]
    assert all(found), out
    return [float(match[1]) for match in found if match]


def weights(folder: Path) -> Weights:
    """The weights that a run left in its folder: in model.pt, in a checkpoint, or in a sharded one."""
    if (model := folder / "model.pt").exists():
        return torch.load(model)
    whole = folder / "checkpoint.pt"
    if not whole.exists():
        (sharded,) = (path.parent for path in folder.glob("[67]_*/*/.metadata"))
        dcp_to_torch_save(sharded, whole := folder / "whole.pt")
    return torch.load(whole)["model"]


def differing(one: Weights, other: Weights) -> list[str]:
    assert one.keys() == other.keys()
    return [key for key in one if not torch.equal(one[key], other[key])]


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_a_rung_learns_and_one_rank_prints(rung: Path, tmp_path: Path) -> None:
    start = python if rung in ONE_PROCESS else torchrun
    done = start(rung, "--epochs", "2", "--batch-size", "128", cwd=tmp_path)
    assert done.returncode == 0, done.err
    first, second = accuracies(done.out)
    assert 0.9 < first < second
    assert weights(tmp_path)


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_help_needs_no_launcher(rung: Path, tmp_path: Path) -> None:
    shown = python(rung, "--help", cwd=tmp_path)
    assert shown.returncodes == [0], shown.err
    assert {"--epochs", "--batch-size"} <= set(re.findall(r"--[a-z-]+", shown.out))


@pytest.mark.parametrize(
    ("rung", "flags"),
    [(TORCHRUN, [[], []]), (ACCUMULATE, [["--accumulate=1"], ["--accumulate=4"]])],
    ids=["one and two ranks", "a batch and its parts"],
)
def test_two_ways_to_a_batch_learn_the_same(rung: Path, flags: list[list[str]], tmp_path: Path) -> None:
    found = []
    for ranks, more in enumerate(flags, 1):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        exact = ["--precision=fp32"] if rung == ACCUMULATE else []
        done = run_ranks(rung, "--epochs", "1", "--batch-size", "128", *more, *exact, ranks=ranks, cwd=folder)
        assert done.returncodes == [0] * ranks, done.err
        found.append(weights(folder))
    for key, one in found[0].items():
        torch.testing.assert_close(found[1][key], one, rtol=0, atol=1e-4)


def test_half_precision_learns_with_a_scaled_loss(tmp_path: Path) -> None:
    args = ("--epochs", "1", "--batch-size", "128", "--precision", "fp16")
    done = run_ranks(MIXED, *args, ranks=1, cwd=tmp_path)
    assert accuracies(done.out)[0] > 0.9, done.err
    assert torch.load(tmp_path / "checkpoint.pt")["scaler"]["scale"] > 1


def test_the_tasks_of_a_step_share_the_data_of_lightning(tmp_path: Path) -> None:
    done = slurm_step(LIGHTNING, "--epochs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.err
    assert accuracies(done.out)[0] > 0.9
    (checkpoint,) = tmp_path.rglob("*.ckpt")
    assert torch.load(checkpoint, weights_only=False)["global_step"] == 64  # of 128 on one rank


@pytest.mark.parametrize(("rung", "batch"), [(TORCHRUN, "63"), (ACCUMULATE, "66")])
def test_a_batch_that_cannot_be_shared_is_refused(rung: Path, batch: str, tmp_path: Path) -> None:
    done = run_ranks(rung, "--batch-size", batch, cwd=tmp_path)
    assert 0 not in done.returncodes
    assert f"--batch-size {batch} is not divisible by 2 ranks" in done.err


def test_srun_without_torchrun_starts_the_same_ranks(tmp_path: Path) -> None:
    done = run_ranks(SLURM, "--epochs", "1", "--batch-size", "128", cwd=tmp_path)
    step = ("srun", "--nodes=2", "--ntasks-per-node=1", "--time=10", str(warm()), str(SLURM))
    variables = {"OMP_NUM_THREADS": THREADS, "PYTHONPATH": AT_EXIT}
    with twin("generic") as testbed:
        log = testbed.run(*step, "--epochs", "1", "--batch-size", "128", **variables)
        assert accuracies(log) == accuracies(done.out)
        assert differing(weights(testbed.folder), weights(tmp_path)) == []


ARGUMENTS = ("--epochs", "3", "--batch-size", "64")
# Slurm's signals reach the workers of a data loader, too.
CUT = """optimizer.zero_grad()
            if os.environ.get("CUT") == f"{epoch} {locals().get('step', 4)} {rank}":
                workers = __import__("multiprocessing").active_children()
                for pid in [*(worker.pid for worker in workers), os.getpid()]:
                    os.kill(pid, int(os.environ["SIGNAL"]))"""
CHANGES = {
    "8192, ": "768, ",  # 12 steps in each epoch
    "nn.ReLU()": "nn.Sequential(nn.ReLU(), nn.Dropout(0.1))",  # draws random numbers
    "optimizer.zero_grad()": CUT,
    "loss = ": 'loss = float(os.environ.get("FACTOR", "1")) * ',
}
AGREE = "dist.all_reduce(stop)"


def changed(rung: Path, folder: Path) -> Path:
    """A copy of a rung with less data and dropout, of which a rank can be sent a signal in a step."""
    text = rung.read_text()
    for before, after in CHANGES.items():
        assert before in text
        text = text.replace(before, after)
    copy = folder / rung.name
    copy.write_text(text.replace(AGREE, f'{AGREE}; __import__("sys").stderr.write("agreed\\n")'))
    return copy


def cut_at(place: str, number: signal.Signals) -> dict[str, str]:
    """The variables of a changed rung that send a signal in `EPOCH STEP RANK`."""
    return {"CUT": place, "SIGNAL": str(number.value)}


@pytest.mark.parametrize("rung", RESUMABLE, ids=name)
def test_an_interrupted_run_ends_as_an_uninterrupted_one(rung: Path, tmp_path: Path) -> None:
    script, whole, cut = changed(rung, tmp_path), tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    done = run_ranks(script, *ARGUMENTS, cwd=whole)
    assert len(accuracies(done.out)) == 3, done.err
    # The GPU is not waited for in each of the 12 steps of an epoch.
    assert done.err.count("agreed") == (0 if rung == RESUMABLE[0] else 2 * 3 * 2)

    killed = run_ranks(script, *ARGUMENTS, cwd=cut, env=cut_at("1 4 1", signal.SIGKILL))
    assert killed.returncodes[1] == -signal.SIGKILL, killed.err
    if rung in STOPPABLE:
        stopped = run_ranks(script, *ARGUMENTS, cwd=cut, env=cut_at("1 8 1", signal.SIGTERM))
        assert stopped.returncodes == [75, 75], stopped.err
    ended = run_ranks(script, *ARGUMENTS, cwd=cut)
    assert ended.returncodes == [0, 0], ended.err
    assert differing(weights(cut), weights(whole)) == []


@pytest.mark.parametrize("rung", STOPPABLE, ids=name)
def test_a_signal_asks_for_a_requeue_under_torchrun(rung: Path, tmp_path: Path) -> None:
    requeue = tmp_path / "requeue"
    asked = {**cut_at("0 3 1", signal.SIGUSR2), "REQUEUE_FILE": str(requeue)}
    stopped = torchrun(changed(rung, tmp_path), *ARGUMENTS, cwd=tmp_path, env=asked)
    assert (stopped.returncode, requeue.exists()) == (1, True), stopped.err


@pytest.mark.parametrize("rung", RESUMABLE, ids=name)
def test_weights_that_are_not_finite_replace_no_checkpoint(rung: Path, tmp_path: Path) -> None:
    script = changed(rung, tmp_path)
    assert run_ranks(script, "--epochs=1", "--batch-size=64", cwd=tmp_path).returncode == 0
    before = weights(tmp_path)
    done = run_ranks(script, "--epochs=2", "--batch-size=64", cwd=tmp_path, env={"FACTOR": "nan"}, grace=5)
    assert 0 not in done.returncodes
    assert "the weights are NaN or infinite" in done.err
    assert differing(before, weights(tmp_path)) == []


@pytest.mark.parametrize("rung", SHARDED, ids=name)
@pytest.mark.usefixtures("process_group")
def test_old_checkpoints_go_when_the_new_name_is_on_the_disk(
    rung: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, events, fsync, folders = runpy.run_path(str(rung))["save"], [], os.fsync, "[0-9]*-*"

    def sync(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").resolve()
        events.append((path.name, sorted(each.name for each in tmp_path.glob(folders))))
        fsync(number)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(shutil, "rmtree", lambda path: events.append(("removed", path.name)))
    save(tmp_path, {"model": {}, "done": (0, 1)})
    events.clear()
    save(tmp_path, {"model": {}, "done": (0, 2)})
    old, new = "00000-00000001", "00000-00000002"
    assert events[-2:] == [(tmp_path.name, [old, new]), ("removed", old)]
    assert {names[-1] for _, names in events[:-2]} == {old}, "the files are synced before the rename"


@pytest.mark.parametrize(("file", "follows", "stated"), ROW.findall((LADDER / "README.md").read_text())[1:])
def test_a_rung_is_a_small_change_of_the_one_that_it_follows(file: str, follows: str, stated: str) -> None:
    before, after = RUNGS[int(follows) - 1], LADDER / file
    lines = difflib.unified_diff(before.read_text().splitlines(), after.read_text().splitlines(), n=0)
    differs = [line for line in lines if line[0] in "+-" and line[:3] not in {"+++", "---"}]
    assert len(differs) == int(stated) <= LIMIT


def test_the_readme_lists_every_rung() -> None:
    files = [file for file, *_ in ROW.findall((LADDER / "README.md").read_text())]
    assert files == [rung.name for rung in RUNGS]


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_a_rung_needs_only_torch_and_its_framework(rung: Path) -> None:
    nodes = list(ast.walk(ast.parse(rung.read_text())))
    imported = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    imported += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    framework = {rung.stem.partition("_")[2]} & {"accelerate", "lightning"}
    assert {each.partition(".")[0] for each in imported} <= sys.stdlib_module_names | {"torch"} | framework


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_a_rung_has_no_unused_name(rung: Path) -> None:
    text = rung.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    classes = [node.body for node in nodes if isinstance(node, ast.ClassDef)]
    hooks = {item.name for body in classes for item in body if isinstance(item, ast.FunctionDef)}
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)} - hooks
    made |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {flag.replace("-", "_") for flag in re.findall(r'add_argument\("--([a-z-]+)"', text)}
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    read |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert {each for each in made - read if not each.startswith("__")} == set()


@pytest.mark.parametrize("job", ["job", "requeue"])
def test_the_batch_scripts_are_current(job: str, slurmgen: Run, tmp_path: Path) -> None:
    script, rendered = LADDER / f"{job}.sbatch", tmp_path / "rendered"
    slurmgen("render", job, "--output", str(rendered), cwd=LADDER)
    assert script.read_text() == rendered.read_text()
    found = slurmgen("lint", str(script), "--site", "generic")
    assert found.returncode == 0, found.stdout
