"""Resolve a request for a site into a plan."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import (
    FILE_ONLY,
    Hint,
    RequestError,
    contradiction,
    leave_it_out,
    leave_out,
    offered,
    option,
    phrased,
)
from slurmgen.launchers import Launcher, Layout
from slurmgen.plan.model import (
    Inputs,
    Notice,
    Plan,
    Ranks,
    Reason,
    Reasoned,
    Setup,
    Shared,
    Sweeping,
    derived,
    find_launcher,
    origin_of,
    requested_gpus,
)
from slurmgen.plan.placement import (
    check_limits,
    check_one_node,
    check_options,
    check_partition,
    check_refusals,
    find_place,
    roomier,
)
from slurmgen.plan.requeue import find_notice, further_options, with_bad_nodes, with_mail
from slurmgen.plan.resources import check_shape, gpu_directive, lay_out, mem_directive, memory, time
from slurmgen.plan.software import find_setup
from slurmgen.plan.staging import find_staging
from slurmgen.plan.step import find_preflight, find_ranks, find_step, next_ranks, next_requests, next_step
from slurmgen.plan.sweep import find_sweep, with_array
from slurmgen.plan.variables import find_secrets, variables
from slurmgen.request.model import Request, check_form, check_text
from slurmgen.request.text import command_of
from slurmgen.sites.model import Rendezvous, Site, Vendor
from slurmgen.sites.nodes import Place, Settings
from slurmgen.slurm import sbatch_options
from slurmgen.slurm.shell import Variable, unprintable


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
    inputs = Inputs(request, site, origin_of(files or {}))
    steps = find_steps(inputs)
    first, layout, place = steps.first, steps.first.layout, steps.place
    setup = find_setup(inputs, first.settings.modules, layout.nodes, steps.vendor)
    options = find_batch_options(inputs, steps)
    exports = variables(request, site, first, setup, _threads(first, options.sweep))
    secrets = find_secrets(request, first, setup, options.further)
    shared = Shared(setup, options.further, _exported(request, exports, steps))
    plan = Plan(
        site=site.name,
        profile=site,
        name=_job_name(request.name or first.program.name, steps.ranks),
        place=place,
        layout_reason=steps.layout_reason,
        ranks=first,
        memory=options.memory,
        time_limit=options.time_limit,
        setup=setup,
        variables=exports,
        secrets=secrets,
        rendezvous=_rendezvous(request, site, setup) if steps.meets else None,
        notice=options.notice,
        sweep=options.sweep,
        step=find_step(request, first, shared, options.notice, first.own_size),
        preflight=find_preflight(request, site, first, shared, steps.meets),
        then=tuple([next_step(asked, ranks, first, shared) for asked, ranks in steps.later]),
        staging=find_staging(request, layout.nodes, first.cpus.per_node),
        gpu_directive=gpu_directive(site.gpu.request, place.requested_type, layout),
        mem_directive=mem_directive(site, options.memory.value, layout, first.cpus.per_node),
        extra_directives=tuple(sbatch_options.checked(*option) for option in options.further.items()),
        log_dir=_log_dir(request, options.further),
        command=command or own_command,
        request=request,
        files=files or {},
    )
    check_options(request, site, [name for name, _ in plan.directives])
    return plan


def _threads(ranks: Ranks, sweep: Sweeping | None) -> int:
    """Threads of a rank, whose CPUs the runs of a sweep on one GPU share."""
    return max(1, ranks.cpus.per_rank // (sweep.per_task if sweep else 1))


def _exported(request: Request, exports: tuple[Variable, ...], steps: Steps) -> tuple[str, ...]:
    of_launchers = (name for ranks in steps.ranks for name in ranks.launcher.exports)
    return (*(variable.name for variable in exports), *of_launchers, *(request.secrets or ()))


def _checked_command(request: Request, site: Site) -> str:
    """The command line of the request; it contains most values, so that one search finds a bad character."""
    values = check_form(request)
    command = command_of(site.name, values)
    if unprintable(command) or unprintable([values.get(key) for key in ("env", "sweep", *FILE_ONLY)]):
        check_text(request)
    return command


def _log_dir(request: Request, further: dict[str, str]) -> str | None:
    folder = log_folder(request.log_dir)
    check_output(further.get("output"), folder, in_segments=request.in_segments)
    check_error_file(further.get("error"), folder_of(further.get("output")) or folder)
    return folder


def _job_name(name: str, steps: Sequence[Ranks]) -> str:
    for launcher in (ranks.launcher for ranks in steps):
        if name in launcher.refused_names:
            raise RequestError(
                f"{launcher.name} treats a job named {name!r} as interactive",
                f"Choose another {option('name')}.",
            )
    if len(name) > LONGEST_NAME:
        raise RequestError(
            f"the job name has {len(name)} characters, too many for the name of its log",
            f"Choose a {option('name')} of at most {LONGEST_NAME}.",
        )
    if not _JOB_NAME.fullmatch(name):
        raise RequestError(
            f"the job name {name!r} is not a valid name for its log",
            f"Choose a {option('name')} of letters, digits and _ . + = : @ -, which begins with a letter, "
            "a digit or _.",
        )
    return name


def _rendezvous(request: Request, site: Site, setup: Setup) -> Rendezvous:
    rule = site.rendezvous
    if rule.suffix and request.rendezvous == "c10d":
        raise RequestError(
            f"{option('rendezvous', 'c10d')} does not work with the host name suffix {rule.suffix!r} "
            f"of {site.name}",
            leave_out("rendezvous"),
        )
    inside = rule.host_in_container if setup.container else None
    return Rendezvous(host=inside or rule.host, suffix=rule.suffix)


class BatchOptions(Struct, frozen=True, kw_only=True):
    """The memory and the time limit of a job, and the options that not every plan has."""

    memory: Reasoned
    time_limit: Reasoned
    notice: Notice | None
    sweep: Sweeping | None
    further: dict[str, str]


def find_batch_options(inputs: Inputs, steps: Steps) -> BatchOptions:
    """The options of a request.

    Raises:
        RequestError: the site does not allow one, or two contradict each other.
    """
    request, place, ranks = inputs.request, steps.place, steps.first
    mem = memory(inputs, ranks.layout, place.node, ranks.cpus.per_node)
    limit = time(inputs, place.limits, ranks.layout.nodes)
    notice = find_notice(request, ranks.launcher, limit.value)
    sweep = find_sweep(request, inputs.site, ranks.layout)
    further = further_options(request, ranks.settings.sbatch, place.constraint, notice)
    further = with_array(sweep, with_mail(request, with_bad_nodes(request, further)))
    return BatchOptions(memory=mem, time_limit=limit, notice=notice, sweep=sweep, further=further)


def log_folder(folder: str | None) -> str | None:
    """The folder of the log, for the `output` directive.

    Raises:
        RequestError: Slurm would read it as another path.
    """
    if folder is None:
        return None
    if "$" in folder or folder.startswith("~"):
        raise RequestError(
            f"{option('log_dir')} {folder!r} has a variable, which Slurm does not expand in #SBATCH lines",
            "Write a full path, or one relative to the folder that the job starts in.",
        )
    if re.search(r"""["'\\`\s#%]|^-|^$""", folder):
        raise RequestError(
            f"{option('log_dir')} {folder!r} is not allowed in a directive",
            "Leave out spaces, quotes, #, % and a leading dash.",
        )
    return folder.rstrip("/") or "/"


def folder_of(output: str | None) -> str | None:
    """The folder of `--sbatch output`."""
    return str(PurePosixPath(output).parent) if output else None


def check_output(output: str | None, log_dir: str | None, *, in_segments: bool) -> None:
    """Refuse `--sbatch output` where it contradicts another option.

    Raises:
        RequestError: it does.
    """
    if output and log_dir:
        raise contradiction(option("sbatch", "output"), option("log_dir"))
    if output and in_segments:
        then = f"Use {option('log_dir')}."
        raise contradiction(option("sbatch", "output"), option("segments"), then=then)


def check_error_file(error: str | None, log_dir: str | None) -> None:
    """Refuse a file for stderr in a folder that may not exist; `submit` creates only that of --log-dir.

    Raises:
        RequestError: it is in another folder.
    """
    if error is None:
        return
    folder = str(PurePosixPath(error).parent)
    if not folder.startswith("/") and folder not in (".", str(PurePosixPath(log_dir or "."))):
        raise RequestError(
            f"the folder of {option('sbatch', 'error')}={error} may not exist when the job starts",
            Hint(
                f"Add {option('log_dir', folder)}, or name a file without a folder.",
                offered("log_dir", folder),
            ),
        )
