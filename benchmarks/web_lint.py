"""Measures the linter of a public page on one core, for docs/benchmarks.md.

Run it alone on the machine, which needs two cores: `python benchmarks/web_lint.py`. The server has the first
core, and this client the others. Latencies count from the time at which a request is due.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.parse import urlencode, urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.lint import corpus
from tests.lint.test_limits import HEAD, TOO_MUCH

REQUESTS, MANY, CONNECTIONS, RATE = 1000, 5000, 8, 100
LEAST_PER_SECOND, MOST_MS = 100, 100
HEADERS = {"content-type": "application/x-www-form-urlencoded"}
REFUSED = (422, 429, 503)
"The check was stopped; the client took too much time; the server is busy."
HOSTILE = ["loops in loops", "calls of calls", "launches", "unbalanced quotes", "forgotten variables"]


@contextmanager
def server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A public page on one core, without a limit on the rate of a client."""
    cores = sorted(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "slurmgen", "web", "--public", "--rate", "10000"]
    os.sched_setaffinity(0, cores[:1])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    os.sched_setaffinity(0, cores[1:])
    assert process.stdout
    try:
        yield urlsplit(process.stdout.readline().strip()).netloc, process
    finally:
        process.terminate()
        process.wait()


def send(connection: HTTPConnection, script: str | None) -> int:
    """The status of the reply: to a script, or, without one, of the simplest page."""
    if script is None:
        connection.request("GET", "/healthz")
    else:
        origin = f"http://{connection.host}:{connection.port}"
        body = urlencode({"script": script}, errors="replace")
        connection.request("POST", "/lint/findings", body, HEADERS | {"origin": origin})
    reply = connection.getresponse()
    reply.read()
    return reply.status


def measure(address: str, scripts: list[str | None], rate: float | None = None) -> tuple[float, list[float]]:
    """Requests per second, and the sorted milliseconds of each, at a rate or as fast as possible."""
    start = time.perf_counter()
    due = SimpleQueue[tuple[float, str | None]]()
    for number, script in enumerate(scripts):
        due.put((start + number / rate if rate else 0.0, script))
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = [pool.submit(lambda: list(times(address, due))) for _ in range(CONNECTIONS)]
    found = sorted(seconds * 1000 for part in parts for seconds in part.result())
    return len(found) / (time.perf_counter() - start), found


def times(address: str, due: "SimpleQueue[tuple[float, str | None]]") -> Iterator[float]:
    """The seconds of each request, from when it was due, if it was, to its reply."""
    connection = HTTPConnection(address)
    with suppress(Empty):
        while True:
            at, script = due.get_nowait()
            at = at or time.perf_counter()
            time.sleep(max(0.0, at - time.perf_counter()))
            status = send(connection, script)
            assert status in (200, *REFUSED), status
            yield time.perf_counter() - at


def show(name: str, result: tuple[float, list[float]]) -> None:
    """One line of the report."""
    rate, found = result
    p50, p99 = (found[int(len(found) * part)] for part in (0.5, 0.99))
    print(f"{name:44} {rate:7.0f}/s   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   most {found[-1]:7.1f} ms")


def tree(server: subprocess.Popen[str]) -> list[Path]:
    """The folders in /proc of the server and of its workers."""
    lists = Path(f"/proc/{server.pid}/task").glob("*/children")
    workers = sorted({child for path in lists for child in path.read_text().split()})
    return [Path("/proc", pid) for pid in [str(server.pid), *workers]]


def memory(server: subprocess.Popen[str]) -> str:
    """Resident megabytes of each process."""
    pages = [int((process / "statm").read_text().split()[1]) for process in tree(server)]
    return ", ".join(str(number * os.sysconf("SC_PAGE_SIZE") // 1_000_000) for number in pages)


def cpu(server: subprocess.Popen[str], address: str, scripts: list[str | None]) -> float:
    """Milliseconds of CPU time of one request, in all processes; other load hardly matters."""
    before = _cpu_seconds(server)
    measure(address, scripts)
    return (_cpu_seconds(server) - before) / len(scripts) * 1000


def _cpu_seconds(server: subprocess.Popen[str]) -> float:
    rows = [(process / "stat").read_text().rpartition(")")[2].split() for process in tree(server)]
    return sum(int(row[11]) + int(row[12]) for row in rows) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print the measures; 1 if a goal is missed."""
    texts: list[str | None] = [s.text for s in [*corpus.published(), *corpus.correct()]]
    scripts = list(islice(cycle(texts), REQUESTS))
    with server() as (address, process):
        measure(address, scripts[:100])
        floor, fast = measure(address, [None] * REQUESTS), measure(address, scripts)
        floor_steady, steady = measure(address, [None] * REQUESTS, RATE), measure(address, scripts, RATE)
        before = memory(process)
        trivial, ordinary = (
            cpu(process, address, [None] * MANY),
            cpu(process, address, scripts * (MANY // REQUESTS)),
        )
        after = memory(process)
        hostile = measure(address, [(HEAD + TOO_MUCH[name])[:200_000] for name in HOSTILE] * 8)
    show("trivial page, as fast as possible", floor)
    show("ordinary script, as fast as possible", fast)
    show(f"trivial page, {RATE}/s", floor_steady)
    show(f"ordinary script, {RATE}/s", steady)
    show("hostile script, as fast as possible", hostile)
    print(f"CPU time: trivial page {trivial:.2f} ms, ordinary script {ordinary:.2f} ms")
    print(f"an ordinary script takes {ordinary / trivial:.1f} times as much as the trivial page")
    print(f"MB of server and workers: {before}; after {MANY:,} more scripts: {after}")
    return int(fast[0] < LEAST_PER_SECOND or steady[1][int(REQUESTS * 0.99)] > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
