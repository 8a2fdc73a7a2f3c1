"""`slurmgen sites discover --probe`: the options and the prompt of the probe job."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from slurmgen.cli.job_output import print_json, say
from slurmgen.text import counted, visible

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.plan import Plan
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.sites.discover import Discovery
    from slurmgen.sites.model import Site


class ProbeOptions(Struct, frozen=True, kw_only=True):
    """How the probe job is submitted."""

    yes: bool
    dry_run: bool
    account: str | None
    partition: str | None
    qos: str | None
    gpu_type: str | None


_OPTIONS = [
    click.option("--probe", is_flag=True, help="Submit a one-minute job that looks at a compute node."),
    click.option("--yes", is_flag=True, help="Submit the job of --probe without a prompt."),
    click.option("--dry-run", is_flag=True, help="Print the job of --probe; submit nothing."),
    click.option("--account", metavar="NAME", help="Account of the job of --probe."),
    click.option("--partition", metavar="NAME", help="Partition of the job of --probe."),
    click.option("--qos", metavar="NAME", help="QoS of the job of --probe."),
    click.option("--gpu-type", metavar="TYPE", help="GPU type of the job of --probe."),
]


def probe_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of --probe; it receives them as `probe`, None without --probe."""

    def gathered(*args: Any, probe: bool, **options: Any) -> Any:
        values = {name: options.pop(name) for name in ProbeOptions.__struct_fields__}
        if not probe and any(values.values()):
            option = next(name for name, value in values.items() if value)
            raise click.UsageError(f"--{option.replace('_', '-')} needs --probe.")
        return function(*args, probe=ProbeOptions(**values) if probe else None, **options)

    gathered.__doc__ = function.__doc__
    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


def probed(
    options: ProbeOptions,
    transport: "Transport",
    route: "Route",
    found: "Discovery",
    site: "Site",
    *,
    as_json: bool = False,
) -> "Discovery":
    """The discovery with the report of a probe job, which is submitted unless an earlier one is unread.

    Raises:
        RemoteError: the job was not submitted, or there is no report.
    """
    from slurmgen.config.user import load_personal
    from slurmgen.jobs.probe import prepare_probe, probe_plan, read_report, submit_probe, unread
    from slurmgen.sites.discover import with_probe

    own = load_personal(route.site)
    account = options.account or own.account
    plan = probe_plan(site, account, options.partition, qos=options.qos, gpu_type=options.gpu_type)
    if options.dry_run:
        _show(plan, as_json)
        return found
    earlier = unread(transport, route)
    if earlier:
        say(f"the report of job {earlier.id}, an earlier --probe, is unread")
        return with_probe(found, read_report(transport, earlier, _wait_for))
    if not (options.yes or _is_confirmed(plan, transport.where)):
        say("no job was submitted")
        return found
    prepared = prepare_probe(plan, route, own.remote_dir)
    return with_probe(found, submit_probe(transport, prepared, _wait_for))


def _show(plan: "Plan", as_json: bool) -> None:
    from slurmgen.cli.objects.sites import ProbeJob
    from slurmgen.jobs.probe import batch_script
    from slurmgen.sites.discover.probe import SCRIPT_NAME, script

    if as_json:
        print_json(ProbeJob(script=batch_script(plan), program=script()))
    else:
        click.echo(f"{batch_script(plan)}\n# {SCRIPT_NAME}:\n{script()}", nl=False)


def _is_confirmed(plan: "Plan", where: str) -> bool:
    """Ask before a job is submitted, which may cost something.

    Raises:
        click.UsageError: there is no terminal to ask at.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("--probe submits a job: confirm it with --yes, or see it with --dry-run.")
    partition = f" in partition {plan.place.partitions[0]}" if plan.place.partitions else ""
    text = f"Submit a one-minute job with {counted(plan.world_size, 'GPU')}{partition} on {where}?"
    return click.confirm(visible(text), err=True)


def _wait_for(record: "Record") -> None:
    say(f"job {record.id} is submitted; waiting for its report")
    say("^C leaves the job running, and the same command then reads its report")
