"""Submit jobs that depend on each other."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from msgspec import structs

from slurmgen.config.project import Project, needs
from slurmgen.errors import RequestError
from slurmgen.submit.prepare import Prepared


def group(prepared: Mapping[str, Prepared], project: Project) -> list[Prepared]:
    """The submissions of one group, each with the ones that it needs.

    A repeated command is found by the names of the jobs in the group and the script of each.

    Args:
        prepared: by the name of the job in slurmgen.toml, in their order.
        project: slurmgen.toml.

    Raises:
        RequestError: a job is a sweep, which may be several arrays.
    """
    names = list(prepared)
    for name, one in prepared.items():
        if one.record.tasks:
            raise RequestError(
                f"--all does not submit a sweep, and {name} is one",
                f"Submit it alone: slurmgen submit {name}.",
            )
    return [_member(name, one, names, project) for name, one in prepared.items()]


def _member(name: str, prepared: Prepared, names: Sequence[str], project: Project) -> Prepared:
    within = tuple((names.index(one.job), one.type) for one in needs(project, name))
    text = "\0".join([prepared.record.fingerprint, name, *names])
    record = structs.replace(prepared.record, fingerprint=sha256(text.encode()).hexdigest())
    return structs.replace(prepared, record=record, needs=within)
