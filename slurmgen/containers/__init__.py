"""Container engines: one per file. A dict lists them."""

from slurmgen.containers.apptainer import APPTAINER, SINGULARITY
from slurmgen.containers.base import Engine
from slurmgen.containers.charliecloud import CHARLIECLOUD
from slurmgen.containers.edf import EDF
from slurmgen.containers.podman import PODMAN, PODMAN_HPC
from slurmgen.containers.pyxis import PYXIS
from slurmgen.containers.shifter import SHIFTER
from slurmgen.sites.model import EngineName

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
