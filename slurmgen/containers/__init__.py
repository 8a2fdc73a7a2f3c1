"""Container engines: one a file. A dict lists them."""

from collections.abc import Callable
from typing import NamedTuple

from slurmgen.containers import apptainer


class Engine(NamedTuple):
    """How one engine is called."""

    command: Callable[[str, tuple[str, ...]], tuple[str, ...]]
    env_prefix: str


ENGINES = {"apptainer": Engine(apptainer.command, apptainer.ENV_PREFIX)}
