"""What is believed of a job: only records that are its own, and no single reply that it has ended."""

import pytest

from slurmgen.errors import CommandFailed
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Completed
from slurmgen.slurm.commands import Identity, JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status.job import Job
from slurmgen.status.slurm import Busy, ended, query_states
from slurmgen.submit.cancel import cancel_jobs

KEY = "20260301-100000-0123abcd"
FOLDER = f"/home/me/slurmgen/p/runs/train-{KEY}"
OURS = JobId("12", "", Identity("train", "2026-03-01T10:00:00+00:00", KEY))
UNKNOWN = Completed(1, b"", b"slurm_load_jobs error: Invalid job id specified\n")
NONE = Completed(0)
COMMENT = f"mine slurmgen:{KEY}"


def queue(
    state: str = "RUNNING", submitted: str = "", folder: str = "", comment: str = "", name: str = "x"
) -> Completed:
    """A reply of squeue."""
    row = f"12|{state}|None|1:00|5:00|N/A|n1||{submitted}|{folder}|{comment}|{name}\n"
    return Completed(0, row.encode())


def row(
    state: str, limit: str = "5:00", at: str = "2026-03-01T10:00:01", tail: str = f"{FOLDER}||train"
) -> str:
    """A row of sacct."""
    return f"12|{state}|0:0|1:00|{limit}|{at}|n[1-2]|cpu=2|00:01||{at}|{tail}\n"


def accounted(*rows: str) -> Completed:
    return Completed(0, "".join(rows).encode())


PARTIAL = accounted(row("FAILED", limit="", tail="||allocation"))


class Host:
    """A login node with the replies of each command in order, the last one again and again."""

    where = "remote"
    shell = ("bash", "-lc")

    def __init__(self, **replies: list[Completed]) -> None:
        # `sh` runs the query of exact exit codes.
        self.replies = {"scontrol": [UNKNOWN], "sacct": [Completed(127)], "sh": [Completed(0)]} | replies
        self.asked: list[str] = []
        self.pauses: list[float] = []

    def run(self, argv: list[str], **_: object) -> Completed:
        self.asked.append(argv[4])
        left = self.replies[argv[4]]
        return left.pop(0) if len(left) > 1 else left[0]

    def states(self, job: JobId = OURS, known: tuple[JobState, ...] | None = None) -> list[str]:
        return [state.state for state in self.query(job, known)]

    def query(self, job: JobId = OURS, known: tuple[JobState, ...] | None = None) -> tuple[JobState, ...]:
        before = {job: known} if known is not None else {}
        return query_states(self, [job], before, self.pauses.append)[job]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record",
    [
        queue(comment=COMMENT),
        queue(folder=FOLDER),
        queue(comment=COMMENT, folder="/other"),
        queue(comment="of the site", folder=f"/mnt{FOLDER}"),
        queue(name="train"),
        queue(name="train", submitted="2026-03-01T02:00:00"),
    ],
    ids=["comment", "folder", "comment alone", "another mount", "name", "another time zone"],
)
def test_a_record_is_the_jobs_own(record: Completed) -> None:
    assert Host(squeue=[record]).states() == ["RUNNING"]


@pytest.mark.parametrize(
    "record",
    [
        queue(comment="slurmgen:20270301-100000-0123abcd", name="train"),
        queue(folder="/home/me", name="train"),
        queue(name="other"),
        queue(name="train", submitted="2018-03-01T10:00:00"),
    ],
    ids=["another key", "another folder", "another name", "before the submission"],
)
def test_a_record_of_another_job_of_the_same_id_does_not_count(record: Completed) -> None:
    (state,) = Host(squeue=[record]).query()
    assert (state.state, state.reason.partition(",")[0]) == ("GONE", "Slurm has given its id to another job")
    assert Host(squeue=[record]).states(JobId("12")) == ["RUNNING"]  # the user names no job, but an id


def test_of_an_id_that_was_used_again_each_job_has_its_own_record() -> None:
    new = row("COMPLETED", at="2026-05-01T10:00:01", tail="/f|slurmgen:other|new")
    listed = queue(folder="/f", comment="slurmgen:other")
    assert Host(squeue=[listed], sacct=[accounted(row("FAILED"), new)]).states() == ["FAILED"]


