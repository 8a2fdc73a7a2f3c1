"""A job's software: modules, Python environment and container."""

import shlex
from collections.abc import Iterator
from typing import cast

from msgspec import structs

from slurmgen.containers import ENGINES
from slurmgen.containers.base import (
    Call,
    bind_fault,
    bind_variables,
    fetch_command,
    fetch_lines,
    fetched,
    lookup_command,
)
from slurmgen.errors import Hint, Offer, RequestError, cleared, did_you_mean, fields_in, leave_it_out, option
from slurmgen.files import FOLDER, is_bundled
from slurmgen.plan.model import Inputs, Plan, Ranks, Reason, Setup, default, derived, from_profile
from slurmgen.plan.staging import data_binds
from slurmgen.python_env import IN_CONTAINER, in_container, setup_lines
from slurmgen.request.model import NONE, Request
from slurmgen.sites.model import Container, EngineName, Modules, OtherEngine, Site, Vendor
from slurmgen.sites.nodes import Place
from slurmgen.slurm.shell import variables_in, word

WITHOUT_CONTAINER = (Offer("container", NONE),)


def login_script(plan: Plan) -> str:
    """The shell script that runs on the login node before the job is submitted; empty for nothing."""
    request = plan.request
    if not request.before_login:
        return ""
    architecture = plan.profile.architecture if plan.ranks.layout.gpus else None
    # The login node gets the variables of the request only.
    own = {one.name: one.word for one in plan.variables if one.name in request.env}
    exports = (f"export {name}={word}" for name, word in own.items())
    lines = ("set -e -o pipefail", *_software(plan.setup, architecture), *exports, *request.before_login)
    return "\n".join(lines) + "\n"


def _software(setup: Setup, architecture: str | None) -> Iterator[str]:
    lines = (*setup.modules, *setup.python_setup)
    if not lines or not architecture:
        yield from lines
        return
    yield 'machine="$(uname -m)"'
    yield f'if [ "$machine" = {architecture} ]; then'
    yield from lines
    yield "fi"


def uses_container(request: Request, site: Site) -> bool:
    """Whether the ranks of a request run in a container."""
    default_image = _engine(request, site).image if uses_gpu_software(request) else None
    return (request.container or default_image or NONE) != NONE


def uses_gpu_software(request: Request) -> bool:
    """Whether the site's own image and modules may be used: they are made for the GPU nodes."""
    return request.gpus != 0


def _call_of(
    request: Request, site: Site, container: Container, image: str, several: bool, vendor: Vendor | None
) -> Call:
    engine = ENGINES[container.engine]
    of_site = (*container.binds, *(container.multi_node_binds if several else ()))
    _check_binds(container, f"[container] binds of {site.name}", of_site)
    _check_binds(container, option("binds"), request.binds or ())
    if request.may_stop_early and not engine.can_requeue:
        stops = option("segments" if request.in_segments else "requeue")
        raise RequestError(
            f"{stops} does not work with the container engine {container.engine}: "
            "the ranks see the run folder at another path",
            Hint(
                f"Leave {stops} out, or add {option('container', NONE)}.",
                (*cleared(*fields_in(stops)), *WITHOUT_CONTAINER),
            ),
        )
    fetch = engine.fetch if engine.fetch and engine.fetch.is_remote(image) else None
    environment = _environment_binds(request, container)
    return Call(
        image=fetched(fetch, image) if fetch else word(image),
        binds=(
            *map(word, (*of_site, *environment, *(request.binds or ()))),
            *data_binds(request, container.engine),
        ),
        vendor=vendor,
        options=tuple(map(word, (*container.options, *(container.gpu_options if vendor else ())))),
        fetched=fetch is not None,
    )


def _environment_binds(request: Request, container: Container) -> tuple[str, ...]:
    if not (bind := in_container(request.python_env or NONE).bind):
        return ()
    if not ENGINES[container.engine].binds_squashfs:
        raise RequestError(
            f"python_env squashfs does not work with the container engine {container.engine}: "
            "only apptainer and singularity bind a SquashFS file",
            "Install the packages in the image, or use venv:FOLDER.",
        )
    _check_binds(container, option("python_env"), (bind,))
    return (bind,)


def _check_binds(container: Container, what: str, binds: tuple[str, ...]) -> None:
    engine = ENGINES[container.engine]
    if binds and not engine.takes_binds:
        raise RequestError(
            f"{what} has no effect with the container engine {container.engine}",
            leave_it_out(*fields_in(what), text="Name the mounts in the environment definition file."),
        )
    for bind in binds:
        if fault := bind_fault(engine, bind):
            raise RequestError(f"{what}: {bind!r} {fault[0]}", fault[1])


