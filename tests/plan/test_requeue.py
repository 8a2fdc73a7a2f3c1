"""How a job asks its ranks to stop before the time limit, and when it is held."""

from pathlib import Path

import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.plan import Plan
from tests.test_script import run_under_stand_ins, script_of


def plan_of(**asked: object) -> Plan:
    return resolve(Request(requeue=True, **asked), load_site("generic"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "time", "lead"),
    [(None, "8:00:00", ("USR2", 120)), ("TERM", "1", ("TERM", 15)), ("file@300", "2:00:00", ("file", 300))],
)
def test_the_notice_comes_some_time_before_the_limit(
    how: str | None, time: str, lead: tuple[str, int]
) -> None:
    notice = plan_of(requeue_signal=how, time=time).notice
    assert notice is not None
    assert (notice.by, notice.lead) == lead


@pytest.mark.parametrize("how", ["TERM", "file"])
def test_slurm_itself_sends_a_signal_only_for_usr2(how: str) -> None:
    assert "signal" not in dict(plan_of(requeue_signal=how).directives)
    assert dict(plan_of(requeue_signal="USR2@60").directives)["signal"] == "USR2@60"


@pytest.mark.parametrize(("framework", "ranks"), [("ddp", "$(cat /proc/$$/task/*/children)"), ("srun", "$$")])
def test_term_reaches_the_children_of_a_launcher_or_the_task_that_is_the_rank(
    framework: str, ranks: str
) -> None:
    text = render(plan_of(framework=framework, gpus=2, requeue_signal="TERM"))
    assert f"kill -TERM {ranks};" in " ".join(text.split())


def test_the_script_says_what_the_training_must_do() -> None:
    said = {how: render(plan_of(requeue_signal=how)) for how in ("USR2", "TERM", "file")}
    assert "# Before the time limit, Slurm sends USR2. Launchers ignore it; ranks must" in said["USR2"]
    assert "# 120 s before the time limit, each task sends TERM to its ranks." in said["TERM"]
    assert "# 120 s before the time limit, STOP_FILE appears." in said["file"]


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ({"requeue": True, "requeue_signal": "TERM@3600", "time": "1:00:00"}, "not within the 3600 seconds"),
        ({"requeue": True, "requeue_signal": "TERM@0"}, "not within"),
        (
            {"requeue": True, "requeue_signal": "USR1"},
            "'USR1' is not valid; it must be USR2, TERM or file, .* as in TERM@300",
        ),
        ({"requeue_signal": "TERM"}, "has no effect without --requeue"),
        ({"requeue": True, "env": {"STOP_FILE": "x"}}, "--env STOP_FILE"),
    ],
)
def test_a_wrong_notice_is_rejected(asked: dict[str, object], fact: str) -> None:
    with pytest.raises(RequestError, match=fact):
        resolve(Request(**asked), load_site("generic"))  # type: ignore[arg-type]


REPORTS = {
    "a greater step each time": (["echo 5 >", "echo 9 >"], ["requeue", "requeue"]),
    "the same step": (["echo 5 >", "echo 5 >", "echo 5 >"], ["requeue", "requeue", "requeuehold"]),
    "a number with a leading zero": (["echo 08 >", "echo 09 >"], ["requeue", "requeue"]),
    "text that is not a number": (["echo 'a[$(id)]' >"] * 2, ["requeue", "requeuehold"]),
    "new files": (["echo x >model.pt; touch"] * 3, ["requeue"] * 3),
    "no file but a log": (["echo x >train.out; touch"] * 2, ["requeue", "requeuehold"]),
}


@pytest.mark.parametrize("case", REPORTS)
def test_a_job_is_held_after_two_runs_without_progress(
    case: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    runs, commands = REPORTS[case]
    folder = tmp_path_factory.mktemp("job")
    text = script_of("generic", gpus=2, requeue=True)
    called = []
    for number, run in enumerate(runs):
        steps = f'/usr/bin/sleep 0.05; {run} "$REQUEUE_FILE"; exit 1'
        again = {"SLURM_RESTART_COUNT": str(number)}
        called += run_under_stand_ins(text, steps, folder, **again)[1][-1:]
    assert [line.split()[0] for line in called] == commands


@pytest.mark.parametrize(
    ("report", "shown"),
    [("true >", "no step recorded"), ("echo 0 >", "at step 0"), ("echo 07 >", "at step 7")],
)
def test_the_log_names_a_step_only_if_the_script_has_written_one(
    report: str, shown: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = script_of("generic", gpus=2, requeue=True)
    run_under_stand_ins(text, f'{report} "$REQUEUE_FILE"; exit 1', tmp_path)
    assert f"slurmgen: run 1 is unfinished, {shown}, " in capfd.readouterr().out