DATABASE_DOWN = Completed(1, b"", b"sacct: error: Problem talking to the database: Connection refused")


def test_a_used_id_is_not_active_while_accounting_does_not_reply() -> None:
    listed = queue(folder="/f", comment="slurmgen:other")
    host = Host(squeue=[listed], sacct=[DATABASE_DOWN])
    (state,) = host.query()
    assert (state.state, "id to another job" in state.reason) == ("UNKNOWN", True)
    notes: list[str] = []
    (report,) = cancel_jobs(host, [Job(OURS, Route(site="s", via="local"))], notes.append)  # type: ignore[arg-type]
    assert (report.state, notes, "scancel" in host.asked) == ("UNKNOWN", [], False)


@pytest.mark.parametrize("listed", [NONE, UNKNOWN])
def test_a_job_that_only_accounting_has_as_active_is_neither_gone_nor_over(listed: Completed) -> None:
    rows = accounted(row("COMPLETED").replace("12|", "12_1|"), row("RUNNING").replace("12|", "12_2|"))
    for reply in (accounted(row("RUNNING")), rows):
        states = Host(squeue=[listed], sacct=[reply]).query()
        assert (states[-1].state, ended(states)) == ("UNKNOWN", False)
        assert "accounting has it as RUNNING, and squeue does not list it" in states[-1].reason


def test_of_a_job_that_was_requeued_the_last_run_counts() -> None:
    rows = row("FAILED", at="2026-03-01T11:00:00"), row("NODE_FAIL")
    assert Host(squeue=[UNKNOWN], sacct=[accounted(*rows)]).states() == ["FAILED"]


def test_a_controller_that_lists_nothing_once_ends_no_job() -> None:
    host = Host(squeue=[NONE, queue(comment=COMMENT)])
    assert host.states() == ["RUNNING"]


@pytest.mark.parametrize("reply", [NONE, UNKNOWN])
def test_that_a_job_is_gone_needs_three_replies(reply: Completed) -> None:
    host = Host(squeue=[reply])
    assert host.states() == []
    assert len(host.pauses) == 2


def test_that_a_job_has_ended_needs_two_equal_replies_of_which_the_ledger_may_have_one() -> None:
    host = Host(squeue=[queue("COMPLETED", comment=COMMENT)])
    ended = host.query()
    assert ([state.state for state in ended], len(host.pauses)) == (["COMPLETED"], 1)
    host = Host(squeue=[queue("COMPLETED", comment=COMMENT)])
    assert host.query(known=ended) == ended
    assert host.pauses == []


def test_a_job_that_is_requeued_meanwhile_has_not_ended() -> None:
    host = Host(squeue=[queue("NODE_FAIL", comment=COMMENT), queue("PENDING", comment=COMMENT)])
    assert host.states() == ["PENDING"]


def test_a_partial_record_of_accounting_is_waited_for() -> None:
    """Seen on 22.05: for up to two seconds the row of a short job has only what its step brought."""
    listed = queue("FAILED", comment=COMMENT, name="train")
    host = Host(squeue=[listed], sacct=[PARTIAL, PARTIAL, accounted(row("FAILED"))])
    (state,) = host.query()
    assert (state.name, state.nodes, state.time_limit) == ("train", "n[1-2]", "5:00")


def test_a_record_that_stays_partial_does_not_end_the_job() -> None:
    assert Host(squeue=[UNKNOWN], sacct=[PARTIAL]).states() == ["UNKNOWN"]


@pytest.mark.parametrize(
    "message",
    [
        "squeue: error: slurm_load_jobs: RPC rate limit exceeded",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Slurm temporarily unable to accept job, sleeping and retrying",
    ],
)
def test_a_refused_query_is_repeated(message: str) -> None:
    busy = Completed(1, b"", message.encode())
    assert Host(squeue=[busy, busy, queue(comment=COMMENT)]).states() == ["RUNNING"]
    with pytest.raises(Busy):
        Host(squeue=[busy]).states()


def test_a_refusal_that_will_not_change_is_not_repeated() -> None:
    host = Host(squeue=[Completed(1, b"", b"squeue: error: Unrecognized option: --array")])
    with pytest.raises(CommandFailed, match="Unrecognized"):
        host.states()
    assert host.pauses == []
