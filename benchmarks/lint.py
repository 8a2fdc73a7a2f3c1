"""Measures the speed and accuracy of the linter, for docs/benchmarks.md and docs/lint.md.

Run it alone on the machine: `python benchmarks/lint.py`.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from msgspec import structs

from slurmgen.lint import all_rules, chosen, lint_text
from slurmgen.sites.profiles import load_site
from tests.lint import corpus
from tests.lint.corpus import Sample

SCRIPTS = 1000
LEAST_PER_SECOND = 300
MOST_TIMES = 2.0
BARE = "import click, tree_sitter_bash"


def best(run: Callable[[], object], times: int) -> float:
    """The shortest of several runs, in seconds; other load only makes a run longer."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def samples() -> list[Sample]:
    """All scripts whose faults are known."""
    of_rules = [s for code in all_rules() for kind in ("bad", "good") for s in corpus.of_rule(code, kind)]
    return [*of_rules, *corpus.published(), *corpus.correct()]


def scripts_per_second() -> float:
    """Scripts linted in one process, on one core."""
    texts = [sample.text for sample in samples()]
    many = (texts * (SCRIPTS // len(texts) + 1))[:SCRIPTS]
    return SCRIPTS / best(lambda: [lint_text(text) for text in many], 3)


def process_times() -> tuple[float, float]:
    """Seconds of `slurmgen lint FILE`, and of a Python that only imports its two libraries."""
    script = str(corpus.HERE / "rules" / "SG301" / "bad_1.sbatch")
    whole = "import sys; from slurmgen.cli import main; main(['lint', sys.argv[1]])"
    commands = [[sys.executable, "-c", whole, script], [sys.executable, "-c", BARE]]
    shortest = [float("inf"), float("inf")]
    for _ in range(20):
        for i, command in enumerate(commands):
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            shortest[i] = min(shortest[i], time.perf_counter() - start)
    return shortest[0], shortest[1]


def accuracy() -> tuple[int, int, int]:
    """Faults found, faults missed, and findings where there is no such fault, over the corpus.

    The bad script of a rule has that rule's fault, and may have others that its author did not count;
    the published and the correct scripts are counted in full.
    """
    found = missed = wrong = 0
    for sample in samples():
        lists = ("partitions", "gpu.types")
        site = structs.replace(load_site(sample.site), complete=lists) if sample.site else None
        rules = {*chosen(), *sample.codes}
        said = {report.rule.code for report in lint_text(sample.text, site, sample.path, rules)}
        found += len(said & sample.codes)
        missed += len(sample.codes - said)
        is_bad = sample.path.name.startswith("bad")
        wrong += 0 if is_bad else len(said - sample.codes)
    return found, missed, wrong


def main() -> int:
    """Print the figures; 1 if a target is missed."""
    speed = scripts_per_second()
    whole, bare = process_times()
    found, missed, wrong = accuracy()
    print(f"| scripts a second, one process, one core | {speed:.0f} | at least {LEAST_PER_SECOND} |")
    print(
        f"| `slurmgen lint FILE`, whole process | {whole * 1000:.0f} ms | at most 2 x {bare * 1000:.0f} ms |"
    )
    print(f"| ... as a multiple of `python -c '{BARE}'` | {whole / bare:.2f} | at most {MOST_TIMES} |")
    print(f"| faults in {len(samples())} scripts | {found + missed} | |")
    print(f"| recall | {found / (found + missed):.3f} | |")
    print(f"| precision | {found / (found + wrong):.3f} | |")
    return int(speed < LEAST_PER_SECOND or whole > MOST_TIMES * bare or missed > 0 or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
