"""The judge of a trial: what a command printed, against what was true. Pure, and independent of slurmgen.

A command may say that it does not know; it may not say what is false, act on another job, or end too early.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

RIGHT, UNKNOWN = "right", "does not know"
STATEMENT, CANCELLATION, EARLY = "wrong statement", "wrong cancellation", "ended early"
TRACEBACK, HUNG = "traceback", "hung"
WRONG = (STATEMENT, CANCELLATION, EARLY, TRACEBACK, HUNG)
ACTIVE = frozenset({"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"})
STATES = ACTIVE | set("COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL OUT_OF_MEMORY GONE UNKNOWN".split())
UNREACHED = 3
SLACK = 60
"Seconds that a time may be off on a busy machine."


@dataclass(frozen=True)
class Reply:
    """What a command did."""

    command: str
    code: int | None
    "None if it had to be killed."
    out: str = ""
    err: str = ""
    before_end: bool = False
    "Whether it ended before the job that it waits for."


@dataclass(frozen=True)
class Truth:
    """What was true of the job that a command names, while it ran."""

    id: str
    name: str
    states: frozenset[str]
    "All states that the job had in that time."
    exit_code: int | None = None
    "Of its program, once that has ended."
    age: float = 600.0
    "Seconds since its submission, at most."
    log: tuple[str, str] = ("", "")
    "Its log at the beginning and at the end."
    must_know: bool = False
    "Whether the fault leaves the truth within reach, so that the command may not give up."
    forgotten: bool = False
    "Whether Slurm knows the job no more, so that its state may be GONE."
    pruned: bool = False
    skewed: bool = False
    "Whether the clock of the login node is wrong, and with it the time that a job has run."
    harmed: tuple[str, ...] = ()
    "What the command did to another job, or to files that are needed."
    result: str = ""
    "Why its effect is not what it claims; empty if it is."
    effect: bool = True
    "Whether it has done what it is for, such as to cancel the job."

    @property
    def active(self) -> bool:
        return self.states <= ACTIVE


@dataclass(frozen=True)
class Verdict:
    kind: str
    why: str = ""


FALSE: tuple[tuple[str, Callable[[Truth], bool]], ...] = (
    (r"gone from the records|no longer knows|has no record|is GONE", lambda truth: truth.forgotten),
    (r"Slurm does not (?:list|know)", lambda truth: truth.forgotten),
    (r"is not in the queue|not RUNNING|is not running", lambda truth: bool(truth.states - {"RUNNING"})),
    (r"has ended already|has already ended", lambda truth: not truth.active),
    (r"refused the login|none of which it accepts|[Hh]ost key (?:is|has|of)", lambda _: False),
    (r"pruned|folder is gone", lambda truth: truth.pruned),
    (r"there is no \w+ on|not the login node", lambda _: False),
    (r"no file|did not (?:create|make|change)", lambda truth: truth.active),
    (r"has no job|nothing was submitted", lambda _: False),
)
"Statements, and when they are true."


def judge(reply: Reply, truth: Truth) -> Verdict:
    """The worst that can be said of a reply."""
    if reply.code is None:
        return Verdict(HUNG, "it did not end")
    if "Traceback (most recent call last)" in reply.out + reply.err or reply.code == 70:
        return Verdict(TRACEBACK, reply.err[-300:])
    if truth.harmed:
        return Verdict(CANCELLATION, "; ".join(truth.harmed))
    if why := next(_false(reply, truth), ""):
        return Verdict(STATEMENT, why)
    if reply.before_end:
        return Verdict(EARLY, f"exit code {reply.code} while the job ran")
    return _completed(reply, truth)


def _completed(reply: Reply, truth: Truth) -> Verdict:
    """The verdict on a reply without a false word: whether it is complete."""
    if is_unknown(reply):
        if truth.result:
            return Verdict(STATEMENT, truth.result)
        return Verdict(EARLY, f"gave up: {reply.err[-200:]}") if truth.must_know else Verdict(UNKNOWN)
    if why := EXPECTED[reply.command](reply, truth):
        return Verdict(STATEMENT, why)
    return Verdict(RIGHT)


def is_unknown(reply: Reply) -> bool:
    """Whether a command says that it does not know, and so by its exit code too."""
    says = "error:" in reply.err or "UNKNOWN" in reply.out + reply.err or "GONE" in reply.out + reply.err
    return reply.code == UNREACHED and says


def _false(reply: Reply, truth: Truth) -> Iterator[str]:
    """The false statements in what was printed."""
    said = reply.err if reply.command.startswith("logs") else reply.out + reply.err
    for pattern, is_true in FALSE:
        if (found := re.search(pattern, said)) and not is_true(truth):
            yield f"says {found[0]!r}"
    for state, name in _states(said, truth.id):
        if name not in {truth.name, ""}:
            yield f"says that job {truth.id} is {name!r}, not {truth.name!r}"
        if state not in allowed(truth):
            yield f"says {state}, not {' or '.join(sorted(truth.states))}"
    for seconds in _elapsed(said):
        if seconds > truth.age + SLACK and not truth.skewed:
            yield f"says that it ran for {seconds} s, {truth.age:.0f} s after its submission"
    yield from _false_json(reply, truth)


def allowed(truth: Truth) -> frozenset[str]:
    return truth.states | {"UNKNOWN"} | ({"GONE"} if truth.forgotten else set())


def _states(text: str, job: str) -> Iterator[tuple[str, str]]:
    """Each state that a text ascribes to a job, with the job's name."""
    for name, state in re.findall(rf"\b{job}\S* \(([^)]*)\) is ([A-Z_]+)", text):
        yield state, name
    for name, row in re.findall(rf"^{job} +(\S+) (.*)$", text, re.MULTILINE):
        yield from ((word, name) for word in row.split() if word in STATES)
    yield from ((state, "") for state in re.findall(r'data-state="([A-Z_]+)"', text))


