"""The environment variables that a job exports."""

from functools import lru_cache

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.launchers import Geometry
from slurmgen.request import Request
from slurmgen.site import Container, Site
from slurmgen.slurm.shell import Variable, expandable, quote

_UNBUFFERED = Variable("PYTHONUNBUFFERED", "1", "1", "So that the log shows at once what is printed.")


def variables(
    request: Request, site: Site, geometry: Geometry, container: Container | None, threads: int
) -> tuple[Variable, ...]:
    """The variables that the job exports, each once; the request overrules the site.

    Raises:
        RequestError: one that a container does not take.
    """
    prefix = ENGINES[container.engine].env_prefix if container else ""
    of_site = site.env.ready[(geometry.world_size > 1) + (geometry.nodes > 1)]
    found = {"OMP_NUM_THREADS": _threads(threads), _UNBUFFERED.name: _UNBUFFERED, **of_site}
    if container:
        for name, value in site.env.container.items():
            found[name] = Variable(name, value, expandable(value), site.env.notes.get(name), prefix)
    if container and "HOME" in request.env:
        raise RequestError(
            "--env HOME is ignored by apptainer", "Leave it out, or name the folder in --bind."
        )
    for name, value in request.env.items():
        found[name] = Variable(name, value, quote(value), None, prefix)
    return tuple(found.values())


@lru_cache(maxsize=256)
def _threads(count: int) -> Variable:
    """A rank's threads; a machine with fewer real cores may have set them already."""
    word = f'"${{OMP_NUM_THREADS:-{count}}}"'
    return Variable("OMP_NUM_THREADS", str(count), word, "Threads of a rank; a value set before stays.")
