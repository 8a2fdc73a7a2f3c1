"""The submissions of the arrays of a sweep."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from slurmgen.jobs import sweep_table
from slurmgen.jobs.new_entry import new_key
from slurmgen.jobs.one_job import Outcome
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.submission import Observer, submission, submissions
from slurmgen.plan import Plan
from slurmgen.plan.sweep import array_plans
from slurmgen.remote.transport import Transport


def arrays_of(prepared: Prepared, plan: Plan, render: Callable[[Plan], str]) -> list[Prepared]:
    """The submission of each array of a sweep, all of the same files; of another job, that one alone.

    Args:
        prepared: the first array.
        plan: its plan.
        render: makes the script of a plan.
    """
    return [prepared, *(_further(prepared, one, render(one)) for one in array_plans(plan)[1:])]


@contextmanager
def submit_arrays(
    arrays: Sequence[Prepared],
    connect: Callable[[], Transport],
    *,
    again: bool = False,
    observer: Observer | None = None,
) -> Iterator[Sequence[Outcome]]:
    """Submit what `arrays_of` returned: several arrays as one group; see `submission` and `submissions`."""
    if len(arrays) > 1:
        with submissions(arrays, connect, again=again, observer=observer) as outcomes:
            yield outcomes
    else:
        with submission(arrays[0], connect, again=again, observer=observer) as outcome:
            yield [outcome]


def _further(prepared: Prepared, plan: Plan, script: str) -> Prepared:
    made = structs.replace(prepared.submission, script=script, key=new_key())
    first = plan.sweep.array.first if plan.sweep else 0
    record = structs.replace(
        prepared.record,
        key=made.key,
        folder=made.folder,
        fingerprint=f"{prepared.record.fingerprint}+{first}",
        tasks=sweep_table.as_text(plan.sweep),
    )
    return structs.replace(prepared, submission=made, record=record)
