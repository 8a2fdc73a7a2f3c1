"""The rungs of examples/ladder: each learns, and each is a small change of the one before."""

import ast
import difflib
import re
import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.conftest import AT_EXIT, REPOSITORY, THREADS, Run
from tests.guide.running import python, run_ranks, torchrun
from tests.support.fork_server import warm
from tests.support.twins import twin

LADDER = REPOSITORY / "examples" / "ladder"
RUNGS = sorted(LADDER.glob("[0-9]_*.py"))
SINGLE, TORCHRUN, SLURM, *RESUMABLE = RUNGS
LIMIT = 40
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
        (sharded,) = (path.parent for path in folder.glob("[56]_*/*/.metadata"))
        dcp_to_torch_save(sharded, whole)
    return torch.load(whole)["model"]


def differing(one: Weights, other: Weights) -> list[str]:
    assert one.keys() == other.keys()
    return [key for key in one if not torch.equal(one[key], other[key])]


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_a_rung_learns_and_one_rank_prints(rung: Path, tmp_path: Path) -> None:
    start = python if rung == SINGLE else torchrun
    done = start(rung, "--epochs", "2", "--batch-size", "128", cwd=tmp_path)
    assert done.returncode == 0, done.err
    first, second = accuracies(done.out)
    assert 0.9 < first < second


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_help_needs_no_launcher(rung: Path, tmp_path: Path) -> None:
    shown = python(rung, "--help", cwd=tmp_path)
    assert shown.returncodes == [0], shown.err
    assert {"--epochs", "--batch-size"} <= set(re.findall(r"--[a-z-]+", shown.out))


def test_one_and_two_ranks_learn_the_same(tmp_path: Path) -> None:
    found = []
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        done = run_ranks(TORCHRUN, "--epochs", "1", "--batch-size", "128", ranks=ranks, cwd=folder)
        assert done.returncodes == [0] * ranks, done.err
        found.append(weights(folder))
    for key, one in found[0].items():
        torch.testing.assert_close(found[1][key], one, rtol=0, atol=1e-4)


def test_a_batch_that_the_ranks_cannot_share_is_refused(tmp_path: Path) -> None:
    done = run_ranks(TORCHRUN, "--batch-size", "63", cwd=tmp_path)
    assert 0 not in done.returncodes
    assert "--batch-size 63 is not divisible by 2 ranks" in done.err


def test_srun_without_torchrun_starts_the_same_ranks(tmp_path: Path) -> None:
    done = run_ranks(SLURM, "--epochs", "1", "--batch-size", "128", cwd=tmp_path)
    step = ("srun", "--nodes=2", "--ntasks-per-node=1", "--time=10", str(warm()), str(SLURM))
    variables = {"OMP_NUM_THREADS": THREADS, "PYTHONPATH": AT_EXIT}
    with twin("generic") as testbed:
        log = testbed.run(*step, "--epochs", "1", "--batch-size", "128", **variables)
        assert accuracies(log) == accuracies(done.out)
        assert differing(weights(testbed.folder), weights(tmp_path)) == []


ARGUMENTS = ("--epochs", "3", "--batch-size", "64")
CUT = """loss.backward()
            if os.environ.get("CUT") == f"{epoch} {step} {rank}":
                os.kill(os.getpid(), int(os.environ["SIGNAL"]))"""
CHANGES = {
    "8192, ": "768, ",  # 12 steps in each epoch
    "nn.ReLU()": "nn.Sequential(nn.ReLU(), nn.Dropout(0.1))",  # draws random numbers
    "loss.backward()": CUT,
}


def changed(rung: Path, folder: Path) -> Path:
    """A copy of a rung with less data and dropout, of which a rank can be sent a signal in a step."""
    text = rung.read_text()
    for before, after in CHANGES.items():
        assert before in text
        text = text.replace(before, after)
    copy = folder / rung.name
    copy.write_text(text)
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

    killed = run_ranks(script, *ARGUMENTS, cwd=cut, env=cut_at("1 4 1", signal.SIGKILL))
    assert killed.returncodes[1] == -signal.SIGKILL, killed.err
    stopped = run_ranks(script, *ARGUMENTS, cwd=cut, env=cut_at("1 8 1", signal.SIGUSR2))
    assert stopped.returncodes == [75, 75], stopped.err
    ended = run_ranks(script, *ARGUMENTS, cwd=cut)
    assert ended.returncodes == [0, 0], ended.err
    assert differing(weights(cut), weights(whole)) == []


@pytest.mark.parametrize("rung", RESUMABLE, ids=name)
def test_a_signal_asks_for_a_requeue_under_torchrun(rung: Path, tmp_path: Path) -> None:
    requeue = tmp_path / "requeue"
    asked = {**cut_at("0 3 1", signal.SIGUSR2), "REQUEUE_FILE": str(requeue)}
    stopped = torchrun(changed(rung, tmp_path), *ARGUMENTS, cwd=tmp_path, env=asked)
    assert (stopped.returncode, requeue.exists()) == (1, True), stopped.err


@pytest.mark.parametrize(("before", "after"), list(pairwise(RUNGS)), ids=name)
def test_a_rung_is_a_small_change_of_the_one_before(before: Path, after: Path) -> None:
    lines = difflib.unified_diff(before.read_text().splitlines(), after.read_text().splitlines(), n=0)
    changed = [line for line in lines if line[0] in "+-" and line[:3] not in {"+++", "---"}]
    assert len(changed) <= LIMIT


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_a_rung_needs_only_torch(rung: Path) -> None:
    nodes = list(ast.walk(ast.parse(rung.read_text())))
    imported = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    imported += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {each.partition(".")[0] for each in imported} <= sys.stdlib_module_names | {"torch"}


@pytest.mark.parametrize("rung", RUNGS, ids=name)
def test_a_rung_has_no_unused_name(rung: Path) -> None:
    text = rung.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
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
