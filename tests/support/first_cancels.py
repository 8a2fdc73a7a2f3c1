"""Run `slurmgen cancel` at a random moment of `submit --first`, and look for what is left.

`python -m tests.support.first_cancels COUNT SEED` makes that many trials; docs/reliability.md has the result.
"""

import random
import sys
import time
from collections import Counter
from pathlib import Path

from slurmgen.ledger.ledger import Ledger
from tests.support.first_faults import Testbeds, active, finished, forked, runs_of, started, user_of
from tests.support.twins import eventually, twin

MOMENTS = (0.2, 1.6)
"Seconds after the start of the client; at the first there may be no entry in the ledger yet."


def trial(project: Path, testbeds: Testbeds, name: str, chance: random.Random) -> Counter[str]:
    """Cancel one race, and count what came of it."""
    client = started(project, name)
    time.sleep(chance.uniform(*MOMENTS))
    if finished(
        forked(project, f"{name}.cancel.log", ["cancel", name], lambda: None)
    ):  # there was no entry yet
        assert not finished(client)
        return Counter({"nothing to cancel yet": 1})
    finished(client)
    eventually(lambda: not active(testbeds, [name]), 60)
    pending = any(entry.name == name and entry.pending for entry in Ledger().all())
    counts = Counter({f"cancelled, the program ran {len(runs_of(project, name))} times": 1})
    return counts + Counter({"unsettled entries left": int(pending)})


if __name__ == "__main__":
    with twin("generic") as generic, twin("daic", nodes=1) as daic:
        both, counts = {"generic": generic, "daic": daic}, Counter[str]()
        with user_of(both) as own:
            for number in range(int(sys.argv[1])):
                chance = random.Random(int(sys.argv[2]) * 1000 + number)  # noqa: S311
                counts += trial(own, both, f"cancel-{number}", chance)
                print(number + 1, dict(counts), flush=True)  # noqa: T201
