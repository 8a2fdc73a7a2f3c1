"""The software of a job: container, Python environment, modules."""

import shlex

from msgspec import Struct, structs

from slurmgen.bundled_scripts import FOLDER, is_bundled
from slurmgen.containers import ENGINES, Call, bind_variables
from slurmgen.errors import RequestError
from slurmgen.plan.reasons import Origin, Reason, default, derived, from_profile
from slurmgen.python_env import setup_lines
from slurmgen.request import NONE, Request
from slurmgen.sites.model import Container, Modules, Site, Vendor
from slurmgen.slurm.shell import is_full_path, word


class Setup(Struct, frozen=True, kw_only=True):
    """The software of a job, with the reasons for it."""

    container: Container | None = None
    image: str = ""
    "A shell word."
    call: Call | None = None
    "The container for its engine."
    python_env: str = NONE
    python_setup: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    "Whole commands."
    needs: tuple[str, ...] = ()
    "Variables that the modules must set."
    why_container: Reason
    why_python: Reason
    why_modules: Reason


def uses_container(request: Request, site: Site) -> bool:
    """Whether the ranks of a request run in a container."""
    image = request.container or (site.container.image if site.container else None)
    return image not in (None, NONE)


def find_setup(
    request: Request, origin: Origin, site: Site, modules: Modules, nodes: int, vendor: Vendor
) -> Setup:
    """Container or Python environment, and modules.

    Raises:
        RequestError: container and Python environment exclude each other, or one of them is not valid.
    """
    container, image, why = _container(request, origin, site)
    if container:
        call = _call(request, site, container, image, vendor, several_nodes=nodes > 1)
        setup = _in_container(request, modules, container, image, why, several_nodes=nodes > 1)
        return structs.replace(setup, call=call)
    if request.binds:
        raise RequestError("--bind without a container", "Add --container IMAGE, or leave --bind out.")
    python_env, why_python = _python_env(request, origin, site)
    names, why_modules = modules.load, from_profile(site, "modules.load")
    if request.modules is not None:
        names, why_modules = request.modules, origin("modules")
    return Setup(
        python_env=python_env,
        python_setup=setup_lines(python_env),
        modules=() if request.modules == () else _module_commands(modules, names),
        why_container=why,
        why_python=why_python,
        why_modules=why_modules,
    )


def _in_container(
    request: Request, modules: Modules, container: Container, image: str, why: Reason, *, several_nodes: bool
) -> Setup:
    if (request.python_env or NONE) != NONE:
        raise RequestError(
            f"--python-env {request.python_env} and the container {image} exclude each other",
            "Python comes from the image; leave one out, or add --container none.",
        )
    for bind in request.binds or ():
        if not is_full_path(bind):
            raise RequestError(
                f"--bind {bind!r} is not a full path",
                "Write SOURCE[:TARGET] with a source that begins with /, ~/ or a $NAME.",
            )
    of_several = container.multi_node_modules if several_nodes else ()
    names = (*container.modules, *of_several, *(request.modules or ()))
    return Setup(
        container=container,
        image=image,
        modules=() if request.modules == () and not names else _module_commands(modules, names),
        needs=bind_variables(container) if several_nodes else (),
        why_container=why,
        why_python=derived("Python comes from the image"),
        why_modules=derived("the modules that the container's binds need, and those of the request")
        if names
        else derived("the container needs none"),
    )


def _call(
    request: Request, site: Site, container: Container, image: str, vendor: Vendor, *, several_nodes: bool
) -> Call:
    of_site = (*container.binds, *(container.multi_node_binds if several_nodes else ()))
    binds = tuple(map(word, (*of_site, *(request.binds or ()))))
    if binds and not ENGINES[container.engine].takes_binds:
        what = "--bind has" if request.binds else f"the binds in the profile of {site.name} have"
        raise RequestError(
            f"{what} no effect with the container engine {container.engine}",
            "Name the mounts in the environment definition file.",
        )
    if request.requeue and not ENGINES[container.engine].can_requeue:
        raise RequestError(
            f"--requeue does not work with the container engine {container.engine}: "
            "the ranks see the run folder at another path",
            "Leave --requeue out, or add --container none.",
        )
    names = (*site.env.container, *request.env)
    return Call(image, binds, vendor, names, tuple(map(word, container.options)))


def _python_env(request: Request, origin: Origin, site: Site) -> tuple[str, Reason]:
    """The Python environment of a job without a container, and its reason."""
    kind = request.python_env or site.python_env or NONE
    if kind == NONE:
        return kind, default("the python on PATH" + (" after the modules" if site.modules.load else ""))
    if kind.partition(":")[0] == "uv" and site.internet == "no":
        raise RequestError(
            f"--python-env {kind} needs the internet, which the compute nodes of {site.name} do not reach",
            "Make the environment on a login node and use --python-env venv:FOLDER, or use --container.",
        )
    if kind == "uv" and (request.script is None or is_bundled(request.script)):
        return f"uv:{FOLDER}", derived("the bundled training has a pyproject.toml of its own")
    return kind, origin("python_env") if request.python_env else from_profile(site, "python_env")


def _image(container: Container, image: str) -> str:
    return word(ENGINES[container.engine].image(image))


def _container(request: Request, origin: Origin, site: Site) -> tuple[Container | None, str, Reason]:
    if request.container == NONE:
        return None, "", origin("container")
    of_site = site.container or Container()
    image = request.container or of_site.image or ""
    if image.startswith("-"):
        raise RequestError(f"--container {image!r} begins with a dash", "Write the full path of the image.")
    if request.container:
        return of_site, _image(of_site, request.container), origin("container")
    if of_site.image:
        return of_site, _image(of_site, of_site.image), from_profile(site, "container.image")
    return None, "", default("neither the request nor the profile names an image")


def _module_commands(modules: Modules, names: tuple[str, ...]) -> tuple[str, ...]:
    """The commands that load modules. `init` runs before them, and alone where the site loads none."""
    if not names:
        return () if modules.load else modules.init
    return (*modules.init, f"module load {shlex.join(names)}")
