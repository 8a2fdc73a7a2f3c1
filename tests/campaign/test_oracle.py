"""The judge finds each kind of wrong reply, and accepts the right ones."""

import json
from dataclasses import replace

import pytest

from tests.campaign.__main__ import Made, table
from tests.campaign.oracle import (
    CANCELLATION,
    EARLY,
    HUNG,
    RIGHT,
    STATEMENT,
    TRACEBACK,
    UNKNOWN,
    WRONG,
    Reply,
    Truth,
    Verdict,
    judge,
)

RUNS = Truth("12", "train", frozenset({"RUNNING"}), age=5, log=("one\n", "one\ntwo\n"))
FAILED = Truth("12", "train", frozenset({"FAILED"}), exit_code=7, age=5, log=("one\ntwo\n",) * 2)
LINE = "job 12 (train) is RUNNING after 00:00:04 on n1"


def as_json(**values: object) -> str:
    known = {"id": "12", "name": "train", "state": "RUNNING", "ended": False, "exit_code": None, "elapsed": 4}
    return json.dumps(known | values)


PLANTED = {
    "another state": (STATEMENT, RUNS, "status", 0, LINE.replace("RUNNING", "COMPLETED"), ""),
    "another name": (STATEMENT, RUNS, "status", 0, LINE.replace("train", "someone"), ""),
    "too old": (STATEMENT, RUNS, "status", 0, LINE.replace("00:00:04", "00:10:00"), ""),
    "a row with another state": (STATEMENT, RUNS, "top", 0, "12  train  generic  PENDING  0:04", ""),
    "nothing": (STATEMENT, RUNS, "status", 0, "", ""),
    "gone": (STATEMENT, RUNS, "status", 3, "job 12 (train) is gone from the records of generic", ""),
    "GONE": (STATEMENT, RUNS, "status", 3, "job 12 (train) is GONE", ""),
    "not listed": (STATEMENT, RUNS, "status", 3, "job 12 is UNKNOWN: Slurm does not list it yet", ""),
    "not in the queue": (STATEMENT, RUNS, "shell", 2, "", "error: job 12 is not in the queue, not RUNNING"),
    "ended already": (STATEMENT, RUNS, "cancel", 0, "", "job 12 has ended already"),
    "refused": (STATEMENT, RUNS, "wait", 3, "", "error: far refused the login of root"),
    "pruned": (STATEMENT, RUNS, "logs", 1, "", "error: the folder of job 12 was pruned"),
    "no files": (STATEMENT, FAILED, "fetch", 0, "", "job 12 did not create or change any files"),
    "JSON with another state": (STATEMENT, RUNS, "status", 0, as_json(state="PENDING"), ""),
    "JSON with an end": (STATEMENT, RUNS, "status", 0, as_json(ended=True), ""),
    "JSON with a wrong name": (STATEMENT, RUNS, "status", 0, as_json(name="allocation"), ""),
    "JSON that is too old": (STATEMENT, RUNS, "status", 0, as_json(elapsed=600), ""),
    "JSON with another exit code": (STATEMENT, FAILED, "status", 0, as_json(state="FAILED", exit_code=1), ""),
    "the page with another state": (STATEMENT, RUNS, "page", 0, '<div data-state="FAILED">', ""),
    "another exit code": (STATEMENT, FAILED, "wait", 1, LINE.replace("RUNNING", "FAILED"), ""),
    "an exit code without an end": (EARLY, replace(RUNS, must_know=True), "wait", 3, "", "error: no reply"),
    "before the end": (EARLY, RUNS, "wait", 0, "", ""),
    "gave up": (EARLY, replace(RUNS, must_know=True), "status", 3, "", "error: squeue: rate limit"),
    "noise in the log": (STATEMENT, FAILED, "logs", 0, "Welcome!\none\ntwo\n", ""),
    "half of the log": (STATEMENT, FAILED, "logs", 0, "one\n", ""),
    "half of the log that was followed": (STATEMENT, FAILED, "logs -f", 1, "one\n", ""),
    "followed to another end": (STATEMENT, FAILED, "logs -f", 0, "one\ntwo\n", ""),
    "a line twice": (STATEMENT, FAILED, "logs -f", 1, "one\none\ntwo\n", ""),
    "JSON without the size": (
        STATEMENT,
        FAILED,
        "logs --json",
        0,
        '{"id": "12", "size": null, "text": null}',
        "",
    ),
    "no effect": (STATEMENT, replace(RUNS, result="it still runs"), "cancel", 0, "", "asked Slurm to cancel"),
    "no error": (STATEMENT, RUNS, "fetch", 1, "", ""),
    "another job": (CANCELLATION, replace(RUNS, harmed=("job 13 is CANCELLED",)), "cancel", 0, "", ""),
    "a bug": (TRACEBACK, RUNS, "status", 1, "", "Traceback (most recent call last):\n  File"),
    "exit code of a bug": (TRACEBACK, RUNS, "status", 70, "", "error: this is a bug"),
    "killed": (HUNG, RUNS, "wait", None, "", ""),
}
RIGHTS = {
    "running": (RIGHT, RUNS, "status", 0, LINE, ""),
    "running, as JSON": (RIGHT, RUNS, "status", 0, as_json(), ""),
    "failed": (
        RIGHT,
        FAILED,
        "wait",
        7,
        "job 12 (train) is FAILED after 00:00:04 on n1 with exit code 7:0",
        "",
    ),
    "a log that grows": (RIGHT, RUNS, "logs", 0, "one\ntw", ""),
    "followed": (RIGHT, FAILED, "logs -f", 1, "one\ntwo\n", "job 12 (train) is FAILED"),
    "its log says anything": (
        RIGHT,
        replace(FAILED, log=("job 12 (x) is GONE\n",) * 2),
        "logs",
        0,
        "job 12 (x) is GONE\n",
        "",
    ),
    "not known": (UNKNOWN, RUNS, "status", 3, "", "error: the connection to far broke"),
    "not known, after a part": (UNKNOWN, RUNS, "logs", 3, "one\n", "error: the connection to far broke"),
    "unknown": (UNKNOWN, RUNS, "status", 3, "job 12 (train) is UNKNOWN: squeue did not reply", ""),
    "forgotten": (UNKNOWN, replace(FAILED, forgotten=True), "status", 3, "job 12 (train) is GONE", ""),
    "older by a wrong clock": (
        RIGHT,
        replace(RUNS, skewed=True),
        "status",
        0,
        LINE.replace("00:00", "23:00"),
        "",
    ),
}


def judged(name: str) -> Verdict:
    _, truth, command, code, out, err = (PLANTED | RIGHTS)[name]
    return judge(Reply(command, code, out, err, before_end=name == "before the end"), truth)


@pytest.mark.parametrize("name", [*PLANTED, *RIGHTS])
def test_the_judge(name: str) -> None:
    assert judged(name).kind == (PLANTED | RIGHTS)[name][0], judged(name)


def test_each_kind_of_wrong_reply_is_counted() -> None:
    assert {kind for kind, *_ in PLANTED.values()} == set(WRONG)
    made = [
        Made(number, "cut", PLANTED[name][2], "generic", judged(name), 1.0)
        for number, name in enumerate(PLANTED)
    ]
    text = table([*made, Made(99, "none", "wait", "generic", Verdict(RIGHT), 1.0)])
    for kind in WRONG:
        count = sum(kind == wanted for wanted, *_ in PLANTED.values())
        assert f"{count} {kind}" in text.splitlines()[-1]
    assert f"{len(PLANTED) + 1} trials: 1 right" in text
