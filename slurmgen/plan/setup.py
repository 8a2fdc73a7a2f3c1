"""Where the job's programs come from: container, Python environment, modules."""

import re
import shlex
from functools import lru_cache

from msgspec import Struct

from slurmgen.containers import bind_variables
from slurmgen.errors import RequestError
from slurmgen.request import NONE, Request
from slurmgen.site import Container, Site
from slurmgen.slurm.shell import expandable, quote
from slurmgen.software import setup_lines

_BUNDLED = r"training/(cifar|mnist)_(ddp|lightning|accelerate)\.py"


class Setup(Struct, frozen=True, kw_only=True, gc=False):
    """Where the job's programs come from, and why from there."""

    container: Container | None = None
    image: str = ""
    "A shell word."
    python_env: str = NONE
    python_setup: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    "Whole commands."
    needs: tuple[str, ...] = ()
    "Variables that the modules must have set."
    why_container: str
    why_python: str
    why_modules: str


def find_setup(request: Request, site: Site, nodes: int) -> Setup:
    """Container or Python environment, and modules.

    Raises:
        RequestError: both a container and a Python environment are asked for, or one of them is none.
    """
    container, image, why = _container(request, site)
    if container:
        return _in_container(request, site, container, image, why, several_nodes=nodes > 1)
    if request.binds:
        raise RequestError("--bind without a container", "Add --container IMAGE, or leave --bind out.")
    python_env, why_python = _python_env(request, site)
    names, why_modules = site.modules.load, f"from the profile of {site.name}"
    if request.modules is not None:
        names, why_modules = request.modules, "as asked"
    return Setup(
        python_env=python_env,
        python_setup=setup_lines(python_env),
        modules=_module_commands(site.modules.init, names),
        why_container=why,
        why_python=why_python,
        why_modules=why_modules,
    )


def _in_container(
    request: Request, site: Site, container: Container, image: str, why: str, *, several_nodes: bool
) -> Setup:
    if (request.python_env or NONE) != NONE:
        raise RequestError(
            f"--python-env {request.python_env} and the container {image} exclude each other",
            "Python comes from the image; leave one out, or add --container none.",
        )
    for bind in request.binds or ():
        if not bind.startswith(("/", "$")):
            raise RequestError(f"--bind {bind!r} is no full path", "Write it from / on, as SOURCE[:TARGET].")
    of_container = container.multi_node_modules if several_nodes else ()
    names = (*of_container, *(request.modules or ()))
    return Setup(
        container=container,
        image=image,
        modules=_module_commands(site.modules.init, names),
        needs=bind_variables(container) if several_nodes else (),
        why_container=why,
        why_python="Python comes from the image",
        why_modules="what the binds of the container need, and what was asked for"
        if names
        else "none needed",
    )


def _python_env(request: Request, site: Site) -> tuple[str, str]:
    """Where Python comes from without a container, and why."""
    kind = request.python_env or site.python_env or NONE
    if kind == NONE:
        return kind, "the python on PATH" + (" after the modules" if site.modules.load else "")
    if kind == "uv" and (request.script is None or re.fullmatch(_BUNDLED, request.script)):
        return "uv:training", "the bundled training has a pyproject.toml of its own"
    return kind, "as asked" if request.python_env else f"from the profile of {site.name}"


def _container(request: Request, site: Site) -> tuple[Container | None, str, str]:
    if request.container == NONE:
        return None, "", "as asked"
    of_site = site.container or Container()
    image = request.container or of_site.image or ""
    if image.startswith("-"):
        raise RequestError(f"--container {image!r} begins with a dash", "Write the image's full path.")
    if request.container:
        return of_site, quote(request.container), "as asked"
    if of_site.image:
        return of_site, expandable(of_site.image), f"from the profile of {site.name}"
    return None, "", "no image is named"


@lru_cache(maxsize=256)
def _module_commands(init: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return (*init, f"module load {shlex.join(names)}") if names else ()
