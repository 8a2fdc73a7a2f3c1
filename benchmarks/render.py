"""1,000 requests rendered in one process, compared with bare Jinja2. Medians of 11 alternating runs."""

import itertools
import statistics
import time
from collections.abc import Callable

from slurmgen import Request, load_site, render, resolve
from slurmgen.render import _main_template, values_of

RUNS = 11
GOAL = 100
"Milliseconds."
SITE = load_site("olivia")


def requests() -> list[Request]:
    """1,000 requests that differ in framework, GPUs, time, memory and arguments."""
    frameworks, gpus = ["ddp", "lightning", "accelerate"], [1, 2, 4, 8, 16]
    combinations = itertools.islice(itertools.product(frameworks, gpus, range(1, 68)), 1000)
    return [
        Request(
            framework=framework,
            gpus=count,
            account="nn1234k",
            time=f"{number}:00:00",
            mem=f"{100 + number}G",
            name=f"job{number}",
            script_args=("--seed", str(number)),
        )
        for framework, count, number in combinations
    ]


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Print the time, the baseline, the ratio and its target."""
    made = requests()
    template = _main_template(None)
    ready = [values_of(resolve(request, SITE)) for request in made]
    texts = {template.render(values) for values in ready}
    assert len(texts) == len(made) == 1000

    def ours() -> None:
        for request in made:
            render(resolve(request, SITE))

    def bare() -> None:
        for values in ready:
            template.render(values)

    times = [(seconds(ours), seconds(bare)) for _ in range(RUNS)]
    mine, floor = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"1,000 requests to scripts: {mine * 1e3:.0f} ms; bare Jinja2, ready values: {floor * 1e3:.0f} ms; "
        f"ratio {mine / floor:.2f} (goal: at most {GOAL} ms)"
    )


if __name__ == "__main__":
    main()
