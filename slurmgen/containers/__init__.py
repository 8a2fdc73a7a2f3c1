"""Container engines: one per file. A dict lists them."""

from collections.abc import Callable
from typing import NamedTuple

from slurmgen.containers import apptainer
from slurmgen.sites.model import Container
from slurmgen.slurm.shell import variables_in


class Engine(NamedTuple):
    """How the script calls an engine."""

    command: Callable[[str, tuple[str, ...]], tuple[str, ...]]
    env_prefix: str


ENGINES = {"apptainer": Engine(apptainer.command, apptainer.ENV_PREFIX)}


_ALWAYS_SET = {"HOME", "PWD", "USER"}


def bind_variables(container: Container) -> tuple[str, ...]:
    """The variables in the binds for several nodes. An unset one would bind the wrong folder."""
    found = variables_in(" ".join(container.multi_node_binds))
    return tuple(dict.fromkeys(name for name in found if name not in _ALWAYS_SET))
