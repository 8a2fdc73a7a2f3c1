import pytest

from slurmgen.slurm import commands
from slurmgen.slurm.commands import JobId

JOB = JobId("12")
ASKED = [commands.squeue, commands.scontrol, commands.sacct, commands.scancel]


def test_sbatch_answers_with_the_id_alone_and_runs_in_the_folder() -> None:
    assert commands.sbatch("/f/a.sbatch", "/f o") == ["sbatch", "--parsable", "--chdir=/f o", "/f/a.sbatch"]


def test_a_trial_makes_no_job() -> None:
    assert "--test-only" in commands.sbatch_test()


def test_formats_are_fixed_so_that_no_variable_changes_them() -> None:
    assert any(word.startswith("--format=") for word in commands.squeue(JOB))
    assert any(word.startswith("--format=") for word in commands.sacct(JOB))
    assert "--starttime=2000-01-01" in commands.sacct(JOB)


def test_a_name_stands_last_since_it_may_hold_the_separator() -> None:
    assert commands.squeue(JOB)[-1].endswith("|%j")
    assert commands.sacct(JOB)[-1].endswith(",JobName")


@pytest.mark.parametrize("ask", ASKED)
def test_a_job_of_another_cluster_is_asked_for_there(ask: object) -> None:
    assert "--clusters=big" in ask(JobId("12", "big"))  # type: ignore[operator]
    assert not any(word.startswith("--clusters") for word in ask(JOB))  # type: ignore[operator]
