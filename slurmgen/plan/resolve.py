"""resolve: decide every number of a job.

It is pure: the same request and site give the same plan, on any machine, at any time.
"""

import re

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.launchers import LAUNCHERS, Launcher, Layout
from slurmgen.plan.bad_nodes import with_bad_nodes
from slurmgen.plan.directives import gpu_directive, mem_directive
from slurmgen.plan.environment import Setup, find_setup
from slurmgen.plan.job_secrets import find_secrets
from slurmgen.plan.job_step import Shared, find_step
from slurmgen.plan.layout import check_shape, lay_out
from slurmgen.plan.logs import check_error_file, check_output, folder_of, log_folder
from slurmgen.plan.mail import with_mail
from slurmgen.plan.model import Plan
from slurmgen.plan.next_steps import next_ranks, next_requests, next_step
from slurmgen.plan.placement import check_limits, check_one_node, check_partition, find_place, roomier
from slurmgen.plan.preflight import find_preflight
from slurmgen.plan.ranks import Ranks, find_ranks
from slurmgen.plan.reasons import Origin, Reason, derived, origin_of
from slurmgen.plan.refusals import check_options, check_refusals
from slurmgen.plan.requeue import find_notice, further_options
from slurmgen.plan.resources import memory, time
from slurmgen.plan.staging import find_staging
from slurmgen.plan.sweep import find_sweep, with_array
from slurmgen.plan.variables import variables
from slurmgen.request import FILE_ONLY, Request, check_form, check_text, command_of
from slurmgen.sites.model import Rendezvous, Site
from slurmgen.sites.nodes import Place
from slurmgen.sites.settings import Settings
from slurmgen.slurm import sbatch_options
from slurmgen.slurm.shell import Variable, unprintable

DEFAULT_FRAMEWORK = "ddp"
FRAMEWORK_WITHOUT_GPUS = "python"
DEFAULT_GPUS = 1

LONGEST_NAME = 200
"Characters of a job name: its log is NAME-ID.out, and a file name has at most 255 bytes."
_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=:@-]*")


