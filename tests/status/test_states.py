"""Every state of squeue(1) and sacct(1), and the exit codes of scripts, as `status` and `wait` report them.

The jobs of one table run at once, on a twin with accounting and on one without. States that Slurm on one
machine does not reach are in replies of a stand-in.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slurmgen.slurm import commands
from slurmgen.slurm.replies import ACTIVE, ENDED, WAITING
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import UNKNOWN, WAY, Machine
from tests.submit.test_after import Cluster
from tests.support.accounting import ACCOUNT, restart
from tests.support.twins import Testbed, eventually, slurm, twin

LAST = "127.0.0.3"
"The node of jobs that are preempted, or whose node fails; the others exclude it."
CONFIGURATION = """PrologSlurmctld={0}/prolog
Epilog={0}/epilog
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=low Nodes={1} PriorityTier=1 PreemptMode=CANCEL
PartitionName=high Nodes={1} PriorityTier=9
PartitionName=closed Nodes={1} State=DOWN
"""
SLEEP = "exec sleep 3600"


class End(NamedTuple):
    """A job that ends: its script, and how `status --json`, `wait` and `status` report its end."""

    script: str
    exit_code: int | None
    signal: int | None
    code: int
    text: str
    state: str = "FAILED"
    options: str = ""


def _coded(code: int) -> End:
    words = {
        0: "with exit code 0:0",
        126: "a command of its script cannot be executed",
        127: "a command of its script was not found",
        137: "it ended with SIGKILL",
        139: "it ended with SIGSEGV",
        143: "it ended with SIGTERM",
    }
    text = words.get(code, f"its script ended with exit code {code}\n")
    return End(f"exit {code}", code, None, code, text, "FAILED" if code else "COMPLETED")


def _killed(script: str, signal: int, name: str) -> End:
    return End(script, None, signal, 128 + signal, f"it ended with {name}")


CODES = (0, 1, 2, 75, 126, 127, 128, 129, 137, 139, 143, 200, 255)
ENDS = {f"exit-{code}": _coded(code) for code in CODES} | {
    "shell-9": _killed("kill -9 $$", 9, "SIGKILL"),
    "shell-15": _killed("kill -15 $$", 15, "SIGTERM"),
    "exec-11": _killed("exec sh -c 'kill -11 $$'", 11, "SIGSEGV"),
    "child-9": End("sh -c 'kill -9 $$'; exit", 137, None, 137, "ended with SIGKILL"),
    "step-9": End("srun sh -c 'kill -9 $$'", 137, None, 137, "task 0 on {node} ended with SIGKILL"),
    "step-200": End("srun sh -c 'exit 200'", 200, None, 200, "task 0 on {node} ended with exit code 200"),
    "step-ignored": End("srun sh -c 'exit 200' || true", 0, None, 0, "exit code 0:0", "COMPLETED"),
    "rank-9": End(
        "srun sh -c '[ $SLURM_PROCID = 0 ] || kill -9 $$'", 137, None, 137, "SIGKILL", options="--ntasks=2"
    ),
    "no-program": End("srun nosuch", 2, None, 2, "command not found: nosuch"),
    "no-environment": End("srun ours", 2, None, 2, "command not found: ours", options="--export=NONE"),
    "cancelled": End(SLEEP, None, 15, 143, "it was cancelled", "CANCELLED"),
    "never-started": End(SLEEP, None, 15, 143, "it was cancelled", "CANCELLED", "--hold"),
    "timeout": End(SLEEP, None, 15, 143, "it reached its time limit of 00:01:00", "TIMEOUT", "--time=1"),
    "deadline": End(
        SLEEP, None, 15, 143, "its --deadline", "DEADLINE", "--hold --time=2 --deadline=now+1hour"
    ),
    "preempted": End(
        SLEEP, None, 15, 143, "a job of higher priority", "PREEMPTED", "--partition=low --exclusive"
    ),
    "node-fail": End(
        SLEEP, None, None, 1, "one of its nodes failed", "NODE_FAIL", "--partition=low --no-requeue"
    ),
}
STEPPED = ("step", "rank", "no-")
"How the names of jobs begin whose exit code is that of a step."
ARRAY = {0: 0, 1: 1, 137: 137, 255: 255}
SEVERAL = ("array", "heterogeneous")


class Active(NamedTuple):
    """A job that has not ended."""

    state: str
    text: str = ""
    options: str = ""
    act: str = ""
    "A command of Slurm once it runs."


HELD = "it was requeued, and is held"
ACTIVES = {
    "running": Active("RUNNING"),
    "held": Active("PENDING", "it is held; `scontrol release`", "--hold"),
    "later": Active("PENDING", "it waits for its start time", "--begin=now+1hour"),
    "after": Active("PENDING", "it waits for another job", "--dependency=afterok:{held}"),
    "closed": Active("PENDING", "its partition is down", "--partition=closed"),
    "suspended": Active("SUSPENDED", act="scontrol suspend {job}"),
    "stopped": Active("STOPPED", act="scancel --signal=STOP {job}"),
    "requeued": Active("PENDING", "it waits for its start time", "--requeue", "scontrol requeue {job}"),
    "requeue-hold": Active("PENDING", HELD, "--requeue", "scontrol requeuehold {job}"),
    "special": Active("SPECIAL_EXIT", HELD, "--requeue", "scontrol requeuehold State=SpecialExit {job}"),
    "reserved": Active(
        "RESV_DEL_HOLD", "its reservation was deleted", "--reservation=brief --begin=now+1hour"
    ),
    "configuring": Active("CONFIGURING", options="--hold"),
    "completing": Active("COMPLETING", options="--hold"),
}


class Jobs(NamedTuple):
    """All jobs of the tables on one twin, as slurmgen reports them."""

    cluster: Cluster
    objects: dict[str, Any]
    codes: dict[str, int]
    texts: dict[str, str]


def _configured(testbed: Testbed) -> None:
    for program, kept in (("prolog", "starting"), ("epilog", "ending")):
        path = testbed.folder / program
        path.write_text(
            f"#!/bin/sh\nwhile [ -e {testbed.folder}/{kept}-$SLURM_JOB_ID ]; do sleep 0.2; done\n"
        )
        path.chmod(0o755)
    with testbed.twin.slurm_conf.open("a") as conf:
        conf.write(CONFIGURATION.format(testbed.folder, LAST))
    restart(testbed)


def _state(testbed: Testbed, job: str) -> str:
    return testbed.tried("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}").strip()


def _reaches(testbed: Testbed, job: str, state: str) -> None:
    eventually(lambda: _state(testbed, job) == state)


def _options(text: str) -> list[str]:
    is_placed = "--partition" in text or "--reservation" in text
    return text.split() if is_placed else [*text.split(), f"--exclude={LAST}"]


def _submit_all(cluster: Cluster) -> None:
    """Submit the jobs of both tables, and do to them what brings them into their states."""
    run, folder, ids = cluster.testbed.run, cluster.testbed.folder, cluster.ids
    reservation = f"reservation=brief starttime=now duration=60 nodes={LAST} users=root flags=IGNORE_JOBS"
    run("scontrol", "create", *reservation.split())
    first = ("timeout", "preempted")
    for name in (*first, *(ENDS.keys() - set(first) - {"node-fail"})):
        cluster.submit(name, ENDS[name].script, *_options(ENDS[name].options))
    cluster.submit("array", "exit $SLURM_ARRAY_TASK_ID", *_options(f"--array={','.join(map(str, ARRAY))}"))
    component = f"#SBATCH --mem=50M --exclude={LAST}"
    cluster.submit("heterogeneous", f"{component}\n#SBATCH hetjob\n{component}\nexit 137", *_options(""))
    for name, active in ACTIVES.items():
        script = "true" if name == "completing" else SLEEP
        cluster.submit(name, script, *_options(active.options.format(**ids)))
    for name, kept in (("configuring", "starting"), ("completing", "ending")):
        (folder / f"{kept}-{ids[name]}").touch()
        run("scontrol", "release", ids[name])
    run("scontrol", "update", "reservationname=brief", "endtime=now+20seconds")


def _bring_about(cluster: Cluster) -> None:
    run, ids = cluster.testbed.run, cluster.ids
    run("scancel", ids["never-started"])
    run("scontrol", "update", f"jobid={ids['deadline']}", "deadline=now+1minute")
    run("scontrol", "release", ids["deadline"])
    for name in ("cancelled", *(name for name, active in ACTIVES.items() if active.act)):
        _reaches(cluster.testbed, ids[name], "RUNNING")
        run(*("scancel {job}" if name == "cancelled" else ACTIVES[name].act).format(job=ids[name]).split())
    _reaches(cluster.testbed, ids["requeued"], "PENDING")
    run("scontrol", "update", f"jobid={ids['requeued']}", "starttime=now+1hour")
    _reaches(cluster.testbed, ids["preempted"], "RUNNING")
    cluster.submit("winner", "true", "--partition=high", "--exclusive")
    _reaches(cluster.testbed, ids["winner"], "COMPLETED")
    cluster.submit("node-fail", SLEEP, *ENDS["node-fail"].options.split())
    _reaches(cluster.testbed, ids["node-fail"], "RUNNING")
    run("scontrol", "update", f"nodename={LAST}", "state=down", "reason=test")


def _reported(cluster: Cluster) -> Jobs:
    for name, active in ACTIVES.items():
        _reaches(cluster.testbed, cluster.ids[name], active.state)
    names = [*ENDS, *SEVERAL]
    ids = [cluster.ids[name] for name in names]
    ended = cluster.slurmgen("wait", *ids, "--json", "--then", "sh -c 'echo codes: $SLURMGEN_EXIT_CODE'")
    codes = re.findall(r"^codes: (.*)$", ended.stderr, re.MULTILINE)[0].split()
    active = [cluster.ids[name] for name in ACTIVES]
    objects = [*json.loads(ended.stdout)["jobs"], *cluster.json("status", *active)["jobs"]]
    shown = cluster.slurmgen("status", *ids, *active).stdout
    texts = re.split(r"^(?=job )", shown, flags=re.MULTILINE)[1:]
    by_id = {re.split(r"[ _]", text)[1]: text for text in texts}
    return Jobs(
        cluster,
        dict(zip([*names, *ACTIVES], objects, strict=True)),
        dict(zip(names, map(int, codes), strict=True)),
        {name: by_id[cluster.ids[name]] for name in [*names, *ACTIVES]},
    )


@pytest.fixture(scope="module")
def both() -> Iterator[dict[str, Jobs]]:
    with ExitStack() as stack:
        clusters = {
            kind: Cluster(stack.enter_context(twin("generic", nodes=3, accounts=accounts)))
            for kind, accounts in (("accounting", [ACCOUNT]), ("no accounting", []))
        }
        steps: tuple[Callable[[Cluster], object], ...] = (
            lambda cluster: _configured(cluster.testbed),
            _submit_all,
            _bring_about,
        )
        for step, cluster in itertools.product(steps, clusters.values()):
            step(cluster)
        yield {kind: _reported(cluster) for kind, cluster in clusters.items()}


@pytest.fixture(params=["accounting", "no accounting"])
def jobs(request: pytest.FixtureRequest, both: dict[str, Jobs]) -> Jobs:
    return both[request.param]


@pytest.mark.parametrize("name", ENDS)
def test_how_a_job_ended_is_reported(jobs: Jobs, name: str) -> None:
    expected, found, text = ENDS[name], jobs.objects[name], jobs.texts[name]
    assert (found["state"], found["ended"]) == (expected.state, True)
    assert (found["exit_code"], found["other_exit_code"]) == (expected.exit_code, None)
    assert (found["signal"], jobs.codes[name]) == (expected.signal, expected.code)
    assert f" is {expected.state}" in text
    assert expected.text.format(node=found["nodes"]) in text
    assert (" with exit code " in text) == (expected.state in ("COMPLETED", "FAILED"))


def test_a_program_that_was_not_found_without_the_environment_is_explained(both: dict[str, Jobs]) -> None:
    text = both["accounting"].texts["no-environment"]
    assert "why: command not found: ours" in text
    assert "; it was submitted with --export=NONE, which srun follows too" in text
    assert "do: Add --export=ALL to each srun" in text
    assert "--export" not in both["accounting"].texts["no-program"]


def test_how_the_tasks_of_an_array_ended_is_reported(jobs: Jobs) -> None:
    found = jobs.objects["array"]
    assert {int(task["id"].split("_")[1]): task["exit_code"] for task in found["tasks"]} == ARRAY
    assert (found["state"], jobs.codes["array"]) == ("FAILED", 1)
    assert jobs.cluster.slurmgen("wait", f"{found['id']}_255").returncode == 255


def test_how_the_components_of_a_heterogeneous_job_ended_is_reported(jobs: Jobs) -> None:
    found = jobs.objects["heterogeneous"]
    tasks = {task["id"].partition("+")[2]: (task["state"], task["exit_code"]) for task in found["tasks"]}
    assert tasks == {"0": ("FAILED", 137), "1": ("FAILED", 137)}
    assert (found["exit_code"], found["other_exit_code"], jobs.codes["heterogeneous"]) == (137, None, 137)


@pytest.mark.parametrize("name", ACTIVES)
def test_the_state_of_a_job_that_has_not_ended_is_reported(jobs: Jobs, name: str) -> None:
    expected, found, text = ACTIVES[name], jobs.objects[name], jobs.texts[name]
    assert (found["state"], found["ended"], found["exit_code"], found["why"]) == (
        expected.state,
        False,
        None,
        None,
    )
    assert f" is {expected.state}" in text
    assert expected.text in text
    assert "with exit code" not in text


def test_wait_ends_for_no_state_of_a_job_that_has_not_ended(jobs: Jobs) -> None:
    ids = [jobs.cluster.ids[name] for name in ACTIVES]
    assert jobs.cluster.slurmgen("wait", *ids, "--timeout", "0").returncode == 124


def _forgetting(cluster: Cluster) -> str:
    """A PATH on which the controller has forgotten every job."""
    folder = cluster.testbed.folder / "forgetting"
    folder.mkdir(exist_ok=True)
    for name in ("squeue", "scontrol"):
        (folder / name).write_text(f"#!/bin/sh\n{UNKNOWN}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{cluster.testbed.environ['PATH']}"


def test_an_exit_code_that_only_accounting_has_is_exact_or_both_are_reported(both: dict[str, Jobs]) -> None:
    """sacct prints 137 as 9; before 23.02 only the codes of steps are right in accounting."""
    jobs = both["accounting"]
    names = [name for name, end in ENDS.items() if end.exit_code and end.state == "FAILED"]
    ids, path = [jobs.cluster.ids[name] for name in names], _forgetting(jobs.cluster)
    # slurmdbd may receive a job before its steps, whose codes alone are exact.
    stepped = [jobs.cluster.ids[name] for name in names if name.startswith(STEPPED)]
    words = ("sacct", "-nPj", ",".join(f"{job}.0" for job in stepped), "-o", "state")
    eventually(lambda: len(jobs.cluster.testbed.run(*words, "-s", "F").split()) == len(stepped))
    reply = jobs.cluster.slurmgen("status", *ids, *WAY, "--json", PATH=path, XDG_STATE_HOME="/nonexistent")
    found = dict(zip(names, json.loads(reply.stdout)["jobs"], strict=True))
    old = slurm().version < (23, 2)
    for name, one in found.items():
        code = ENDS[name].exit_code or 0
        pair = (code % 128, code % 128 + 128) if old and not name.startswith(STEPPED) else (code, None)
        assert (one["exit_code"], one["other_exit_code"]) == pair, name
        assert pair[1] is None or one["why"]["what"].endswith(
            f"exit code {f'{pair[0]} or ' * bool(pair[0])}{pair[1]}"
        )
        assert pair[1] is None or one["why"]["todo"] == ""


def test_an_exact_exit_code_is_remembered(both: dict[str, Jobs]) -> None:
    jobs = both["accounting"]
    names = ["exit-137", "exit-255", "exit-75"]
    ids = [jobs.cluster.ids[name] for name in names]
    reply = jobs.cluster.slurmgen("status", *ids, "--json", PATH=_forgetting(jobs.cluster))
    found = json.loads(reply.stdout)["jobs"]
    assert [(one["exit_code"], one["other_exit_code"]) for one in found] == [
        (137, None),
        (255, None),
        (75, None),
    ]


COMPACT = {
    **{"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING"},
    **{"DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING"},
    **{"PR": "PREEMPTED", "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD"},
    **{"RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "SE": "SPECIAL_EXIT"},
    **{"SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED", "TO": "TIMEOUT"},
}
"The table of squeue(1)."
FLAGS = ("EXPEDITING", "LAUNCH_FAILED", "POWER_UP_NODE", "RECONFIG_FAIL", "UPDATE_DB")
"Further words of https://slurm.schedmd.com/job_state_codes.html up to Slurm 26.05."
FUTURE = ("HIBERNATED", "?", "COMPLETED,COMPLETING")


def test_every_word_of_the_documentation_is_known() -> None:
    assert {*COMPACT.values(), *FLAGS} == ENDED | ACTIVE
    assert ENDED.isdisjoint(ACTIVE)
    assert WAITING < ACTIVE


@pytest.mark.parametrize("program", ["squeue", "sacct"])
def test_every_word_of_a_reply_is_reported(tmp_path: Path, slurmgen: Run, program: str) -> None:
    """Replies with each state, also with those that a Slurm on one machine does not reach."""
    machine = Machine(tmp_path, slurmgen)
    table = {"squeue": commands.SQUEUE, "sacct": commands.SACCT}[program]
    words = [*COMPACT, *COMPACT.values(), *FLAGS, *FUTURE]
    ids = {str(100 + number): word for number, word in enumerate(words)}
    cells = ({"id": id_, "state": word, "name": "a", "exit_code": "0:0"} for id_, word in ids.items())
    machine.says(
        program, "".join("|".join(row.get(one.attribute, "") for one in table) + "\n" for row in cells)
    )
    code, out, err = machine.slurmgen("status", *ids, *WAY, "--json")
    assert code == (0 if program == "squeue" else 3), err
    for one, word in zip(json.loads(out)["jobs"], ids.values(), strict=True):
        state = COMPACT.get(word, word)
        # Accounting alone says nothing of a job that has not ended: its record may never have been closed.
        known = state if program == "squeue" or state not in ACTIVE else "UNKNOWN"
        assert (one["state"], one["ended"]) == (known, known in ENDED)
