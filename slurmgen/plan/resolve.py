"""resolve: decide every number of a job.

It is pure: the same request and site give the same plan, on any machine, at any time.
"""

import re
from collections.abc import Sequence

from slurmgen.errors import RequestError
from slurmgen.field_names import FILE_ONLY, option
from slurmgen.hints import leave_out
from slurmgen.plan.batch_options import find_batch_options
from slurmgen.plan.directives import gpu_directive, mem_directive
from slurmgen.plan.environment import Setup, find_setup
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.job_secrets import find_secrets
from slurmgen.plan.job_step import Shared, find_step
from slurmgen.plan.logs import check_error_file, check_output, folder_of, log_folder
from slurmgen.plan.model import Plan
from slurmgen.plan.next_steps import next_step
from slurmgen.plan.preflight import find_preflight
from slurmgen.plan.ranks import Ranks
from slurmgen.plan.reasons import origin_of
from slurmgen.plan.refusals import check_options
from slurmgen.plan.staging import find_staging
from slurmgen.plan.steps import Steps, find_steps
from slurmgen.plan.sweep import Sweeping
from slurmgen.plan.variables import variables
from slurmgen.request import Request, check_form, check_text
from slurmgen.request_command import command_of
from slurmgen.sites.model import Rendezvous, Site
from slurmgen.slurm import sbatch_options
from slurmgen.slurm.shell import Variable, unprintable

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
    """The names of the variables that the script exports, those of the launchers of all steps included."""
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
