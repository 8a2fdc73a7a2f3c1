"""The table of jobs of `slurmgen web` with 10,000 jobs in the ledger: time of a page, and of a change."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest.mock import patch

from msgspec import json
from starlette.testclient import TestClient

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.slurm.replies import JobState, Usage
from slurmgen.web import Settings, create_app
from slurmgen.web.access import COOKIE

JOBS, ROUNDS = 10_000, 20
ADDRESSES = {
    "newest": "/jobs",
    "searched": "/jobs?q=train-77",
    "sorted by time": "/jobs?sort=time",
    "last page": "/jobs?page=50",
}
STATES = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY")


def records(count: int) -> list[Record]:
    """Jobs at three sites; all but twenty have ended."""
    return [_record(number, is_active=number > count - 20) for number in range(1, count + 1)]


def _record(number: int, *, is_active: bool) -> Record:
    minutes = divmod(number, 1440)
    return Record(
        id=str(number),
        site=("daic", "olivia", "generic")[number % 3],
        via="ssh",
        host="login.example.org",
        name=f"train-{number % 500}",
        folder=f"/home/user/slurmgen/project/runs/train-{number}",
        output="train-%j.out",
        submitted=f"2026-01-{minutes[0] + 1:02}T{minutes[1] // 60:02}:{minutes[1] % 60:02}:00+00:00",
        key=f"20260101-000000-{number:08x}",
        request='{"site":"daic","project":"/home/user/project","request":{"gpus":4,"time":"1:00:00"}}',
        final="" if is_active else _final(number),
    )


def _final(number: int) -> str:
    usage = Usage(nodes=1, cpus=8, gpus=4, memory=16384, memory_used=2000, cpu_seconds=7200)
    state = JobState(
        id=str(number),
        state=STATES[number % len(STATES)],
        elapsed="00:20:00",
        time_limit="01:00:00",
        start="2026-01-01T10:00:00",
        nodes="gpu01",
        exit_code="0:0",
        name=f"train-{number % 500}",
        usage=usage,
    )
    return json.encode([state]).decode()


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measure(client: TestClient) -> None:
    """Print the times of the first page, of others, and of one after a change of the ledger."""
    print(f"first page: {1000 * seconds(lambda: client.get('/jobs')):.0f} ms")
    for name, address in ADDRESSES.items():
        times = [1000 * seconds(lambda at=address: client.get(at)) for _ in range(ROUNDS)]
        size = len(client.get(address).content)
        print(f"{name}: median {median(times):.0f} ms, worst {max(times):.0f} ms, {size / 1024:.0f} KiB")
    times = [1000 * seconds(lambda number=number: _after_change(client, number)) for number in range(5)]
    print(f"after a new job: median {median(times):.0f} ms, worst {max(times):.0f} ms")


def _after_change(client: TestClient, number: int) -> None:
    Ledger().settle(_record(JOBS + 1 + number, is_active=True))
    client.get("/jobs")


def main() -> None:
    """Measure with a ledger of its own."""
    count = int(sys.argv[1]) if sys.argv[1:] else JOBS
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, XDG_STATE_HOME=folder):
        Path(folder).chmod(0o700)
        Ledger().settle_all(records(count))
        settings = Settings(hosts=("testserver",))
        with TestClient(create_app(settings), headers={"cookie": f"{COOKIE}={settings.token}"}) as client:
            measure(client)


if __name__ == "__main__":
    main()
