"""Where the steps of a job run, and the ranks of each."""

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import leave_it_out, phrased
from slurmgen.launchers import Launcher, Layout
from slurmgen.plan.inputs import Inputs, find_launcher, requested_gpus
from slurmgen.plan.layout import check_shape, lay_out
from slurmgen.plan.limits import check_limits, check_one_node, roomier
from slurmgen.plan.next_steps import next_ranks, next_requests
from slurmgen.plan.placement import check_partition, find_place
from slurmgen.plan.ranks import Ranks, find_ranks
from slurmgen.plan.reasons import Reason, derived
from slurmgen.plan.refusals import check_refusals
from slurmgen.request import Request
from slurmgen.sites.model import Site, Vendor
from slurmgen.sites.nodes import Place
from slurmgen.sites.settings import Settings


class Steps(Struct, frozen=True, kw_only=True):
    """The steps of a job, which run on the same nodes."""

    place: Place
    layout_reason: Reason
    vendor: Vendor | None
    "Of the GPUs; None without any."
    first: Ranks
    later: tuple[tuple[Request, Ranks], ...]
    "The request and the ranks of each further step."

    @property
    def ranks(self) -> tuple[Ranks, ...]:
        """The ranks of all steps."""
        return (self.first, *(ranks for _, ranks in self.later))

    @property
    def meets(self) -> bool:
        """Whether the ranks of a step need an address to find each other."""
        return any(ranks.launcher.meets(ranks.layout) for ranks in self.ranks)


def find_steps(inputs: Inputs) -> Steps:
    """The steps of a request.

    Raises:
        RequestError: the site has no place for them, or a launcher cannot start there.
    """
    request, site, _ = inputs
    launcher = find_launcher(request, site)
    place = find_place(request, site, requested_gpus(request))
    check_limits(request, site, place, requested_gpus(request))
    layout, reason = _layout(inputs, place, launcher)
    first = find_ranks(inputs, place, launcher, layout)
    later = tuple([(asked, next_ranks(asked, site, place, first)) for asked in next_requests(request)])
    vendor = site.gpu.vendor_of(place.gpu_type) if layout.gpus else None
    steps = Steps(place=place, layout_reason=reason, vendor=vendor, first=first, later=later)
    for ranks in steps.ranks:
        check_refusals(site, ranks.settings)
    check_partition(site, place, layout.gpus)
    _check_account(request, site, first.settings)
    return steps


def _layout(inputs: Inputs, place: Place, launcher: Launcher) -> tuple[Layout, Reason]:
    request, site, origin = inputs
    gpus = requested_gpus(request)
    if not gpus:
        return _without_gpus(inputs, launcher)
    check_shape(launcher, Layout(request.nodes or 1, gpus))
    check_one_node(request, site, place, launcher, gpus)
    try:
        layout, reason = lay_out(gpus, request.nodes, place.node.gpus, place.node_name, origin("nodes"))
    except RequestError as error:
        types = roomier(site, place.node)
        further = phrased(" Nodes with more GPUs: ", "gpu_type", *types) if types else ""
        raise error.but(after=further) from None
    check_shape(launcher, layout)
    return layout, reason


def _without_gpus(inputs: Inputs, launcher: Launcher) -> tuple[Layout, Reason]:
    """The layout of a job without GPUs: one task on each node."""
    request, _, origin = inputs
    if request.ntasks_per_node:
        raise RequestError(
            f"{option('ntasks_per_node')} is for jobs with GPUs",
            leave_it_out("ntasks_per_node", text=f"Leave it out, or ask for {option('gpus')}."),
        )
    layout = Layout(request.nodes or 1, 0)
    check_shape(launcher, layout)
    return layout, origin("nodes") if request.nodes else derived("one node, since the job has no GPUs")


def _check_account(request: Request, site: Site, settings: Settings) -> None:
    """Refuse an account with the suffix of other jobs, such as @a100 for a job on H100."""
    account, own = request.account or "", settings.account_suffix
    for suffix in {table.account_suffix for table in site.when.values()} - {"", own}:
        if account.endswith(suffix):
            raise RequestError(
                f"the account {account} ends with {suffix}, but this job needs {own or 'no suffix'}",
                f"Leave {suffix} out of {option('account')}, "
                f"or change {option('gpu_type')} or {option('partition')}.",
                "account",
            )
