"""The arrays of a sweep: which task runs which parameters, and what that means for the script."""

from collections.abc import Sequence

from msgspec import structs

from slurmgen.errors import Hint, RequestError, contradiction, offered, option
from slurmgen.launchers import Layout
from slurmgen.plan.model import Array, Plan, Row, Sweeping
from slurmgen.request.model import MOST_PER_GPU, TASK_FOLDER, Request, Sweep, arguments, runs_of
from slurmgen.sites.model import Site
from slurmgen.slurm.shell import Variable, literal

SLURMS_ARRAY_SIZE = 1001
"Slurm's default of MaxArraySize."
RUN_DIR = "RUN_DIR"
"The variable with the folder of a run."
ARGUMENTS = "arguments"
"The variable of the script with the arguments of a run."
RUN_DIR_VARIABLE = Variable(
    RUN_DIR,
    f"{TASK_FOLDER}/ID_TASK",
    f'"$PWD/{TASK_FOLDER}/${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"',
    "The folder of this task of the sweep.",
)
PROGRESS_DIR = "PROGRESS_DIR"
"The variable with the folder whose files are the progress of a job that is requeued or in segments."
_PROGRESS = Variable(PROGRESS_DIR, "$RUN_DIR", '"$RUN_DIR"', "Files of other tasks are not its progress.")


def find_sweep(request: Request, site: Site, layout: Layout) -> Sweeping | None:
    """The sweep of a request; None if it asks for none."""
    sweep = request.sweep
    if sweep is None:
        return None
    runs = runs_of(sweep)
    _check(request, sweep, layout)
    per_task = sweep.runs_per_gpu or 1
    count = -(-len(runs) // per_task)
    tasks = _chosen(sweep, count)
    rows = (
        Row(number, tuple(map(literal, arguments(parameters, sweep.style))))
        for number, parameters in enumerate(runs)
    )
    arrays = _arrays(tasks, site.max_array_size or SLURMS_ARRAY_SIZE, sweep.limit)
    return Sweeping(runs, tuple(rows), arrays, per_task)


def with_array(sweep: Sweeping | None, further: dict[str, str]) -> dict[str, str]:
    """The further sbatch options with the array of a sweep."""
    return further | {"array": sweep.array.directive} if sweep else further


def array_plans(plan: Plan) -> list[Plan]:
    """The plan of each array of a sweep; the plan alone without one."""
    if plan.sweep is None:
        return [plan]
    own = [structs.replace(plan.sweep, current=index) for index in range(len(plan.sweep.arrays))]
    options = dict(plan.extra_directives)
    return [
        structs.replace(plan, sweep=one, extra_directives=tuple(with_array(one, options).items()))
        for one in own
    ]


def sweep_variables(request: Request) -> dict[str, Variable]:
    """The variables that the tasks of a sweep export."""
    if request.sweep is None:
        return {}
    return {one.name: one for one in (RUN_DIR_VARIABLE, *([_PROGRESS] if request.requeue else []))}


def _check(request: Request, sweep: Sweep, layout: Layout) -> None:
    if request.sbatch.get("array"):
        then = f"Leave one out; {option('sweep_limit')} limits the tasks."
        raise contradiction(option("sweep"), option("sbatch", "array"), then=then)
    if sweep.limit is not None and sweep.limit < 1:
        raise RequestError(f"{option('sweep_limit')} is {sweep.limit}", "It takes a whole number from 1 on.")
    per_gpu = sweep.runs_per_gpu
    if per_gpu is None or per_gpu == 1:
        return
    if not 1 < per_gpu <= MOST_PER_GPU:
        raise RequestError(
            f"sweep.runs_per_gpu is {per_gpu}", f"It takes a number from 1 to {MOST_PER_GPU}.", "sweep"
        )
    if layout.gpus != 1:
        raise RequestError(
            f"sweep.runs_per_gpu is {per_gpu}, but each task has {layout.gpus} GPUs",
            "Runs can share one GPU: set gpus = 1.",
            "sweep",
        )
    for key, why in _ALONE.items():
        if getattr(request, key):
            raise RequestError(
                f"sweep.runs_per_gpu and {key} exclude each other: {why}", "Leave one out.", "sweep"
            )


_ALONE = {
    "requeue": "a task is requeued for one run",
    "then": "a further step follows one run",
}
"What does not go together with several runs of a task, and why."


def _chosen(sweep: Sweep, count: int) -> Sequence[int]:
    if sweep.tasks is None:
        return range(count)
    wrong = [number for number in sweep.tasks if not 0 <= number < count]
    if wrong or not sweep.tasks:
        shown = f"has {wrong[0]}, and the sweep has tasks 0 to {count - 1}" if wrong else "is empty"
        raise RequestError(f"sweep.tasks {shown}", "Correct it, or leave it out.", "sweep")
    return sorted(set(sweep.tasks))


def _arrays(tasks: Sequence[int], size: int, limit: int | None) -> tuple[Array, ...]:
    """The arrays for these tasks, each with indexes below the site's MaxArraySize."""
    firsts = dict.fromkeys(number // size * size for number in tasks)
    if limit and limit < len(firsts):
        raise RequestError(
            f"{option('sweep_limit', limit)} is less than its {len(firsts)} arrays of at most {size} tasks",
            Hint(
                "The arrays run beside each other: sweep fewer values, or raise the limit.",
                offered("sweep_limit", len(firsts)),
            ),
        )
    return tuple(
        Array(
            first,
            tuple(number - first for number in tasks if first <= number < first + size),
            _share(limit, position, len(firsts)),
        )
        for position, first in enumerate(firsts)
    )


def _share(limit: int | None, position: int, count: int) -> int | None:
    return limit // count + (position < limit % count) if limit else None
