"""A ledger with a few jobs, and a login node that replies with anything: no process, no connection."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from msgspec import json, structs

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import Recorded
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Closing, Completed, Transport, chunks
from slurmgen.remote_scripts import MARK as BEGIN
from slurmgen.request.model import Request
from slurmgen.web.jobs.files import id_of
from tests.web.hostile import MARK, VALUES

HOSTILE = f"""<{MARK}>"' {MARK}=1 ../../\x1b[31m\N{RIGHT-TO-LEFT OVERRIDE}"""
JOB = Record(
    id="12",
    site="generic",
    via="ssh",
    host="login",
    name=HOSTILE,
    folder="/home/user/slurmgen/runs/12",
    output="train-%j.out",
    submitted="2026-01-01T10:00:00+00:00",
    key="20260101-100000-00000012",
)
_TASKS = '{"tasks": {"0": [{"<zq>": "1"}, {"lr": "2"}], "1": [{"lr": "<zq>"}]}, "per_task": 2}'
KEYS = (
    JOB.key,
    "20260101-100000-00000014",
    "20260101-100000-00000015",
    "20260101-100000-00000016",
    "generic:17",
)
FILES = ("a.log", "b/metrics.jsonl", f"<{MARK}>.out", "../../evil.log", "/etc/passwd", "c\nd.err", "-rf.log")
# fmt: off
PARAMETERS = {
    "task": ["0", "1", ""], "run": ["0", "1"], "rank": ["0", "1"], "from": ["0", "10"], "whole": ["1"],
    "file": ["stderr", *map(id_of, FILES)], "since": [""], "site": ["generic", "daic", ""],
    "time": ["1:00:00", ""], "gpus": ["1", ""], "mem": [""], "files": ["present", ""],
    "key": ["20260102-100000-00000001"],
}
# fmt: on
"The fields and the parameters of addresses of jobs, with valid values."


def add_jobs(project: Path) -> None:
    """Record a job, a sweep, an unsettled submission, a batch script, and an entry of an old version."""
    asked = Recorded(site="generic", project=str(project), request=Request(gpus=1, script="train.py"))
    batch = structs.replace(asked, request=Request(), batch_script="job.sh")
    more = (
        {"request": json.encode(asked).decode()},
        {"id": "14", "tasks": _TASKS, "output": "%x-%A_%a.out"},
        {"id": "", "state": "pending"},
        {"id": "16", "request": json.encode(batch).decode(), "part_of": JOB.key, "stderr": "e-%j.err"},
        {"id": "17", "folder": HOSTILE, "output": HOSTILE, "request": "{"},
    )
    for key, fields in zip(KEYS, more, strict=True):
        Ledger().add(structs.replace(JOB, **fields, key="" if ":" in key else key))


class Site(Closing):
    """A login node of an attacker."""

    where, login, shell = HOSTILE, "none", ("bash", "-lc")

    def __init__(self, random: Random) -> None:
        self.random = random

    def connect(self, _route: Route) -> Transport:
        """A login."""
        return self  # type: ignore[return-value]

    def run(
        self,
        _argv: object,
        *,
        input: bytes | Iterable[bytes] = b"",  # noqa: A002
        timeout: float,
    ) -> Completed:
        """The reply to any command."""
        for _ in chunks(input):
            pass
        status = self.random.choice((0, 0, 0, 1, 255))
        return Completed(status, self._reply(), self._value() if status else b"")

    def stream(self, _argv: object, *, timeout: float) -> Iterator[bytes]:
        """What any command writes."""
        return iter([self._reply() for _ in range(self.random.randrange(4))])

    def _reply(self) -> bytes:
        kinds = (self._value, self._rows, self._listing, self._part, self._marked)
        return self.random.choice(kinds)()

    def _value(self) -> bytes:
        return self.random.choice(VALUES).encode(errors="replace")

    def _rows(self) -> bytes:
        """Of squeue."""
        states = ("RUNNING", "PENDING", "COMPLETED", "FAILED", "<zq>", "NODE_FAIL")
        rows = (
            b"%s|%s|%s|1:00|2:00:00|2026-01-01T00:00:00|n1|||||%s"
            % (number.encode(), self.random.choice(states).encode(), self._value(), self._value())
            for number in ("12", "14_0", "14_1", "16", "17")
        )
        return b"\n".join(rows) + b"\n"

    def _listing(self) -> bytes:
        return b"".join(b"%d 1700000000 ./%s\0" % (len(name), name.encode()) for name in FILES)

    def _part(self) -> bytes:
        """Of a log, after its size."""
        text = b"".join(self._value() + b"\n" for _ in range(5)) + b'{"epoch": 1, "<zq>": 1e999}\n'
        return b"%d\n%s" % (len(text), text)

    def _marked(self) -> bytes:
        return f"\0{BEGIN}\0".encode() + self._value()
