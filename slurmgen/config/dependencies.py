"""Which jobs of slurmgen.toml depend on which, and the order that follows."""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from slurmgen.config.project import FILE_NAME, Project, job_request
from slurmgen.errors import ConfigError, RequestError, did_you_mean
from slurmgen.slurm.dependencies import After, parse
from slurmgen.toml_structs import located


def needs(project: Project, job: str) -> tuple[After, ...]:
    """What a job depends on, by the names of the jobs in slurmgen.toml.

    Raises:
        RequestError: a dependency names no job.
    """
    words = project.job[job].depends_on
    return tuple(map(parse, (words,) if isinstance(words, str) else words))


def depends_on(project: Project, job: str, site: str) -> tuple[After, ...]:
    """The jobs that a job depends on, by the names that Slurm has for them."""
    return tuple(
        After(job_request(project, one.job, site).name or one.job, one.type, of_project=True)
        for one in needs(project, job)
    )


def in_order(project: Project, names: Iterable[str]) -> list[str]:
    """Jobs in an order in which each comes after those that it depends on.

    Raises:
        RequestError: jobs depend on each other; the error has the cycle.
    """
    chosen = dict.fromkeys(names)
    graph = {name: [one.job for one in needs(project, name) if one.job in chosen] for name in chosen}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " depends on ".join(reversed(error.args[1]))
        raise RequestError(
            f"jobs depend on each other: {cycle}", "Remove one of these dependencies."
        ) from None


def with_dependencies(project: Project, job: str | None) -> list[str]:
    """A job and those that it depends on, directly or not, in order; without a name, all jobs.

    Raises:
        RequestError: there is no such job.
    """
    if job is not None and job not in project.job:
        raise RequestError(f"there is no job {job!r} in {FILE_NAME}", did_you_mean(job, project.job))
    waiting, found = [job] if job else list(project.job), list[str]()
    while waiting:
        if (name := waiting.pop()) not in found:
            found.append(name)
            waiting += [one.job for one in needs(project, name)]
    return in_order(project, [name for name in project.job if name in found])


def check_dependencies(project: Project, project_dir: Path) -> None:
    """Refuse a dependency on a job that slurmgen.toml does not have, and jobs that depend on each other.

    Raises:
        ConfigError: it names the line, and the jobs of a cycle.
    """
    dependent = [name for name, job in project.job.items() if job.depends_on]
    for name in dependent:
        try:
            unknown = next((one.job for one in needs(project, name) if one.job not in project.job), None)
        except RequestError as error:
            raise ConfigError(f"{_place(project_dir, name)}: {error.fact}", error.hint) from None
        if unknown:
            raise ConfigError(
                f"{_place(project_dir, name)}: job {name} depends on {unknown!r}, "
                f"which {FILE_NAME} does not have",
                did_you_mean(unknown, project.job),
            )
    try:
        in_order(project, dependent)
    except RequestError as error:
        raise ConfigError(f"{_place(project_dir, dependent[0])}: {error.fact}", error.hint) from None


def _place(project_dir: Path, job: str) -> str:
    return located(project_dir / FILE_NAME, ["job", job, "depends_on"])
