"""The options of a batch script that is submitted again: those of the earlier job, with changes."""

from msgspec import structs

from slurmgen.jobs.script_options import EXCLUDES, OPTIONS, counts_gpus
from slurmgen.plan.mail import FIELDS
from slurmgen.request import Request, merge
from slurmgen.slurm.sbatch_options import given

_NAMES = {
    **{field: (name,) for field, name in OPTIONS.items()},
    **{field: (name,) for name, field in FIELDS.items()},
}
"The options of sbatch that a field of the request may become, but those for GPUs."
_GPUS = ("gpus", "gpu_type")


def changed(earlier: Request, changes: Request) -> Request:
    """The earlier options with changes, which replace those that mean the same or exclude them.

    >>> earlier = Request(mem="4G", sbatch={"time": "1:00:00"})
    >>> new = changed(earlier, Request(time="2:00:00", sbatch={"mem-per-cpu": "1G"}))
    >>> new.mem, new.time, new.sbatch
    (None, '2:00:00', {'mem-per-cpu': '1G'})
    >>> changed(Request(sbatch={"gres": "tmp:5", "gpus": "1"}), Request(gpus=2)).sbatch
    {'gres': 'tmp:5'}
    """
    fields = [field for field in _NAMES if getattr(changes, field) is not None]
    new = {name for field in fields for name in _NAMES[field]} | {*changes.sbatch}
    if any(getattr(changes, field) is not None for field in _GPUS):
        new |= _counting_gpus(earlier)
    excluded = {name for one in new for name in EXCLUDES.get(one, ())}
    sbatch = {name: value for name, value in earlier.sbatch.items() if name not in new | excluded}
    gone = excluded | {*changes.sbatch}
    cleared = [field for field, names in _NAMES.items() if gone & {*names}]
    if _counting_gpus(changes):
        cleared += _GPUS
    return merge(structs.replace(earlier, **dict.fromkeys(cleared), sbatch=sbatch), changes)


def _counting_gpus(request: Request) -> set[str]:
    return {name for name, value in given(request.sbatch).items() if counts_gpus(name, value)}