def _fetch_lines(site: Site, container: Container, image: str, nodes: int) -> tuple[str, ...]:
    engine = ENGINES[container.engine]
    fetch = engine.fetch
    if not (fetch and fetch.is_remote(image)):
        return ()
    if fetch.suffix and variables_in(image):
        raise RequestError(
            f"{option('container', image)} has a variable in an address of a registry",
            "Write the whole address.",
        )
    if site.internet != "no" or not fetch.needs_internet:
        return fetch_lines(engine, fetch, image, container.image_dir, nodes)
    if not fetch.suffix:
        return ()  # the user has put it into the engine's store
    file = fetch.file_name(image)
    raise RequestError(
        f"{image} comes from a registry, which the compute nodes of {site.name} do not reach",
        f"Fetch it on a login node (`{fetch_command(engine, fetch, image, file)}`), "
        f"and name the file: {option('container', 'FOLDER')}/{file}.",
        "container",
    )


def _image(container: Container, image: str) -> str:
    engine = ENGINES[container.engine]
    if fault := engine.image_fault(image):
        raise RequestError(f"{option('container', image)} {fault[0]} ({container.engine})", fault[1])
    return engine.image(image)


def _find_container(inputs: Inputs) -> tuple[Container | None, str, Reason]:
    """The settings of the engine, the image and its reason; None and no image without a container."""
    request, site, origin = inputs
    if request.container == NONE:
        if request.container_engine:
            fact = f"{option('container_engine')} has no effect with {option('container', NONE)}"
            raise RequestError(fact, leave_it_out("container_engine"))
        return None, "", origin("container")
    of_site = _engine(request, site)
    image = request.container or of_site.image or ""
    if image.startswith("-"):
        fact = f"{option('container')} {image!r} begins with a dash"
        raise RequestError(fact, "Write the full path of the image.")
    if request.container:
        return of_site, _image(of_site, request.container), origin("container")
    if of_site.image and uses_gpu_software(request):
        return of_site, _image(of_site, of_site.image), from_profile(site, "container.image")
    if request.container_engine:
        raise RequestError(
            f"{option('container_engine', request.container_engine)} without an image",
            leave_it_out("container_engine", text=f"Add {option('container', 'IMAGE')}."),
        )
    if of_site.image:
        return None, "", derived("the image of the site is for jobs with GPUs")
    return None, "", default("neither the request nor the profile names an image")


def _engine(request: Request, site: Site) -> Container:
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
        did_you_mean(name, {container.engine, *others}, "container_engine"),
    )


def find_setup(inputs: Inputs, place: Place, ranks: Ranks) -> Setup:
    """Container or Python environment, and modules."""
    container, image, why = _find_container(inputs)
    if container is None:
        return _without_container(inputs, ranks.settings.modules, why)
    return _in_container(inputs, place, ranks, container, image, why)


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
    inputs: Inputs, place: Place, ranks: Ranks, container: Container, image: str, why: Reason
) -> Setup:
    request, site, origin = inputs
    engine, layout = ENGINES[container.engine], ranks.layout
    python_env = request.python_env or NONE
    if python_env.partition(":")[0] not in IN_CONTAINER:
        raise RequestError(
            f"{option('python_env', request.python_env)} and the container {word(image)} exclude each other",
            Hint(
                f"Python comes from the image; leave one out, add {option('container', NONE)}, or name a "
                "venv:FOLDER or squashfs:FILE that the Python of the image has made.",
                (*WITHOUT_CONTAINER, *cleared("python_env")),
            ),
        )
    line, is_file = in_container(python_env).line, engine.is_file(image)
    # NCCL needs the libraries of the host where GPUs of several nodes use the image.
    several = layout.nodes > 1 and layout.gpus > 0
    vendor = site.gpu.vendor_of(place.gpu_type) if layout.gpus else None
    names = (*container.modules, *(container.multi_node_modules if several else ()), *(request.modules or ()))
    no_modules = request.modules == () and not names
    return Setup(
        container=container,
        image=word(image),
        is_file=is_file,
        lookup="" if is_file else lookup_command(engine, image),
        fetch=_fetch_lines(site, container, image, layout.nodes),
        call=_call_of(request, site, container, image, several, vendor),
        modules=() if no_modules else _module_commands(ranks.settings.modules, names),
        needs=bind_variables(container) if several else (),
        why_container=why,
        python_env=python_env,
        line_in_task=line,
        why_python=origin("python_env") if line else derived("Python comes from the image"),
        why_modules=derived(
            "the modules that the container's binds need, and those of the request"
            if names
            else "the container needs none"
        ),
    )


def _runs_bundled(request: Request) -> bool:
    return is_bundled(request.script) if request.script else not request.names_program


def _python_env(inputs: Inputs) -> tuple[str, Reason]:
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
    if kind == "uv" and _runs_bundled(request):
        return f"uv:{FOLDER}", derived("the bundled training has a pyproject.toml of its own")
    return kind, origin("python_env") if request.python_env else from_profile(site, "python_env")


def _module_commands(modules: Modules, names: tuple[str, ...]) -> tuple[str, ...]:
    """The commands that load modules. `init` runs before them, and alone where the site loads none."""
    if not names:
        return () if modules.load else modules.init
    return (*modules.init, f"module load {shlex.join(names)}")
