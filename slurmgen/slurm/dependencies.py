"""Dependencies of a job on other jobs: how users write them, and as sbatch's --dependency. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.slurm.commands import JobId

TYPES = {"ok": "afterok", "notok": "afternotok", "any": "afterany"}
"Slurm's name of each type."
WORDS = {"ok": "has COMPLETED", "notok": "has failed", "any": "has ended"}
"When a job with such a dependency may start."
NONE = "none"
"Instead of a job: no dependency."


class After(Struct, frozen=True):
    """A dependency as the user writes it."""

    job: str
    "An id, a name, or `last`."
    type: str = "ok"
    of_project: bool = False
    "Whether it is a job of the same project, and not any job of that name."

    @property
    def text(self) -> str:
        """As `parse` reads it."""
        return f"{self.type}:{self.job}"


def parse(text: str) -> After:
    """Read `[TYPE:]JOB`.

    Raises:
        RequestError: it names no job.

    >>> parse("preprocess"), parse("any:12")
    (After(job='preprocess', type='ok', of_project=False), After(job='12', type='any', of_project=False))
    """
    kind, colon, job = text.partition(":")
    after = After(job, kind) if colon and kind in TYPES else After(text)
    if not after.job or after.job == NONE:
        raise RequestError(
            f"{text!r} names no job to wait for",
            "Write [TYPE:]JOB, where TYPE is ok, notok or any, and JOB an id, a name or `last`.",
        )
    return after


def given(words: Iterable[str]) -> tuple[After, ...]:
    """The dependencies of a command; `none` alone is none.

    Raises:
        RequestError: a word names no job.
    """
    words = tuple(words)
    return () if words == (NONE,) else tuple(map(parse, words))


def check_alone(afters: Iterable[After], own: object) -> None:
    """Refuse dependencies of a job whose script has the option --dependency itself.

    Raises:
        RequestError: it has both.
    """
    if own and any(True for _ in afters):
        raise RequestError(
            "--after or depends_on excludes the sbatch option dependency, which the script has",
            "Leave one out.",
        )


def is_met(kind: str, state: str) -> bool:
    """Whether a job that ended in a state satisfies a dependency of that type.

    >>> is_met("ok", "FAILED"), is_met("any", "FAILED"), is_met("notok", "FAILED")
    (False, True, True)
    """
    return kind == "any" or (kind == "ok") == (state == "COMPLETED")


def option(dependencies: Iterable[tuple[str, JobId]]) -> str:
    """The value of --dependency for types and jobs; the job waits for all of them.

    >>> option([("ok", JobId("12")), ("any", JobId("14")), ("ok", JobId("13"))])
    'afterok:12:13,afterany:14'
    """
    by_type: dict[str, list[str]] = {}
    for kind, job in dependencies:
        by_type.setdefault(TYPES[kind], []).append(str(job))
    return ",".join(":".join([name, *jobs]) for name, jobs in by_type.items())