def resolve(
    request: Request, site: Site, command: str | None = None, files: dict[str, str] | None = None
) -> Plan:
    """Decide every number of a job.

    Args:
        request: what the user asks for.
        site: the cluster that the job runs on.
        command: the command line for the header of the script; default: that of the request.
        files: the files that set fields of the request, such as slurmgen.toml, for the reasons.

    Raises:
        RequestError: the site cannot run such a job. The hint names what it can run.
    """
    own_command = _checked_command(request, site)
    origin = origin_of(files or {})
    launcher = _launcher(request, site)
    place = find_place(request, site, _gpus(request))
    layout, layout_reason = _layout(request, site, place, launcher, origin)
    ranks = find_ranks(request, origin, site, place, launcher, layout)
    settings = ranks.settings
    later = _later(request, site, place, layout)
    all_ranks = [ranks, *(one for _, one in later)]
    for one in all_ranks:
        check_refusals(site, one.settings)
    check_partition(site, place, layout.gpus)
    _check_account(request, site, settings)
    vendor = site.gpu.vendor_of(place.gpu_type) if layout.gpus else None
    setup = find_setup(request, origin, site, settings.modules, layout.nodes, vendor)
    mem = memory(request, origin, site, layout, place.node, ranks.cpus.per_node)
    limit = time(request, origin, site, place.limits, layout.nodes)
    notice = find_notice(request, launcher, limit.value)
    sweep = find_sweep(request, site, layout)
    further = with_bad_nodes(request, further_options(request, settings.sbatch, place.constraint, notice))
    further = with_array(sweep, with_mail(request, further))
    threads = max(1, ranks.cpus.per_rank // (sweep.per_task if sweep else 1))
    exports = variables(request, site, settings, launcher, layout, setup, threads)
    secrets = find_secrets(request, launcher, layout, setup, further)
    job = Shared(setup, further, (*_names(exports, all_ranks), *(request.secrets or ())))
    meets = any(one.launcher.meets(one.layout) for one in all_ranks)
    plan = Plan(
        site=site.name,
        profile=site,
        name=_job_name(request.name or ranks.program.name, all_ranks),
        place=place,
        layout_reason=layout_reason,
        ranks=ranks,
        memory=mem,
        time_limit=limit,
        setup=setup,
        variables=exports,
        secrets=secrets,
        rendezvous=_rendezvous(request, site, setup) if meets else None,
        notice=notice,
        sweep=sweep,
        step=find_step(request, ranks, job, notice, ranks.own_size),
        preflight=find_preflight(request, site, ranks, job, meets),
        then=tuple(next_step(asked, one, ranks, job) for asked, one in later),
        staging=find_staging(request, layout.nodes, ranks.cpus.per_node, further),
        gpu_directive=gpu_directive(site.gpu.request, place.requested_type, layout),
        mem_directive=mem_directive(site, mem.value, layout, ranks.cpus.per_node),
        extra_directives=tuple(sbatch_options.checked(key, value) for key, value in further.items()),
        log_dir=_log_dir(request, further),
        command=command or own_command,
        request=request,
        files=files or {},
    )
    check_options(request, site, [name for name, _ in plan.directives])
    return plan


def _later(request: Request, site: Site, place: Place, layout: Layout) -> list[tuple[Request, Ranks]]:
    """The request and the ranks of each further step."""
    return [
        (asked, next_ranks(asked, site, place, _launcher(asked, site), layout))
        for asked in next_requests(request)
    ]


def _names(exports: tuple[Variable, ...], steps: list[Ranks]) -> tuple[str, ...]:
    """The names of the variables that the script exports, those of the launchers of all steps included."""
    return (
        *(variable.name for variable in exports),
        *(name for ranks in steps for name in ranks.launcher.exports),
    )


def _checked_command(request: Request, site: Site) -> str:
    """The command line of the request; it contains most values, so that one search finds a bad character."""
    values = check_form(request)
    command = command_of(site.name, values)
    if unprintable(command) or unprintable([values.get(key) for key in ("env", "sweep", *FILE_ONLY)]):
        check_text(request)
    return command


def _launcher(request: Request, site: Site) -> Launcher:
    """The launcher of a request. A rendezvous is one of torchrun, so that such a request keeps torchrun."""
    name = request.framework or (DEFAULT_FRAMEWORK if _gpus(request) else FRAMEWORK_WITHOUT_GPUS)
    if name not in LAUNCHERS:
        raise RequestError(f"unknown framework {name!r}", did_you_mean(name, LAUNCHERS))
    by_srun = name == "ddp" and site.launch.ddp == "srun" and request.rendezvous is None
    return LAUNCHERS["srun" if by_srun else name]


def _layout(
    request: Request, site: Site, place: Place, launcher: Launcher, origin: Origin
) -> tuple[Layout, Reason]:
    gpus = _gpus(request)
    if not gpus:
        layout, reason = _without_gpus(request, launcher, origin)
        check_limits(request, site, place, 0, layout.nodes)
        return layout, reason
    check_shape(launcher, Layout(request.nodes or 1, gpus))
    check_one_node(request, site, place, launcher, gpus)
    try:
        layout, reason = lay_out(gpus, request.nodes, place.node.gpus, place.node_name, origin("nodes"))
    except RequestError as error:
        types = " or ".join(roomier(site, place.node))
        hint = f" Nodes with more GPUs: --gpu-type {types}." if types else ""
        raise RequestError(error.fact, error.hint + hint) from None
    check_shape(launcher, layout)
    check_limits(request, site, place, gpus, layout.nodes)
    return layout, reason


def _check_account(request: Request, site: Site, settings: Settings) -> None:
    """Refuse an account with the suffix of other jobs, such as @a100 for a job on H100."""
    account, own = request.account or "", settings.account_suffix
    for suffix in {table.account_suffix for table in site.when.values()} - {"", own}:
        if account.endswith(suffix):
            raise RequestError(
                f"the account {account} ends with {suffix}, but this job needs {own or 'no suffix'}",
                f"Leave {suffix} out of --account, or change --gpu-type or --partition.",
            )


def _log_dir(request: Request, further: dict[str, str]) -> str | None:
    folder = log_folder(request.log_dir)
    check_output(further.get("output"), folder, in_segments=request.in_segments)
    check_error_file(further.get("error"), folder_of(further.get("output")) or folder)
    return folder


def _gpus(request: Request) -> int:
    return DEFAULT_GPUS if request.gpus is None else request.gpus


def _without_gpus(request: Request, launcher: Launcher, origin: Origin) -> tuple[Layout, Reason]:
    """The layout of a job without GPUs: one task on each node."""
    if request.ntasks_per_node:
        raise RequestError("--ntasks-per-node is for jobs with GPUs", "Leave it out, or ask for --gpus.")
    layout = Layout(request.nodes or 1, 0)
    check_shape(launcher, layout)
    return layout, origin("nodes") if request.nodes else derived("one node, since the job has no GPUs")


def _job_name(name: str, steps: list[Ranks]) -> str:
    for launcher in (ranks.launcher for ranks in steps):
        if name in launcher.refused_names:
            raise RequestError(
                f"{launcher.name} treats a job named {name!r} as interactive", "Choose another --name."
            )
    if len(name) > LONGEST_NAME:
        raise RequestError(
            f"the job name has {len(name)} characters, too many for the name of its log",
            f"Choose a --name of at most {LONGEST_NAME}.",
        )
    if not _JOB_NAME.fullmatch(name):
        raise RequestError(
            f"the job name {name!r} is not a valid name for its log",
            "Choose a --name of letters, digits and _ . + = : @ -, which begins with a letter, a digit or _.",
        )
    return name


def _rendezvous(request: Request, site: Site, setup: Setup) -> Rendezvous:
    rule = site.rendezvous
    if rule.suffix and request.rendezvous == "c10d":
        raise RequestError(
            f"--rendezvous c10d does not work with the host name suffix {rule.suffix!r} of {site.name}",
            "Leave --rendezvous out.",
        )
    inside = rule.host_in_container if setup.container else None
    return Rendezvous(host=inside or rule.host, suffix=rule.suffix)
