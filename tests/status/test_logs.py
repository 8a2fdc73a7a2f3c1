"""Following a log without a cluster: when it reads, and when it stops."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.cli.log_output import Harmless, LogOutput, harmless
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status import logs
from slurmgen.status.logs import LONGEST_PAUSE, Shown, follow
from slurmgen.status.slurm import outcome

JOB = JobId("12")


def state(word: str) -> tuple[JobState, ...]:
    return (JobState(id="12", state=word),) if word else ()


class Replies:
    """The job's state and its log at each read."""

    def __init__(self, *replies: tuple[str, bytes]) -> None:
        self.replies = list(replies)
        self.pauses: list[float] = []
        self.shown = b""

    def states(
        self, _transport: object, jobs: list[JobId], *_known: object
    ) -> dict[JobId, tuple[JobState, ...]]:
        self.now = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return dict.fromkeys(jobs, state(self.now[0]))

    def read(self, _transport: object, _path: str, start: int) -> Iterator[bytes]:
        if rest := self.now[1][start:]:
            yield rest

    def show(self, chunk: bytes) -> None:
        self.shown += chunk

    def outcome(self, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(logs, "query_states", self.states)
        monkeypatch.setattr(logs, "read", self.read)
        return outcome(follow(object(), JOB, "/log", Shown(self.show), self.pauses.append))  # type: ignore[arg-type]


def test_each_byte_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = Replies(("PENDING", b""), ("RUNNING", b"a"), ("RUNNING", b"abc"), ("COMPLETED", b"abcd"))
    assert replies.outcome(monkeypatch) == "COMPLETED"
    assert replies.shown == b"abcd"


def test_lines_that_arrive_after_the_end_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = Replies(("FAILED", b""), ("FAILED", b"last words"), ("FAILED", b"last words"))
    assert replies.outcome(monkeypatch) == "FAILED"
    assert replies.shown == b"last words"


def test_a_job_that_slurm_does_not_know_ends_following(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Replies(("", b"")).outcome(monkeypatch) == "GONE"


def test_a_requeued_job_is_followed_further(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = Replies(("PREEMPTED", b"a"), ("PENDING", b"a"), ("RUNNING", b"ab"), ("COMPLETED", b"ab"))
    assert replies.outcome(monkeypatch) == "COMPLETED"


def test_following_stops_although_the_log_of_an_ended_job_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        Replies(*[("COMPLETED", b"a" * number) for number in range(1, 100)]).outcome(monkeypatch)
        == "COMPLETED"
    )


def test_a_log_that_does_not_grow_is_read_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = Replies(*[("RUNNING", b"")] * 10, ("COMPLETED", b""))
    replies.outcome(monkeypatch)
    waiting = replies.pauses[:10]
    assert waiting == sorted(waiting)
    assert waiting[-1] == LONGEST_PAUSE


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m\t\x08|\r50 %\x1b[K\n", b"\x1b[1;31mred\x1b[0m\t\x08|\r50 %\x1b[K\n"),
        (b"\x1b[2J\x1b]0;title\x07\x0e\x7f", b"\\x1b[2J\\x1b]0;title\\x07\\x0e\\x7f"),
        ("\x9b2Jé\xff".encode(), "\\xc2\\x9b2Jé\xff".encode()),
        (b"\x9b2J\x85 caf\xe9 \xe2\x98", b"\\x9b2J\\x85 caf\xe9 \xe2\\x98"),
        ("日本 \x1b[38:2::1:2:3mÛ".encode(), "日本 \x1b[38:2::1:2:3mÛ".encode()),
        (b"\x1b", b"\\x1b"),
        ("a\u202eb\u2066c\u200fd\u2028".encode(), b"a\\u202eb\\u2066c\\u200fd\\u2028"),
    ],
)
def test_a_log_may_colour_a_terminal_but_not_control_it(log: bytes, shown: bytes) -> None:
    assert harmless(log) == shown


@given(
    st.binary(max_size=60) | st.text("\x1b[0;31mK\x9b\x85é☃\n", max_size=60).map(str.encode),
    st.integers(0, 60),
)
def test_a_log_in_parts_is_shown_as_in_one_piece(log: bytes, at: int) -> None:
    part = Harmless()
    assert part(log[:at]) + part(log[at:]) + part(b"", final=True) == harmless(log)


@given(st.binary(max_size=80))
def test_no_control_of_a_log_reaches_a_terminal(log: bytes) -> None:
    shown = harmless(log).decode(errors="surrogateescape")
    rest = re.sub(r"\x1b\[[0-9;:]*[mK]", "", shown)
    controls = "\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f"
    assert not re.search(f"[{controls}\u061c\u202a-\u202e\u2066-\u2069]", rest)


COMMANDS = [b"::add-mask::x", b"  ::stop-commands::x", b"a ##[error]x", b"ok\r::set-env n=A::x", b"##vso[a]b"]


@pytest.mark.parametrize("variable", ["GITHUB_ACTIONS", "TF_BUILD", "OTHER"])
def test_a_log_runs_no_command_of_a_ci_service(
    variable: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in ("GITHUB_ACTIONS", "TF_BUILD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "true")
    log, write = b"\n".join([*COMMANDS, b"caf\xe9 a::b std::c ## 1", b"::group::cut"]), LogOutput()
    for at in range(len(log)):
        write(log[at : at + 1])
    write.finish()
    shown = capfdbinary.readouterr().out
    if variable == "OTHER":
        assert shown == log
    else:
        assert not re.search(rb"^\s*::|##[A-Za-z]*\[", shown, re.MULTILINE)
        assert b"caf\xe9 a::b std::c ## 1\n" in shown
        assert shown.count(b"\\x3a:") + shown.count(b"\\x23#") == 6


def test_an_endless_escape_sequence_is_not_held_back() -> None:
    part = Harmless()
    shown = b"".join(part(one) for one in [b"\x1b[", *[b"1" * 1000] * 100])
    assert len(shown) > 99_000
