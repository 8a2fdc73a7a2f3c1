"""The options of Slurm's commands, and what a query and the parser of its reply agree on."""

from collections.abc import Callable

import pytest

from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import Identity, JobId
from slurmgen.slurm.replies import JobState, Usage

JOB = JobId("12")
QUERIES = [commands.squeue, commands.scontrol, commands.sacct, commands.scancel]


def test_sbatch_prints_only_the_id_and_sets_the_folder_of_the_job() -> None:
    assert commands.sbatch("/f/a.sbatch", "/f o") == ["sbatch", "--parsable", "--chdir=/f o", "/f/a.sbatch"]


def test_a_trial_submits_no_job() -> None:
    assert "--test-only" in commands.sbatch_test()


def test_the_options_fix_the_format_so_that_no_variable_changes_it() -> None:
    assert any(word.startswith("--format=") for word in commands.squeue(JOB))
    assert any(word.startswith("--format=") for word in commands.sacct(JOB))
    assert "--starttime=2000-01-01" in commands.sacct(JOB)


def test_accounting_is_asked_from_before_the_first_submission_to_after_any_clocks_now() -> None:
    times = ("2026-03-05T10:00:00+00:00", "2026-03-01T23:00:00+00:00")
    jobs = [JobId(str(number), "", Identity("n", at)) for number, at in enumerate(times)]
    assert {"--starttime=2026-02-22", "--endtime=now+2days"} <= set(commands.sacct(*jobs))
    assert "--starttime=2000-01-01" in commands.sacct(*jobs, JOB)


def test_the_name_is_the_last_field_because_it_may_contain_the_separator() -> None:
    assert commands.squeue(JOB)[-1].endswith("|%j")
    assert commands.sacct(JOB)[-1].endswith(",JobName")


@pytest.mark.parametrize("query", QUERIES)
def test_a_job_of_another_cluster_is_queried_on_that_cluster(query: object) -> None:
    assert "--clusters=big" in query(JobId("12", "big"))  # type: ignore[operator]
    assert not any(word.startswith("--clusters") for word in query(JOB))  # type: ignore[operator]


VALUES = {
    **{"%i": "12_3", "%T": "RUNNING", "%r": "None", "%M": "1:02", "%l": "5:00", "%S": "N/A", "%N": "n1"},
    **{"JobID": "12_3", "State": "RUNNING", "ExitCode": "0:0", "Elapsed": "1:02", "Timelimit": "5:00"},
    **{"Start": "Unknown", "NodeList": "n1", "AllocTRES": "cpu=2", "TotalCPU": "00:03"},
    **{"TRESUsageInTot": "", "%x": "", "%j": "None", "JobName": "None"},
    **{"%V": "N/A", "%Z": "/f", "%k": "(null)", "Submit": "Unknown", "WorkDir": "/f", "Comment": ""},
}
"What Slurm prints for each field."


@pytest.mark.parametrize(
    ("argv", "separator", "parse"),
    [(commands.squeue(JOB), "|", replies.squeue), (commands.sacct(JOB), ",", replies.sacct)],
    ids=["squeue", "sacct"],
)
def test_a_reply_is_read_in_the_order_of_the_fields_of_its_query(
    argv: list[str], separator: str, parse: Callable[[str], tuple[JobState, ...]]
) -> None:
    (names,) = (word.removeprefix("--format=") for word in argv if word.startswith("--format="))
    (state,) = parse("|".join(VALUES[name] for name in names.split(separator)))
    assert (state.id, state.state, state.reason, state.start) == ("12_3", "RUNNING", "", "")
    assert (state.elapsed, state.time_limit, state.nodes, state.name) == ("1:02", "5:00", "n1", "None")
    assert state.usage in (None, Usage(cpus=2, cpu_seconds=3))
