"""Following without a cluster: when it looks, and when it stops."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.cli.log_output import Harmless, harmless
from slurmgen.jobs import logs
from slurmgen.jobs.logs import LONGEST_PAUSE, Shown, follow
from slurmgen.jobs.slurm_client import outcome
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState

JOB = JobId("12")


def state(word: str) -> tuple[JobState, ...]:
    return (JobState(id="12", state=word),) if word else ()


class Story:
    """What is seen at each look: the job's state and the log so far."""

    def __init__(self, *looks: tuple[str, bytes]) -> None:
        self.looks = list(looks)
        self.pauses: list[float] = []
        self.shown = b""

    def states(self, _far: object, _job: JobId) -> tuple[JobState, ...]:
        self.now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return state(self.now[0])

    def read(self, _far: object, _path: str, start: int) -> Iterator[bytes]:
        if rest := self.now[1][start:]:
            yield rest

    def show(self, chunk: bytes) -> None:
        self.shown += chunk

    def told(self, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(logs, "job_states", self.states)
        monkeypatch.setattr(logs, "read", self.read)
        return outcome(follow(object(), JOB, "/log", Shown(self.show), self.pauses.append))  # type: ignore[arg-type]


def test_each_byte_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(("PENDING", b""), ("RUNNING", b"a"), ("RUNNING", b"abc"), ("COMPLETED", b"abcd"))
    assert story.told(monkeypatch) == "COMPLETED"
    assert story.shown == b"abcd"


def test_what_a_slow_file_system_brings_after_the_end_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(("FAILED", b""), ("FAILED", b"last words"), ("FAILED", b"last words"))
    assert story.told(monkeypatch) == "FAILED"
    assert story.shown == b"last words"


def test_a_job_that_nobody_knows_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Story(("", b"")).told(monkeypatch) == "GONE"


def test_a_job_that_comes_back_is_followed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(("PREEMPTED", b"a"), ("PENDING", b"a"), ("RUNNING", b"ab"), ("COMPLETED", b"ab"))
    assert story.told(monkeypatch) == "COMPLETED"


def test_a_log_that_grows_for_ever_after_the_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Story(*[("COMPLETED", b"a" * number) for number in range(1, 100)]).told(monkeypatch) == "COMPLETED"


def test_a_quiet_job_is_looked_at_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(*[("RUNNING", b"")] * 10, ("COMPLETED", b""))
    story.told(monkeypatch)
    waiting = story.pauses[:10]
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
    ],
)
def test_a_log_may_colour_a_terminal_and_not_steer_it(log: bytes, shown: bytes) -> None:
    assert harmless(log) == shown


@given(
    st.binary(max_size=60) | st.text("\x1b[0;31mK\x9b\x85é☃\n", max_size=60).map(str.encode),
    st.integers(0, 60),
)
def test_a_log_in_parts_is_shown_as_it_is_in_one(log: bytes, at: int) -> None:
    part = Harmless()
    assert part(log[:at]) + part(log[at:]) + part(b"", final=True) == harmless(log)


@given(st.binary(max_size=80))
def test_no_log_has_a_control_that_steers_a_terminal(log: bytes) -> None:
    shown = harmless(log).decode(errors="surrogateescape")
    rest = re.sub(r"\x1b\[[0-9;:]*[mK]", "", shown)
    assert not re.search("[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f]", rest)


def test_a_sequence_without_an_end_is_not_held_back_for_ever() -> None:
    part = Harmless()
    shown = b"".join(part(one) for one in [b"\x1b[", *[b"1" * 1000] * 100])
    assert len(shown) > 99_000
