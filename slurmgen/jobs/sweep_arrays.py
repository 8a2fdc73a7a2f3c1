"""The submissions of the arrays of a sweep."""

from collections.abc import Callable

from msgspec import structs

from slurmgen.jobs import sweep_table
from slurmgen.jobs.new_entry import new_key
from slurmgen.jobs.prepare import Prepared
from slurmgen.plan import Plan
from slurmgen.plan.sweep import array_plans


def arrays_of(prepared: Prepared, plan: Plan, render: Callable[[Plan], str]) -> list[Prepared]:
    """The submission of each array of a sweep, all of the same files; of another job, that one alone.

    Args:
        prepared: the first array.
        plan: its plan.
        render: makes the script of a plan.
    """
    return [prepared, *(_further(prepared, one, render(one)) for one in array_plans(plan)[1:])]


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
