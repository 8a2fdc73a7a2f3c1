"""The check of the nodes before the job step: the program `preflight`, with one task on each node.

It runs in the container of the ranks if there is one, so that it finds their PyTorch.
"""

from slurmgen.bundled_scripts import PREFLIGHT
from slurmgen.launchers import Layout
from slurmgen.plan.environment import Setup
from slurmgen.plan.job_step import container_words, export_words
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.sites.settings import Settings
from slurmgen.slurm.shell import quote

ADDRESS = "SLURMGEN_PREFLIGHT"
"The variable by which the nodes find the program's part in the batch script."
_PROGRAM = ("python3", "-B", PREFLIGHT)  # -B: the job's folder stays free of bytecode


def find_preflight(
    request: Request,
    site: Site,
    settings: Settings,
    further: dict[str, str],
    setup: Setup,
    layout: Layout,
    meets: bool,
    exported: tuple[str, ...],
) -> tuple[tuple[str, ...], ...]:
    """The shell words of the check by part; none if the request does not ask for it.

    Args:
        request: the request.
        site: the site, which may demand a bandwidth.
        settings: options of srun.
        further: the sbatch options beyond those of every plan.
        setup: its container, if any.
        layout: nodes and GPUs.
        meets: whether the script sets MASTER_ADDR and MASTER_PORT.
        exported: the names of the variables that the script exports.
    """
    if not request.preflight:
        return ()
    floor, nodes = site.preflight.min_bandwidth, layout.nodes
    demand = (f"--min-bandwidth={floor:g}",) if floor else ()
    rendezvous = ('--rendezvous="$MASTER_ADDR:$MASTER_PORT"',) if meets else ()
    in_srun, in_task = container_words(setup, (*exported, ADDRESS))
    tasks = (f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=0")
    lines = (
        (*_PROGRAM, "job", f"--gpus={layout.gpus_per_node}", *demand, *rendezvous, "--"),
        ("srun", *tasks, *export_words(further), *map(quote, settings.launch.srun), *in_srun),
        in_task,
        (*_PROGRAM, "node"),
    )
    return tuple(filter(None, lines))
