"""The page: its start, first paint, and a public server on one core; `wrk` (a Debian package) loads it.

The server and its linter processes run on the first core, wrk on the second. The baseline of each is a static
file of the same server. Prints the load of the machine, which must be idle for the figures to mean anything.

    python benchmarks/web.py [start paint rates memory]
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from urllib.parse import urlencode

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import SlurmgenError
from slurmgen.sites.profiles import profile_paths
from tests.support.web import chromium

SLURMGEN = [sys.executable, "-m", "slurmgen", "web"]
RUNS = 11
SECONDS = 10
FLOOR = "/static/style.css"
LUA = """local bodies = {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
local next_body = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
request = function()
  next_body = next_body % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[next_body])
end
"""


def generator_bodies(random: Random) -> Iterator[str]:
    """Valid requests, no two the same."""
    sites = sorted(profile_paths(personal=False))
    while True:
        values = {
            "site": random.choice(sites),
            "framework": random.choice(["ddp", "fsdp", "accelerate", "lightning", "srun"]),
            "gpus": random.choice("1248"),
            "time": f"{random.randrange(1, 24)}:{random.randrange(60):02}:00",
            "account": f"project{random.randrange(1000)}",
            "script": "train.py",
            "script_args": f"--lr {random.random():.4f}",
        }
        yield urlencode(values)


def lint_bodies(random: Random) -> Iterator[str]:
    """Rendered scripts of all profiles, each a little different, so that no cache helps."""
    scripts = []
    for name in sorted(profile_paths(personal=False)):
        for gpus in (1, 4, 16):
            try:
                asked = Request(gpus=gpus, script="train.py", time="01:00:00", account="project1")
                scripts.append((name, render(resolve(asked, load_site(name, personal=False)))))
            except SlurmgenError:
                continue
    while True:
        site, script = random.choice(scripts)
        yield urlencode({"site": site, "script": f"{script}\n# {random.random()}\n"})


BODIES = {"/generator": generator_bodies, "/lint/findings": lint_bodies}
GOALS = {"/generator": 200, "/lint/findings": 100}


@contextmanager
def public_server() -> Iterator[tuple[str, int]]:
    """The address and the process of a public server on the first core."""
    command = ["taskset", "--cpu-list", "0", *SLURMGEN, "--public", "--rate", "10000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().rstrip("/\n"), process.pid
        finally:
            process.terminate()


def wrk(address: str, *options: str, clients: int = 1, refused: bool = False) -> tuple[float, float]:
    """Requests per second, and the 99th percentile of the reply in milliseconds; some may be refused."""
    command = ["taskset", "--cpu-list", "1", "wrk", "--latency", "-t1", f"-c{clients}", *options, address]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert refused or "Non-2xx" not in done.stdout, done.stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    last = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    assert rate
    assert last
    return float(rate[1]), float(last[1]) * {"us": 1e-3, "ms": 1, "s": 1e3}[last[2]]


@contextmanager
def bodies(path: str, number: int = 5000) -> Iterator[list[str]]:
    """Options of wrk that send forms to an address."""
    with tempfile.TemporaryDirectory() as name:
        script, lines = Path(name) / "post.lua", Path(name) / "bodies"
        made = BODIES[path](Random(1))  # noqa: S311
        lines.write_text("".join(f"{next(made)}\n" for _ in range(number)))
        script.write_text(LUA)
        os.environ["BODIES"] = str(lines)
        yield ["-s", str(script)]


def rates() -> None:
    """Requests per second on one core."""
    with public_server() as (address, _):
        for clients in (1, 4):
            floor, _ = wrk(address + FLOOR, f"-d{SECONDS}s", clients=clients)
            for path, goal in GOALS.items():
                with bodies(path) as options:
                    wrk(address + path, *options, "-d3s", clients=clients, refused=True)  # processes start
                    rate, last = wrk(address + path, *options, f"-d{SECONDS}s", clients=clients)
                print(
                    f"{path}, {clients} clients: {rate:.0f}/s, p99 {last:.0f} ms; {FLOOR}: {floor:.0f}/s; "
                    f"ratio {floor / rate:.1f} (goal: {goal}/s)"
                )


def memory() -> None:
    """Resident memory of the server and its linter processes, by requests."""
    with (
        public_server() as (address, pid),
        bodies("/generator") as generator,
        bodies("/lint/findings") as lint,
    ):
        done = 0
        for number in (100, 10_000, 30_000, 100_000):
            while done < number:
                done += _send(address, generator, lint)
            print(
                f"after {done} requests: {', '.join(f'{one / 1024:.0f} MB' for one in _resident(pid))}",
                flush=True,
            )


def _send(address: str, generator: list[str], lint: list[str]) -> int:
    """Send requests for some seconds, and count them."""
    sent = 0.0
    for path, options in (("/generator", generator), ("/lint/findings", lint), (FLOOR, [])):
        begin = time.monotonic()
        rate, _ = wrk(address + path, *options, "-d2s", clients=4, refused=True)
        sent += rate * (time.monotonic() - begin)
    return int(sent)


def _resident(pid: int) -> list[int]:
    """Kilobytes of a process and of each of its children."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")  # of each thread
    children = [child for each in lists for child in each.read_text().split()]
    lines = (Path(f"/proc/{one}/status").read_text() for one in (str(pid), *children))
    return [int(re.search(r"VmRSS:\s+(\d+)", text)[1]) for text in lines]  # type: ignore[index]


def start() -> None:
    """From the command to its address."""
    imports = "import click, jinja2, starlette.applications, uvicorn"
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        with subprocess.Popen(SLURMGEN, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout
            process.stdout.readline()
            mine = time.perf_counter() - begin
            process.terminate()
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", imports], check=True)
        times.append((mine, time.perf_counter() - begin))
    mine, bare = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"slurmgen web: {mine * 1e3:.0f} ms; {imports}: {bare * 1e3:.0f} ms; ratio {mine / bare:.2f}")


def paint() -> None:
    """From the address to the first paint, in a profile that has no files of the page yet."""
    painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    with public_server() as (address, _), chromium() as browser:
        times: dict[str, list[float]] = {path: [] for path in (FLOOR, "/", "/lint", "/sites")}
        for _ in range(RUNS):
            for path, found in times.items():
                page = browser.new_context().new_page()
                page.goto(address + path)
                page.wait_for_function(f"() => {painted}")
                found.append(page.evaluate(painted))
                page.context.close()
    for path, found in times.items():
        half = statistics.median(found)
        print(f"first paint of {path}: {half:.0f} ms, at most {max(found):.0f} ms (goal: 1000 ms)")


MEASURES = {"start": start, "paint": paint, "rates": rates, "memory": memory}

if __name__ == "__main__":
    for name in sys.argv[1:] or MEASURES:
        MEASURES[name]()
        print(f"load: {os.getloadavg()[0]:.1f}", flush=True)