def _elapsed(text: str) -> Iterator[int]:
    for hours, minutes, seconds in re.findall(r"after (?:(\d+):)?(\d+):(\d+)", text):
        yield int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)


def _false_json(reply: Reply, truth: Truth) -> Iterator[str]:
    for job in jobs_in(reply.out):
        if job.get("id") not in {truth.id, None}:
            continue
        if (state := job.get("state", "UNKNOWN")) not in allowed(truth):
            yield f"JSON has {state}, not {' or '.join(sorted(truth.states))}"
        if job.get("name", truth.name) != truth.name:
            yield f"JSON has the name {job['name']!r}"
        code = job.get("exit_code")
        if (
            code is not None
            and state not in ACTIVE
            and code not in {truth.exit_code, 0 if state == "CANCELLED" else None}
        ):
            yield f"JSON has exit code {code}, not {truth.exit_code}"
        if job.get("ended") and truth.active:
            yield "JSON has ended: true"
        if (job.get("elapsed") or 0) > truth.age + SLACK and not truth.skewed:
            yield f"JSON has elapsed: {job['elapsed']}"


def jobs_in(text: str) -> list[dict[str, Any]]:
    """The objects of jobs in a reply with --json."""
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return [one for one in found.get("jobs", [found]) if isinstance(one, dict)]
    return []


def _zero(reply: Reply, truth: Truth) -> str:
    """Exit code 0 and the claimed effect; another one with an error and none."""
    if reply.code == 0:
        return truth.result
    return "" if "error:" in reply.err else f"exit code {reply.code} without an error"


def _status(reply: Reply, truth: Truth) -> str:
    said = [state for state, _ in _states(reply.out, truth.id)] + [
        job.get("state") for job in jobs_in(reply.out)
    ]
    if reply.code == 0 and not set(said) & truth.states and not truth.forgotten:
        return f"exit code 0 without the state: {reply.out[:200]!r}"
    return "" if reply.code in {0, UNREACHED} else f"exit code {reply.code}: {reply.err[-200:]}"


def _top(reply: Reply, truth: Truth) -> str:
    if reply.code == 0 and truth.id not in reply.out and not truth.forgotten:
        return f"exit code 0 without the job: {reply.out[:200]!r}"
    return _zero(reply, truth)


def _wait(reply: Reply, truth: Truth) -> str:
    if truth.forgotten and reply.code == UNREACHED:
        return ""
    return "" if reply.code == truth.exit_code else f"exit code {reply.code}, not {truth.exit_code}"


def _log(reply: Reply, truth: Truth) -> str:
    """A log that was printed to some byte, and all of it if the command says so."""
    before, after = truth.log
    if not after.startswith(reply.out):
        return f"prints {reply.out[:120]!r}, not {after[:120]!r}"
    if reply.code == 0 and not reply.out.startswith(before):
        return f"prints only {len(reply.out)} of {len(before)} bytes"
    return "" if reply.code in {0, UNREACHED} else f"exit code {reply.code}: {reply.err[-200:]}"


def _follow(reply: Reply, truth: Truth) -> str:
    want = int(truth.exit_code != 0)
    if reply.code in {0, 1} and reply.code != want:
        return f"exit code {reply.code}, but the job ended with {truth.exit_code}"
    if reply.code == want and reply.out != truth.log[1]:
        return f"prints {reply.out[-120:]!r}, not {truth.log[1][-120:]!r}"
    return _log(replace(reply, code=0 if reply.code in {0, 1} else reply.code), truth)


def _log_json(reply: Reply, truth: Truth) -> str:
    least, most = (len(text.encode()) for text in truth.log)
    for log in jobs_in(reply.out):
        if log.get("size") is None or not least <= log["size"] <= most or log.get("text") is not True:
            return f"JSON has size {log.get('size')} and text {log.get('text')}, not {least} and true"
    return "" if reply.code == 0 else f"exit code {reply.code}: {reply.err[-200:]}"


EXPECTED: dict[str, Callable[[Reply, Truth], str]] = {
    **dict.fromkeys(("status", "page"), _status),
    **{"top": _top, "wait": _wait, "logs": _log, "logs --json": _log_json, "logs -f": _follow},
    **dict.fromkeys(
        ("cancel", "page: cancel", "fetch", "prune", "resubmit", "--after", "shell", "port"), _zero
    ),
}
"Why a reply is wrong that says that it succeeded; empty if it is right."
