"""The software of a job: container, Python environment, modules."""

import shlex

from msgspec import Struct

from slurmgen.bundled_scripts import FOLDER, is_bundled
from slurmgen.containers import (
    ENGINES,
    Call,
    bind_variables,
    lookup_command,
)
from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import Hint, cleared, leave_it_out
from slurmgen.plan.container import (
    WITHOUT_CONTAINER,
    Image,
    call_of,
    fetch_lines_of,
    find_container,
    uses_gpu_software,
)
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.reasons import Reason, default, derived, from_profile
from slurmgen.python_env import IN_CONTAINER, in_container, setup_lines
from slurmgen.request import NONE, Request
from slurmgen.sites.model import Container, Modules, Vendor
from slurmgen.slurm.shell import word


class Setup(Struct, frozen=True, kw_only=True):
    """The software of a job, with the reasons for it."""

    container: Container | None = None
    image: str = ""
    "A shell word."
    is_file: bool = False
    "The image is a path on the cluster."
    lookup: str = ""
    "A command that finds the image in the engine's store; empty for a file."
    call: Call | None = None
    "The container for its engine."
    fetch: tuple[str, ...] = ()
    "Lines that fetch the image from a registry."
    python_env: str = NONE
    python_setup: tuple[str, ...] = ()
    line_in_task: str = ""
    "A shell line that each task runs in the container first."
    modules: tuple[str, ...] = ()
    "Whole commands."
    needs: tuple[str, ...] = ()
    "Variables that the modules must set."
    why_container: Reason
    why_python: Reason
    why_modules: Reason


def find_setup(inputs: Inputs, modules: Modules, nodes: int, vendor: Vendor | None) -> Setup:
    """Container or Python environment, and modules.

    Args:
        inputs: the request and its site.
        modules: those of the site, for this job.
        nodes: nodes of the job.
        vendor: of the GPUs; None without any.

    Raises:
        RequestError: container and Python environment exclude each other, or one of them is not valid.
    """
    container, image, why = find_container(inputs)
    if container is None:
        return _without_container(inputs, modules, why)
    several = nodes > 1 and uses_gpu_software(inputs.request)
    return _in_container(inputs, modules, Image(container, image, why, several), nodes, vendor)


def _without_container(inputs: Inputs, modules: Modules, why: Reason) -> Setup:
    request, site, origin = inputs
    if request.binds:
        then = f"Add {option('container', 'IMAGE')}, or leave {option('binds')} out."
        raise RequestError(f"{option('binds')} without a container", leave_it_out("binds", text=then))
    python_env, why_python = _python_env(inputs)
    names, why_modules = modules.load, from_profile(site, "modules.load")
    if not uses_gpu_software(request):
        names, why_modules = (), derived("the modules of the site are for jobs with GPUs")
    if request.modules is not None:
        names, why_modules = request.modules, origin("modules")
    return Setup(
        python_env=python_env,
        python_setup=setup_lines(python_env),
        modules=_module_commands(modules, names) if names or _uses_init(request) else (),
        why_container=why,
        why_python=why_python,
        why_modules=why_modules,
    )


def _uses_init(request: Request) -> bool:
    """Whether a job without modules runs the commands that the site runs before it loads some."""
    return request.modules is None and uses_gpu_software(request)


def _in_container(
    inputs: Inputs, modules: Modules, chosen: Image, nodes: int, vendor: Vendor | None
) -> Setup:
    request, site, origin = inputs
    container, image, engine = chosen.container, word(chosen.name), ENGINES[chosen.container.engine]
    python_env = request.python_env or NONE
    if python_env.partition(":")[0] not in IN_CONTAINER:
        raise RequestError(
            f"{option('python_env', request.python_env)} and the container {image} exclude each other",
            Hint(
                f"Python comes from the image; leave one out, add {option('container', NONE)}, or name a "
                "venv:FOLDER or squashfs:FILE that the Python of the image has made.",
                (*WITHOUT_CONTAINER, *cleared("python_env")),
            ),
        )
    line = in_container(python_env).line
    is_file = engine.is_file(chosen.name)
    commands, why_modules = _modules_of(request, modules, chosen)
    return Setup(
        container=container,
        image=image,
        is_file=is_file,
        lookup="" if is_file else lookup_command(engine, chosen.name),
        fetch=fetch_lines_of(site, container, chosen.name, nodes),
        call=call_of(request, site, chosen, vendor),
        modules=commands,
        needs=bind_variables(container) if chosen.several_nodes else (),
        why_container=chosen.why,
        python_env=python_env,
        line_in_task=line,
        why_python=origin("python_env") if line else derived("Python comes from the image"),
        why_modules=why_modules,
    )


def _modules_of(request: Request, modules: Modules, chosen: Image) -> tuple[tuple[str, ...], Reason]:
    """The commands for the modules of a job in a container, and the reason for them."""
    container = chosen.container
    of_several = container.multi_node_modules if chosen.several_nodes else ()
    names = (*container.modules, *of_several, *(request.modules or ()))
    commands = () if request.modules == () and not names else _module_commands(modules, names)
    if not names:
        return commands, derived("the container needs none")
    return commands, derived("the modules that the container's binds need, and those of the request")


def runs_bundled(request: Request) -> bool:
    """Whether a job runs a bundled script."""
    return is_bundled(request.script) if request.script else not request.names_program


def _python_env(inputs: Inputs) -> tuple[str, Reason]:
    """The Python environment of a job without a container, and its reason."""
    request, site, origin = inputs
    kind = request.python_env or site.python_env or NONE
    if kind == NONE:
        return kind, default("the python on PATH" + (" after the modules" if site.modules.load else ""))
    if kind.partition(":")[0] in ("uv", "pixi") and site.internet == "no":
        raise RequestError(
            f"{option('python_env', kind)} needs the internet, "
            f"which the compute nodes of {site.name} do not reach",
            f"Make the environment on a login node and use {option('python_env', 'venv:FOLDER')} "
            f"(with pixi, the folder .pixi/envs/NAME), or use {option('container')}.",
        )
    if kind == "uv" and runs_bundled(request):
        return f"uv:{FOLDER}", derived("the bundled training has a pyproject.toml of its own")
    return kind, origin("python_env") if request.python_env else from_profile(site, "python_env")


def _module_commands(modules: Modules, names: tuple[str, ...]) -> tuple[str, ...]:
    """The commands that load modules. `init` runs before them, and alone where the site loads none."""
    if not names:
        return () if modules.load else modules.init
    return (*modules.init, f"module load {shlex.join(names)}")
