"""Container engines: one per file. A dict lists them."""

from slurmgen.containers.apptainer import APPTAINER, SINGULARITY
from slurmgen.containers.base import Call, Engine
from slurmgen.containers.binds import bind_fault
from slurmgen.containers.charliecloud import CHARLIECLOUD
from slurmgen.containers.edf import EDF
from slurmgen.containers.fetch import (
    IMAGE_FILE,
    fetch_command,
    fetch_lines,
    fetched,
    file_name,
    is_remote,
    lookup_command,
)
from slurmgen.containers.podman import PODMAN, PODMAN_HPC
from slurmgen.containers.pyxis import PYXIS
from slurmgen.containers.shifter import SHIFTER
from slurmgen.sites.model import Container, EngineName
from slurmgen.slurm.shell import variables_in

ENGINES: dict[EngineName, Engine] = {
    "apptainer": APPTAINER,
    "singularity": SINGULARITY,
    "pyxis": PYXIS,
    "edf": EDF,
    "podman": PODMAN,
    "podman-hpc": PODMAN_HPC,
    "shifter": SHIFTER,
    "charliecloud": CHARLIECLOUD,
}
_ALWAYS_SET = {"HOME", "PWD", "USER"}

__all__ = [
    "ENGINES",
    "IMAGE_FILE",
    "Call",
    "Engine",
    "bind_fault",
    "bind_variables",
    "fetch_command",
    "fetch_lines",
    "fetched",
    "file_name",
    "is_remote",
    "lookup_command",
]


def bind_variables(container: Container) -> tuple[str, ...]:
    """The variables in the binds for several nodes. An unset one would bind the wrong folder."""
    found = variables_in(" ".join(container.multi_node_binds))
    return tuple(dict.fromkeys(name for name in found if name not in _ALWAYS_SET))
