"""The software of a job: container, Python environment, modules."""

import shlex
from typing import cast

from msgspec import Struct, structs

from slurmgen.bundled_scripts import FOLDER, is_bundled
from slurmgen.containers import (
    ENGINES,
    Call,
    bind_fault,
    bind_variables,
    fetch_command,
    fetch_lines,
    fetched,
    file_name,
    is_remote,
    lookup_command,
)
from slurmgen.errors import RequestError, did_you_mean
from slurmgen.plan.reasons import Origin, Reason, default, derived, from_profile
from slurmgen.plan.staging import data_binds
from slurmgen.python_env import IN_CONTAINER, in_container, setup_lines
from slurmgen.request import NONE, Request
from slurmgen.sites.model import Container, EngineName, Modules, OtherEngine, Site, Vendor
from slurmgen.slurm.shell import variables_in, word


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


def uses_container(request: Request, site: Site) -> bool:
    """Whether the ranks of a request run in a container."""
    default_image = _engine(request, site).image if _uses_gpu_software(request) else None
    return (request.container or default_image or NONE) != NONE


def _uses_gpu_software(request: Request) -> bool:
    """Whether the site's own image and modules may be used: they are made for the GPU nodes."""
    return request.gpus != 0


def find_setup(
    request: Request, origin: Origin, site: Site, modules: Modules, nodes: int, vendor: Vendor | None
) -> Setup:
    """Container or Python environment, and modules.

    Raises:
        RequestError: container and Python environment exclude each other, or one of them is not valid.
    """
    container, image, why = _container(request, origin, site)
    if container:
        several = nodes > 1 and _uses_gpu_software(request)  # the libraries of the host are for NCCL
        setup = _in_container(request, origin, modules, container, word(image), why, several_nodes=several)
        fetch = _fetch(site, container, image, nodes)
        call = _call(request, site, container, image, vendor, several_nodes=several)
        engine = ENGINES[container.engine]
        is_file = engine.is_file(image)
        lookup = "" if is_file else lookup_command(engine, image)
        return structs.replace(setup, call=call, fetch=fetch, is_file=is_file, lookup=lookup)
    if request.binds:
        raise RequestError("--bind without a container", "Add --container IMAGE, or leave --bind out.")
    python_env, why_python = _python_env(request, origin, site)
    names, why_modules = modules.load, from_profile(site, "modules.load")
    if not _uses_gpu_software(request):
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
    return request.modules is None and _uses_gpu_software(request)


def _in_container(
    request: Request,
    origin: Origin,
    modules: Modules,
    container: Container,
    image: str,
    why: Reason,
    *,
    several_nodes: bool,
) -> Setup:
    python_env = request.python_env or NONE
    if python_env.partition(":")[0] not in IN_CONTAINER:
        raise RequestError(
            f"--python-env {request.python_env} and the container {image} exclude each other",
            "Python comes from the image; leave one out, add --container none, or name a venv:FOLDER or "
            "squashfs:FILE that the Python of the image has made.",
        )
    line = in_container(python_env).line
    of_several = container.multi_node_modules if several_nodes else ()
    names = (*container.modules, *of_several, *(request.modules or ()))
    return Setup(
        container=container,
        image=image,
        modules=() if request.modules == () and not names else _module_commands(modules, names),
        needs=bind_variables(container) if several_nodes else (),
        why_container=why,
        python_env=python_env,
        line_in_task=line,
        why_python=origin("python_env") if line else derived("Python comes from the image"),
        why_modules=derived("the modules that the container's binds need, and those of the request")
        if names
        else derived("the container needs none"),
    )


def _call(
    request: Request,
    site: Site,
    container: Container,
    image: str,
    vendor: Vendor | None,
    *,
    several_nodes: bool,
) -> Call:
    engine = ENGINES[container.engine]
    of_site = (*container.binds, *(container.multi_node_binds if several_nodes else ()))
    for what, binds in {f"[container] binds of {site.name}": of_site, "--bind": request.binds}.items():
        _check_binds(container, what, binds or ())
    if request.may_stop_early and not engine.can_requeue:
        raise RequestError(
            f"{_stops(request)} does not work with the container engine {container.engine}: "
            "the ranks see the run folder at another path",
            f"Leave {_stops(request)} out, or add --container none.",
        )
    remote = is_remote(engine, image)
    environment = _environment_binds(request, container)
    return Call(
        image=fetched(engine, image) if remote else word(image),
        binds=(
            *map(word, (*of_site, *environment, *(request.binds or ()))),
            *data_binds(request, container.engine),
        ),
        vendor=vendor,
        options=tuple(map(word, (*container.options, *(container.gpu_options if vendor else ())))),
        fetched=remote,
    )


def _environment_binds(request: Request, container: Container) -> tuple[str, ...]:
    """The bind of a Python environment in a SquashFS file."""
    if not (bind := in_container(request.python_env or NONE).bind):
        return ()
    if not ENGINES[container.engine].binds_squashfs:
        raise RequestError(
            f"python_env squashfs does not work with the container engine {container.engine}: "
            "only apptainer and singularity bind a SquashFS file",
            "Install the packages in the image, or use venv:FOLDER.",
        )
    _check_binds(container, "--python-env", (bind,))
    return (bind,)


