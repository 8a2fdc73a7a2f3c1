"""docs/launchers/hf-trainer.md: its script on both nodes of a twin, with two ranks each and gloo."""

import re

import pytest

from tests.support.twins import Testbed

from .jobs import EXAMPLES, request, run_job

SCRIPT = (EXAMPLES / "hf_trainer.py").read_text()
STOP_RANK_3 = """\
        if state.global_step == 5 and args.process_index == 3:
            signal.raise_signal(signal.SIGTERM)
        asked = """


def ends(log: str) -> list[tuple[str, str]]:
    return sorted(re.findall(r"^rank (\d) ended at step (\d+) of 400$", log, re.MULTILINE))


@pytest.fixture
def script(testbed: Testbed, request: pytest.FixtureRequest) -> str:
    """The name of a script of the test's own, in whose folder it also saves."""
    return f"{request.node.name}.py"


def test_a_signal_to_one_rank_stops_all_ranks_and_the_next_start_continues(
    testbed: Testbed, script: str
) -> None:
    own = SCRIPT.replace("runs/hf-trainer", "runs/stopped")
    for text, step in ((own.replace("        asked = ", STOP_RANK_3), "5"), (own, "400")):
        (testbed.folder / script).write_text(text)
        job = run_job(testbed, "transformers", request("hf-trainer", script))
        assert (job.state, job.exit_code) == ("COMPLETED", "0:0"), job.log
        assert ends(job.log) == [(str(rank), step) for rank in range(4)], job.log
        assert sorted(re.findall(r"rank (\d) of 4\b", job.log)) == ["0", "1", "2", "3"]


def test_a_rank_that_fails_ends_the_job(testbed: Testbed, script: str) -> None:
    text = SCRIPT.replace("    trainer.train(", "    assert args.process_index != 3\n    trainer.train(")
    (testbed.folder / script).write_text(text)
    job = run_job(testbed, "transformers", request("hf-trainer", script))
    assert (job.state, job.exit_code) == ("FAILED", "1:0"), job.log
