"""Resolve a request for a site into a plan."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

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
from slurmgen.plan.step import find_preflight, find_ranks, find_step, later_ranks, next_step
from slurmgen.plan.sweep import find_sweep, with_array
from slurmgen.plan.variables import find_secrets, variables
from slurmgen.request.model import Request, check_form, check_text
from slurmgen.request.text import command_of
from slurmgen.sites.model import Rendezvous, Site
from slurmgen.sites.nodes import Place, Settings
from slurmgen.slurm import sbatch_options
from slurmgen.slurm.shell import Variable, unprintable


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
    place = find_place(request, site, requested_gpus(request))
    layout_reason, first, later = _steps(inputs, place)
    every, layout = (first, *(ranks for _, ranks in later)), first.layout
    setup = find_setup(inputs, place, first)
    mem = memory(inputs, layout, place, first.cpus.per_node)
    limit = time(inputs, place.limits, layout.nodes)
    notice = find_notice(request, first.launcher, limit.value)
    sweep = find_sweep(request, site, layout)
    further = _further(request, first, place, notice, sweep)
    other_gres = further.pop("gres", "")
    exports = variables(request, site, first, setup, _threads(first, sweep))
    meets = any(ranks.launcher.meets(ranks.layout) for ranks in every)
    shared = Shared(setup, further, _exported(request, exports, every))
    plan = Plan(
        site=site.name,
        profile=site,
        name=_job_name(request.name or first.program.name, every),
        place=place,
        layout_reason=layout_reason,
        memory=mem,
        time_limit=limit,
        setup=setup,
        variables=exports,
        secrets=find_secrets(request, first, setup, further),
        rendezvous=_rendezvous(request, site, setup) if meets else None,
        notice=notice,
        sweep=sweep,
        step=find_step(request, first, shared, notice, first.own_size),
        preflight=find_preflight(request, site, first, shared, meets),
        then=tuple([next_step(asked, ranks, first, shared) for asked, ranks in later]),
        staging=find_staging(request, layout.nodes, first.cpus.per_node),
        gpu_directive=gpu_directive(site.gpu.request, place.requested_type, layout, other_gres),
        mem_directive=mem_directive(site, mem.value, layout, first.cpus.per_node),
        extra_directives=tuple(sbatch_options.checked(*option) for option in further.items()),
        log_dir=_log_dir(request, further),
        command=command or own_command,
        request=request,
        files=files or {},
    )
    check_options(request, site, [name for name, _ in plan.directives])
    return plan


def _steps(inputs: Inputs, place: Place) -> tuple[Reason, Ranks, list[tuple[Request, Ranks]]]:
    """The reason for the layout, the ranks of the first step, and each further step with its ranks."""
    request, site, _ = inputs
    check_limits(request, site, place, requested_gpus(request))
    launcher = find_launcher(request, site)
    layout, reason = _layout(inputs, place, launcher)
    first = find_ranks(inputs, place, launcher, layout)
    later = list(later_ranks(request, site, place, first))
    for ranks in (first, *(ranks for _, ranks in later)):
        check_refusals(site, ranks.settings)
    check_partition(site, place, layout.gpus)
    _check_account(request, site, first.settings)
    return reason, first, later


def _further(
    request: Request, ranks: Ranks, place: Place, notice: Notice | None, sweep: Sweeping | None
) -> dict[str, str]:
    """The options that not every plan has."""
    options = further_options(request, ranks.settings.sbatch, place.constraint, notice)
    return with_array(sweep, with_mail(request, with_bad_nodes(request, options)))


def _threads(ranks: Ranks, sweep: Sweeping | None) -> int:
    """Threads of a rank, whose CPUs the runs of a sweep on one GPU share."""
    return max(1, ranks.cpus.per_rank // (sweep.per_task if sweep else 1))


def _exported(request: Request, exports: Sequence[Variable], every: Sequence[Ranks]) -> tuple[str, ...]:
    of_launchers = (name for ranks in every for name in ranks.launcher.exports)
    return (*(variable.name for variable in exports), *of_launchers, *(request.secrets or ()))


def _checked_command(request: Request, site: Site) -> str:
    """The command line of the request; it contains most values, so that one search finds a bad character."""
    values = check_form(request)
    command = command_of(site.name, values)
    if unprintable(command) or unprintable([values.get(key) for key in ("env", "sweep", *FILE_ONLY)]):
        check_text(request)
    return command


def _log_dir(request: Request, further: dict[str, str]) -> str | None:
    folder, output = _log_folder(request.log_dir), further.get("output")
    if output and folder:
        raise contradiction(option("sbatch", "output"), option("log_dir"))
    if output and request.in_segments:
        then = f"Use {option('log_dir')}."
        raise contradiction(option("sbatch", "output"), option("segments"), then=then)
    _check_error_file(further.get("error"), str(PurePosixPath(output).parent) if output else folder)
    return folder


def _log_folder(folder: str | None) -> str | None:
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


def _check_error_file(error: str | None, log_dir: str | None) -> None:
    """Refuse a file for stderr in a folder that may not exist; `submit` creates only that of the log."""
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
