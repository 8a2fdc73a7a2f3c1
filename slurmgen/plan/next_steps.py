"""Further steps of a job, such as an evaluation: each runs if the step before has succeeded."""

from collections.abc import Iterator

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.plan.inputs import Inputs, find_launcher
from slurmgen.plan.job_step import Shared, Step, find_step
from slurmgen.plan.ranks import Ranks, find_ranks
from slurmgen.plan.reasons import origin_of
from slurmgen.plan.variables import check_names
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Place

_OF_LAUNCHER = dict.fromkeys(("rendezvous", "mixed_precision", "launcher_args", "launcher_config"))


class NextStep(Struct, frozen=True):
    """A further step, and how srun starts it."""

    step: Step
    ranks: Ranks


def next_requests(request: Request) -> Iterator[Request]:
    """The request of each further step: that of the job with another program.

    Raises:
        RequestError: a step names no program.
    """
    for one in request.then or ():
        own = structs.asdict(one)
        framework = own.pop("framework")
        other = {"framework": framework, **_OF_LAUNCHER} if framework else {}
        asked = structs.replace(request, **own, **other, sweep=None)
        if not asked.names_program:
            raise RequestError(
                "then: a step names no program", "Give it a script, a module or a command.", "then"
            )
        yield asked


def next_ranks(request: Request, site: Site, place: Place, first: Ranks) -> Ranks:
    """The ranks of a further step: on all nodes, or on the first if the launcher starts one process.

    Args:
        request: the request of the step.
        site: the cluster.
        place: where the job runs.
        first: the ranks of the first step, whose nodes, GPUs and CPUs are those of the job.

    Raises:
        RequestError: the launcher cannot start the program.
    """
    launcher, layout = find_launcher(request, site), first.layout
    own = layout._replace(nodes=min(layout.nodes, launcher.max_nodes or layout.nodes))
    return find_ranks(Inputs(request, site, origin_of({})), place, launcher, own, first)


def next_step(request: Request, ranks: Ranks, first: Ranks, job: Shared) -> NextStep:
    """How srun starts a further step.

    Args:
        request: the request of the step.
        ranks: its ranks.
        first: the ranks of the first step, whose tasks the header counts.
        job: what all steps share.

    Raises:
        RequestError: the launcher cannot start the program.
    """
    check_names(request, ranks, job.setup)
    _check_settings(ranks, first)
    same = ranks.size == first.size and not first.own_size
    size = () if same else ranks.size
    return NextStep(find_step(request, ranks, job, size=size), ranks)


def _check_settings(ranks: Ranks, first: Ranks) -> None:
    """Refuse a step that needs more of the site's settings than the script makes for the first step."""
    own, made = ranks.settings, first.settings
    has_env = own.env.items() <= made.env.items()
    lines = [(own.modules.load, made.modules.load), (own.launch.before, made.launch.before)]
    lines += [(own.launch.before_on_each_node, made.launch.before_on_each_node)]
    if not has_env or any(not set(these) <= set(those) for these, those in lines):
        raise RequestError(
            f"then: the site sets variables, modules or commands for {ranks.launcher.name} "
            f"that the job does not have, because its first step uses {first.launcher.name}",
            "Submit the step as a job of its own, or use one framework for both.",
            "then",
        )
