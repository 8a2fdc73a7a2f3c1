"""The container of a job: its image, and how its engine is called."""

from typing import NamedTuple, cast

from msgspec import structs

from slurmgen.containers import (
    ENGINES,
    Call,
    bind_fault,
    fetch_command,
    fetch_lines,
    fetched,
    file_name,
    is_remote,
)
from slurmgen.errors import RequestError, did_you_mean
from slurmgen.field_names import fields_in, option
from slurmgen.hints import Hint, Offer, cleared, leave_it_out
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.reasons import Reason, default, derived, from_profile
from slurmgen.plan.staging import data_binds
from slurmgen.python_env import in_container
from slurmgen.request import NONE, Request
from slurmgen.sites.model import Container, EngineName, OtherEngine, Site, Vendor
from slurmgen.slurm.shell import variables_in, word


def uses_container(request: Request, site: Site) -> bool:
    """Whether the ranks of a request run in a container."""
    default_image = _engine(request, site).image if uses_gpu_software(request) else None
    return (request.container or default_image or NONE) != NONE


def uses_gpu_software(request: Request) -> bool:
    """Whether the site's own image and modules may be used: they are made for the GPU nodes."""
    return request.gpus != 0


class Image(NamedTuple):
    """The image of a job."""

    container: Container
    "The settings of its engine."
    name: str
    why: Reason
    several_nodes: bool
    "Whether GPUs of several nodes use it: NCCL then needs the libraries of the host."


def call_of(request: Request, site: Site, chosen: Image, vendor: Vendor | None) -> Call:
    """The container for its engine.

    Raises:
        RequestError: the engine cannot read a bind, or does not allow a requeue.
    """
    container, image, engine = chosen.container, chosen.name, ENGINES[chosen.container.engine]
    of_site = (*container.binds, *(container.multi_node_binds if chosen.several_nodes else ()))
    all_binds = {f"[container] binds of {site.name}": of_site, option("binds"): request.binds}
    for what, binds in all_binds.items():
        _check_binds(container, what, binds or ())
    if request.may_stop_early and not engine.can_requeue:
        raise RequestError(
            f"{_stops(request)} does not work with the container engine {container.engine}: "
            "the ranks see the run folder at another path",
            Hint(
                f"Leave {_stops(request)} out, or add {option('container', NONE)}.",
                (*cleared(*fields_in(_stops(request))), *WITHOUT_CONTAINER),
            ),
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
    _check_binds(container, option("python_env"), (bind,))
    return (bind,)


def _check_binds(container: Container, what: str, binds: tuple[str, ...]) -> None:
    """Refuse binds that the engine cannot read; `what` says where they come from."""
    engine = ENGINES[container.engine]
    if binds and not engine.takes_binds:
        raise RequestError(
            f"{what} has no effect with the container engine {container.engine}",
            leave_it_out(*fields_in(what), text="Name the mounts in the environment definition file."),
        )
    for bind in binds:
        if fault := bind_fault(engine, bind):
            raise RequestError(f"{what}: {bind!r} {fault[0]}", fault[1])


def fetch_lines_of(site: Site, container: Container, image: str, nodes: int) -> tuple[str, ...]:
    """The lines that fetch an image from a registry.

    Raises:
        RequestError: the compute nodes cannot reach the registry.
    """
    engine = ENGINES[container.engine]
    if not (engine.fetch and is_remote(engine, image)):
        return ()
    if engine.fetch.suffix and variables_in(image):
        raise RequestError(
            f"{option('container', image)} has a variable in an address of a registry",
            "Write the whole address.",
        )
    if site.internet != "no" or not engine.fetch.needs_internet:
        return fetch_lines(engine, image, container.image_dir, nodes)
    if not engine.fetch.suffix:
        return ()  # the user has put it into the engine's store
    file = file_name(engine, image)
    raise RequestError(
        f"{image} comes from a registry, which the compute nodes of {site.name} do not reach",
        f"Fetch it on a login node (`{fetch_command(engine, image, file)}`), "
        f"and name the file: {option('container', 'FOLDER')}/{file}.",
        "container",
    )


def _image(container: Container, image: str) -> str:
    engine = ENGINES[container.engine]
    if fault := engine.image_fault(image):
        raise RequestError(f"{option('container', image)} {fault[0]} ({container.engine})", fault[1])
    return engine.image(image)


def find_container(inputs: Inputs) -> tuple[Container | None, str, Reason]:
    """The settings of the engine, the image and its reason; None and no image without a container.

    Raises:
        RequestError: the image is not valid, or an option has no effect.
    """
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
        did_you_mean(name, {container.engine, *others}, "container_engine"),
    )


def _stops(request: Request) -> str:
    return option("segments" if request.in_segments else "requeue")


WITHOUT_CONTAINER = (Offer("container", NONE),)
