"""docs/guide/checkpoints.md: its script, killed and stopped, ends with the weights of an undisturbed run."""

import re
import runpy
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch

from tests.support.ranks import Ended

from .pages import shown_output
from .running import GUIDE, REPOSITORY, run, run_ranks, torchrun

SCRIPT = "checkpoints.py"
LAUNCH = ["--standalone", "--nproc-per-node=2", "--max-restarts=1"]
# Not whole lines: torchrun starts Python with -u, so that lines of two ranks may mix.
STARTS = re.compile(r"rank (\d+) of (\d+) starts at step (\d+)")
DONE = re.compile(r"rank \d+ done: weights (\d+\.\d{9})")


def weights(done: Ended) -> set[str]:
    """What the ranks print at their end."""
    assert done.returncode == 0, done.err
    found = DONE.findall(done.out)
    assert found
    return set(found)


def starts(done: Ended) -> list[int]:
    """The first step of each start of rank 0."""
    return [int(step) for rank, _, step in STARTS.findall(done.out) if rank == "0"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return weights(run_ranks(SCRIPT, "--run-dir", str(tmp_path_factory.mktemp("undisturbed"))))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The last rank is killed in step 10; torchrun restarts the ranks."""
    asked = [GUIDE / SCRIPT, "--run-dir", tmp_path_factory.mktemp("killed"), "--send", "9", "10"]
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return run(sys.executable, "-m", "torch.distributed.run", *LAUNCH, *asked, env=own_store)


def test_all_ranks_agree(undisturbed: set[str]) -> None:
    assert len(undisturbed) == 1


def test_a_killed_rank_restarts_all_ranks_from_the_checkpoint(killed: Ended) -> None:
    assert sorted(STARTS.findall(killed.out)) == [
        ("0", "2", "0"),
        ("0", "2", "8"),
        ("1", "2", "0"),
        ("1", "2", "8"),
    ]


def test_a_killed_run_ends_with_the_weights_of_an_undisturbed_one(
    killed: Ended, undisturbed: set[str]
) -> None:
    assert weights(killed) == undisturbed


def test_the_page_shows_the_output_of_the_killed_run(killed: Ended) -> None:
    shown = shown_output(
        "checkpoints", f"torchrun {' '.join(LAUNCH)} examples/guide/checkpoints.py --send 9 10"
    )
    assert sorted(STARTS.findall(shown)) == sorted(STARTS.findall(killed.out))
    (there,) = set(DONE.findall(shown))  # by another processor, whose kernels add in another order
    assert float(*weights(killed)) == pytest.approx(float(there), rel=1e-6)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """One rank gets SIGUSR2 in step 5."""
    folder = tmp_path_factory.mktemp("stopped")
    send = ["--send", str(int(signal.SIGUSR2)), "5"]
    return folder, torchrun(
        SCRIPT, "--run-dir", str(folder), *send, env={"REQUEUE_FILE": str(folder / "again")}
    )


def test_a_signal_to_one_rank_stops_all_after_the_same_step(stopped: tuple[Path, Ended]) -> None:
    folder, done = stopped
    assert (done.returncode, (folder / "again").exists()) == (1, True)
    assert torch.load(folder / "checkpoint.pt")["step"] == 6
    assert "exitcode: 75" in re.sub(r"exitcode *: *", "exitcode: ", done.err)


def test_a_stopped_run_continues_to_the_weights_of_an_undisturbed_one(
    stopped: tuple[Path, Ended], undisturbed: set[str], tmp_path: Path
) -> None:
    done = run_ranks(SCRIPT, "--run-dir", str(shutil.copytree(stopped[0], tmp_path / "copy")))
    assert starts(done) == [6]
    assert weights(done) == undisturbed


def test_a_checkpoint_of_two_ranks_continues_on_three_but_not_bit_for_bit(
    stopped: tuple[Path, Ended], undisturbed: set[str], tmp_path: Path
) -> None:
    done = run_ranks(SCRIPT, "--run-dir", str(shutil.copytree(stopped[0], tmp_path / "copy")), ranks=3)
    assert starts(done) == [6]
    (other,) = weights(done)
    assert float(other) == pytest.approx(float(*undisturbed), rel=0.02)
    assert other not in undisturbed


@pytest.mark.usefixtures("process_group")
def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    save = runpy.run_path(str(GUIDE / SCRIPT))["save"]
    with pytest.raises(SystemExit, match="NaN or infinite"):
        save(tmp_path / "checkpoint.pt", {"model": {"weight": torch.tensor([1, torch.nan])}})
    assert list(tmp_path.iterdir()) == []


STOPS = [GUIDE / SCRIPT, GUIDE / "lightning_trainer.py", *(REPOSITORY / "examples/requeue").glob("*.py")]


@pytest.mark.parametrize("script", [path for path in STOPS if "reduce" in path.read_text()], ids=str)
def test_a_flag_is_not_read_from_the_gpu_in_each_step(script: Path) -> None:
    """`reduce_boolean_decision`, `check_trigger` and an `if` of a reduced tensor wait for the GPU."""
    text = script.read_text()
    (reading,) = re.findall(
        r"% (?:CHECK_)?EVERY\b(?:.*\n){0,3}?.*(any_rank_stops|stop|boolean_decision|check_trigger)\(", text
    )
    assert len(re.findall(rf"(?<!def ){reading}\(", text)) == 1
