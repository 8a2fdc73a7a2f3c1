"""mpi: Slurm starts one task per GPU, and MPI finds its ranks through Slurm's process manager, such as PMIx.

Python programs run by `python -m mpi4py`, which calls MPI_Abort after an exception. Without it, a failed rank
waits in MPI_Finalize for the others, and srun does not notice its end.
https://slurm.schedmd.com/mpi_guide.html https://mpi4py.readthedocs.io/en/stable/mpi4py.run.html
"""

from slurmgen.launchers.base import Command, Launcher, Layout, Options, never


def command(_layout: Layout, options: Options) -> Command:
    """`srun --mpi=TYPE python -m mpi4py SCRIPT`, once per GPU."""
    return Command(("python", "-m", "mpi4py"), srun=(f"--mpi={options.mpi}",))


_WHY_NOT_PODMAN = "it closes the connection of a rank to Slurm's process manager"
LAUNCHER = Launcher(
    name="mpi",
    shape="task-per-gpu",
    any_tasks=True,
    why="each Slurm task is one rank of MPI",
    command=command,
    meets=never,  # MPI has its own
    refused_engines=dict.fromkeys(("podman", "podman-hpc"), _WHY_NOT_PODMAN),
)
