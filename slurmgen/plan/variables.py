"""The environment variables that a job exports."""

from functools import lru_cache

from msgspec import Struct

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.launchers import Geometry
from slurmgen.request import Request
from slurmgen.site import Container, Site
from slurmgen.slurm.shell import expandable, quote


class Variable(Struct, frozen=True, gc=False):
    """One exported variable."""

    name: str
    value: str
    word: str
    "The value as a shell word."
    comment: str | None = None
    prefix: str = ""
    "What a container engine wants before the name."


def variables(
    request: Request, site: Site, geometry: Geometry, container: Container | None, threads: int
) -> tuple[Variable, ...]:
    """The variables that the job exports, each once; the request overrules the site.

    Raises:
        RequestError: one that a container does not take.
    """
    prefix = ENGINES[container.engine].env_prefix if container else ""
    groups = [(site.env.always, "")]
    if geometry.world_size > 1:
        groups.append((site.env.multi_gpu, ""))
    if geometry.nodes > 1:
        groups.append((site.env.multi_node, ""))
    if container:
        groups.append((site.env.container, prefix))
    note = site.env.notes.get
    found = {"OMP_NUM_THREADS": _threads(threads)}
    for group, before in groups:
        for name, value in group.items():
            found[name] = _of_site(name, value, note(name), before)
    if container and "HOME" in request.env:
        raise RequestError(
            "--env HOME is ignored by apptainer", "Leave it out, or name the folder in --bind."
        )
    for name, value in request.env.items():
        found[name] = Variable(name, value, quote(value), None, prefix)
    return tuple(found.values())


@lru_cache(maxsize=1024)
def _of_site(name: str, value: str, note: str | None, prefix: str) -> Variable:
    return Variable(name, value, expandable(value), note, prefix)


@lru_cache(maxsize=256)
def _threads(count: int) -> Variable:
    """A rank's threads; a machine with fewer real cores may have set them already."""
    word = f'"${{OMP_NUM_THREADS:-{count}}}"'
    return Variable("OMP_NUM_THREADS", str(count), word, "Threads of a rank; a value set before stays.")
