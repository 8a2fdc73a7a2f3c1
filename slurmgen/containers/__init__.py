"""Container engines: one per file. A dict lists them."""

from slurmgen.containers.apptainer import APPTAINER, SINGULARITY
from slurmgen.containers.base import Call, Engine
from slurmgen.containers.charliecloud import CHARLIECLOUD
from slurmgen.containers.edf import EDF
from slurmgen.containers.podman_hpc import PODMAN_HPC
from slurmgen.containers.pyxis import PYXIS
from slurmgen.containers.shifter import SHIFTER
from slurmgen.sites.model import Container, EngineName
from slurmgen.slurm.shell import variables_in

ENGINES: dict[EngineName, Engine] = {
    "apptainer": APPTAINER,
    "singularity": SINGULARITY,
    "pyxis": PYXIS,
    "edf": EDF,
    "podman-hpc": PODMAN_HPC,
    "shifter": SHIFTER,
    "charliecloud": CHARLIECLOUD,
}
_ALWAYS_SET = {"HOME", "PWD", "USER"}

__all__ = ["ENGINES", "Call", "Engine", "bind_variables"]


def bind_variables(container: Container) -> tuple[str, ...]:
    """The variables in the binds for several nodes. An unset one would bind the wrong folder."""
    found = variables_in(" ".join(container.multi_node_binds))
    return tuple(dict.fromkeys(name for name in found if name not in _ALWAYS_SET))
