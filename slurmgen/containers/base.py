"""What a container engine is: the words that run a job's command in an image."""

from collections.abc import Callable
from typing import NamedTuple

from slurmgen.sites.model import Vendor

AMD_DEVICES = ("--device=/dev/kfd", "--device=/dev/dri", "--group-add=keep-groups")
"Podman's options for AMD GPUs."
DOCKER = "docker://"
_PATHS = ("/", "./", "../", "~/")
_FILES = (".sif", ".sqsh", ".squashfs", ".sqfs", ".tar")


class Call(NamedTuple):
    """A container of a job. All texts but the names of variables are shell words."""

    image: str
    binds: tuple[str, ...]
    "Each SOURCE[:TARGET[:OPTIONS]]."
    vendor: Vendor | None
    "None for a job without GPUs."
    options: tuple[str, ...]
    "Further options of the engine, from the profile."
    exported: tuple[str, ...] = ()
    "The names of all variables that the script exports."
    fetched: bool = False
    "The script has fetched the image from a registry."


def with_target(bind: str) -> str:
    """A bind with its target, which is the source where it names none."""
    return bind if ":" in bind else f"{bind}:{bind}"


def unchanged(image: str) -> str:
    """The image itself."""
    return image


def full_name(image: str) -> str:
    """The full name of a `docker://` image; other images stay.

    A first part without a dot or colon is a name in Docker Hub, not a registry, as in `docker://nersc/pytorch`.
    https://github.com/distribution/reference/blob/main/normalize.go

    >>> full_name("docker://pytorch:2.9"), full_name("docker://ghcr.io/a/b"), full_name("a/b")
    ('docker.io/library/pytorch:2.9', 'ghcr.io/a/b', 'a/b')
    """
    if not image.startswith(DOCKER):
        return image
    name = image.removeprefix(DOCKER)
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    is_registry = first == "localhost" or not {".", ":", "$"}.isdisjoint(first)
    return name if is_registry else f"docker.io/{name}"


def no_fault(_image: str) -> None:
    """None: the engine takes every image."""


def fault_of_file(image: str) -> tuple[str, str] | None:
    """Why an engine that knows images by name only cannot use one, and what to do; None if it can."""
    if not (image.startswith(_PATHS) or image.endswith(_FILES)):
        return None
    fact = "is a file, and the engine runs images by name"
    return fact, "Name one of a registry, such as nvcr.io/nvidia/pytorch:25.06-py3, or of the engine's store."


def nothing(_call: Call) -> tuple[str, ...]:
    """No words."""
    return ()


class Fetch(NamedTuple):
    """How the script gets an image from a registry before the step, once for all ranks."""

    is_remote: Callable[[str], bool]
    "Whether an image, as the engine writes it, comes from a registry."
    command: str
    """A shell command. `{image}` is the image as the engine writes it, `{name}` is the same without `docker://`,
    `{uri}` with it, and `{file}` is the file that the command writes, if it writes one."""
    suffix: str = ""
    "The suffix of that file. Without one, the engine has its own store of images."
    on_each_node: bool = False
    "Each node has a store of its own."
    needs_internet: bool = True
    "The node that runs the command must reach the registry."


class Engine(NamedTuple):
    """How the script calls an engine: before each task's command, or with options of srun."""

    command: Callable[[Call], tuple[str, ...]] = nothing
    srun: Callable[[Call], tuple[str, ...]] = nothing
    program: str = "srun"
    "The program that runs containers."
    srun_option: str = ""
    "The option that the engine adds to srun."
    env_prefix: str = ""
    "The prefix of host variables that count over those of the image."
    own_variables: tuple[str, ...] = ()
    "How the names of variables begin that are for the engine itself, and so get no prefix."
    image: Callable[[str], str] = unchanged
    "The image as the engine writes it."
    image_fault: Callable[[str], tuple[str, str] | None] = no_fault
    "Why the engine cannot use an image, and what to do."
    is_file: Callable[[str], bool] = bool
    "Whether an image, as the engine writes it, is a path on the cluster."
    lookup: str = ""
    "A shell command that finds `{image}` in the engine's store of images."
    fetch: Fetch | None = None
    takes_binds: bool = True
    not_in_binds: str = ""
    "Characters that the engine reads as separators in a bind, beside the colon."
    bind_options: bool = True
    "Whether a bind may end with :OPTIONS."
    binds_any_target: bool = True
    "Whether a folder can be bound at its own path, which the image may lack."
    binds_squashfs: bool = False
    "Whether a SquashFS file can be bound as a folder, with the option image-src=/."
    can_requeue: bool = True
    "Whether ranks can create REQUEUE_FILE at the path that the batch script checks."
    refused_variables: tuple[str, ...] = ()
    "Variables of the request that the engine ignores."
