"""`python -m tests.fuzz [SECONDS] [TARGET...]`: try inputs until the time is over; exit 1 if one failed.

What failed is kept in .hypothesis/ and tried first the next time.
"""

import sys
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.fuzz.bounds import check
from tests.fuzz.targets import TARGETS, Target

KEPT = Path(__file__).parents[2] / ".hypothesis" / "fuzz"
EXAMPLES = 200
"Between two looks at the clock."


def fuzz(target: Target, seconds: float) -> int:
    """Try inputs for so long; how many were tried."""
    tried = 0

    @given(target.inputs)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=DirectoryBasedExampleDatabase(KEPT),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        print_blob=False,
    )
    def drawn(given: object) -> None:
        nonlocal tried
        tried += 1
        check(target, given)

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        drawn()
    return tried


def main(seconds: float, *names: str) -> int:
    """Fuzz some targets, or all; the exit code."""
    failed = 0
    chosen = {name: TARGETS[name] for name in names or TARGETS}
    for name, target in chosen.items():
        try:
            print(f"{name}: {fuzz(target, seconds / len(chosen))} inputs", flush=True)  # noqa: T201
        except BaseException:
            failed += 1
            print(f"{name}: FAILED", flush=True)  # noqa: T201
            traceback.print_exc()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(float((sys.argv[1:] or ["600"])[0]), *sys.argv[2:]))
