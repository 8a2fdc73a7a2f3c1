"""docs/guide/deepspeed.md: its script on both nodes of a twin, with two ranks each and gloo."""

import re

from tests.support.twins import Testbed

from .jobs import EXAMPLES, request, run_job

CONFIG = str(EXAMPLES / "deepspeed.json")
SCRIPT = EXAMPLES / "deepspeed_config.py"


def test_every_rank_reports_once_with_the_batch_of_the_configuration_file(testbed: Testbed) -> None:
    job = run_job(testbed, "deepspeed", request("deepspeed", str(SCRIPT), launcher_config=CONFIG))
    assert (job.state, job.exit_code) == ("COMPLETED", "0:0"), job.log
    found = re.findall(r"^rank (\d) of (\d) batch (\d+)$", job.log, re.MULTILINE)
    assert sorted(found) == [(str(rank), "4", "128") for rank in range(4)], job.log


def test_a_rank_that_fails_ends_the_job(testbed: Testbed) -> None:
    text = SCRIPT.read_text().replace("    for _ in", "    assert dist.get_rank() != 3\n    for _ in")
    (testbed.folder / "failing.py").write_text(text)
    job = run_job(testbed, "deepspeed", request("deepspeed", "failing.py", launcher_config=CONFIG))
    assert (job.state, job.exit_code) == ("FAILED", "1:0"), job.log