def _check_binds(container: Container, what: str, binds: tuple[str, ...]) -> None:
    """Refuse binds that the engine cannot read; `what` says where they come from."""
    engine = ENGINES[container.engine]
    if binds and not engine.takes_binds:
        raise RequestError(
            f"{what} has no effect with the container engine {container.engine}",
            "Name the mounts in the environment definition file.",
        )
    for bind in binds:
        if fault := bind_fault(engine, bind):
            raise RequestError(f"{what}: {bind!r} {fault[0]}", fault[1])


def _fetch(site: Site, container: Container, image: str, nodes: int) -> tuple[str, ...]:
    """The lines that fetch an image from a registry.

    Raises:
        RequestError: the compute nodes cannot reach the registry.
    """
    engine = ENGINES[container.engine]
    if not (engine.fetch and is_remote(engine, image)):
        return ()
    if engine.fetch.suffix and variables_in(image):
        raise RequestError(
            f"--container {image} has a variable in an address of a registry", "Write the whole address."
        )
    if site.internet != "no" or not engine.fetch.needs_internet:
        return fetch_lines(engine, image, container.image_dir, nodes)
    if not engine.fetch.suffix:
        return ()  # the user has put it into the engine's store
    file = file_name(engine, image)
    raise RequestError(
        f"{image} comes from a registry, which the compute nodes of {site.name} do not reach",
        f"Fetch it on a login node (`{fetch_command(engine, image, file)}`), "
        f"and name the file: --container FOLDER/{file}.",
    )


def runs_bundled(request: Request) -> bool:
    """Whether a job runs a bundled script."""
    return is_bundled(request.script) if request.script else not request.names_program


def _python_env(request: Request, origin: Origin, site: Site) -> tuple[str, Reason]:
    """The Python environment of a job without a container, and its reason."""
    kind = request.python_env or site.python_env or NONE
    if kind == NONE:
        return kind, default("the python on PATH" + (" after the modules" if site.modules.load else ""))
    if kind.partition(":")[0] in ("uv", "pixi") and site.internet == "no":
        raise RequestError(
            f"--python-env {kind} needs the internet, which the compute nodes of {site.name} do not reach",
            "Make the environment on a login node and use --python-env venv:FOLDER (with pixi, the folder "
            ".pixi/envs/NAME), or use --container.",
        )
    if kind == "uv" and runs_bundled(request):
        return f"uv:{FOLDER}", derived("the bundled training has a pyproject.toml of its own")
    return kind, origin("python_env") if request.python_env else from_profile(site, "python_env")


def _image(container: Container, image: str) -> str:
    engine = ENGINES[container.engine]
    if fault := engine.image_fault(image):
        raise RequestError(f"--container {image} {fault[0]} ({container.engine})", fault[1])
    return engine.image(image)


def _container(request: Request, origin: Origin, site: Site) -> tuple[Container | None, str, Reason]:
    if request.container == NONE:
        if request.container_engine:
            raise RequestError("--container-engine has no effect with --container none", "Leave it out.")
        return None, "", origin("container")
    of_site = _engine(request, site)
    image = request.container or of_site.image or ""
    if image.startswith("-"):
        raise RequestError(f"--container {image!r} begins with a dash", "Write the full path of the image.")
    if request.container:
        return of_site, _image(of_site, request.container), origin("container")
    if of_site.image and _uses_gpu_software(request):
        return of_site, _image(of_site, of_site.image), from_profile(site, "container.image")
    if request.container_engine:
        raise RequestError(
            f"--container-engine {request.container_engine} without an image", "Add --container IMAGE."
        )
    if of_site.image:
        return None, "", derived("the image of the site is for jobs with GPUs")
    return None, "", default("neither the request nor the profile names an image")


def _engine(request: Request, site: Site) -> Container:
    """The settings of the engine that the request chooses, else of the site's own."""
    container, name = site.container or Container(), request.container_engine
    if name is None or name == container.engine:
        return container
    others = container.engines if site.container else dict.fromkeys(ENGINES, OtherEngine())
    if other := dict(others).get(cast("EngineName", name)):
        return structs.replace(
            container,
            engine=cast("EngineName", name),
            image=other.image,
            options=other.options,
            gpu_options=other.gpu_options,
            modules=other.modules,
        )
    raise RequestError(
        f"{site.name} has no container engine {name!r}",
        did_you_mean(name, {container.engine, *others}),
        "container_engine",
    )


def _module_commands(modules: Modules, names: tuple[str, ...]) -> tuple[str, ...]:
    """The commands that load modules. `init` runs before them, and alone where the site loads none."""
    if not names:
        return () if modules.load else modules.init
    return (*modules.init, f"module load {shlex.join(names)}")


def _stops(request: Request) -> str:
    return "--segments" if request.in_segments else "--requeue"
