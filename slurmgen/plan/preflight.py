"""The check of the nodes before the job step: the program `preflight`, with one task on each node.

It runs in the container of the ranks if there is one, so that it finds their PyTorch.
"""

from slurmgen.bundled_scripts import PREFLIGHT
from slurmgen.plan.job_step import Shared, container_words, srun_words
from slurmgen.plan.ranks import Ranks
from slurmgen.request import Request
from slurmgen.sites.model import Site

ADDRESS = "SLURMGEN_PREFLIGHT"
"The variable by which the nodes find the program's part in the batch script."
_PROGRAM = ("python3", "-B", PREFLIGHT)  # -B: the job's folder stays free of bytecode


def find_preflight(
    request: Request, site: Site, ranks: Ranks, job: Shared, meets: bool
) -> tuple[tuple[str, ...], ...]:
    """The shell words of the check by part; none if the request does not ask for it.

    Args:
        request: the request.
        site: the site, which may demand a bandwidth.
        ranks: the ranks of the first step.
        job: what all steps share.
        meets: whether the script sets MASTER_ADDR and MASTER_PORT.
    """
    if not request.preflight:
        return ()
    floor, nodes = site.preflight.min_bandwidth, ranks.layout.nodes
    demand = (f"--min-bandwidth={floor:g}",) if floor else ()
    rendezvous = ('--rendezvous="$MASTER_ADDR:$MASTER_PORT"',) if meets else ()
    in_srun, in_task = container_words(job.setup, (*job.exported, ADDRESS))
    tasks = (f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=0")
    lines = (
        (*_PROGRAM, "job", f"--gpus={ranks.layout.gpus_per_node}", *demand, *rendezvous, "--"),
        ("srun", *tasks, *srun_words(ranks.settings.launch.srun), *in_srun),
        in_task,
        (*_PROGRAM, "node"),
    )
    return tuple(filter(None, lines))
