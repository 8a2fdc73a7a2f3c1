"""What a container engine is: the words that run a job's command in an image."""

from collections.abc import Callable
from typing import NamedTuple

from slurmgen.sites.model import Vendor


class Call(NamedTuple):
    """A container of a job. All texts but the names of variables are shell words."""

    image: str
    binds: tuple[str, ...]
    "Each SOURCE[:TARGET[:OPTIONS]]."
    vendor: Vendor
    variables: tuple[str, ...]
    "The names of the variables whose values count over those of the image."
    options: tuple[str, ...]
    "Further options of the engine, from the profile."
    exported: tuple[str, ...] = ()
    "The names of all variables that the script exports."


def with_target(bind: str) -> str:
    """A bind with its target, which is the source where it names none."""
    return bind if ":" in bind else f"{bind}:{bind}"


def unchanged(image: str) -> str:
    """The image itself."""
    return image


def nothing(_call: Call) -> tuple[str, ...]:
    """No words."""
    return ()


class Engine(NamedTuple):
    """How the script calls an engine: before each task's command, or with options of srun."""

    command: Callable[[Call], tuple[str, ...]] = nothing
    srun: Callable[[Call], tuple[str, ...]] = nothing
    env_prefix: str = ""
    "The prefix of host variables that count over those of the image."
    image: Callable[[str], str] = unchanged
    "The image as the engine writes it."
    takes_binds: bool = True
    can_requeue: bool = True
    "Whether ranks can create REQUEUE_FILE at the path that the batch script checks."
    refused_variables: tuple[str, ...] = ()
    "Variables of the request that the engine ignores."
