"""`slurmgen twin`: a real Slurm on this machine that imitates a site."""

from __future__ import annotations

from shlex import quote

import click

from slurmgen import twin
from slurmgen.cli.objects import StoppedTwins, TwinList, TwinObject
from slurmgen.cli.options import complete_sites, complete_twins, json_option, not_empty, project_dir
from slurmgen.cli.output import Group, interrupt_when_ended, print_json
from slurmgen.errors import TwinError
from slurmgen.sites.profiles import load_site
from slurmgen.text import visible
from slurmgen.twin import Twin
from slurmgen.twin.installation import find
from slurmgen.twin.store import slurm


@click.group(
    "twin",
    cls=Group,
    examples={
        "slurmgen twin up daic": "Start a twin of DAIC",
        "slurmgen submit train --site daic --via twin": "Submit a job to it",
        "slurmgen twin down daic": "Stop it",
    },
)
def command() -> None:
    """Run a real Slurm on this machine that imitates a site.

    A twin has the partitions, limits and GPU types of the site, so that a script can be tried without waiting
    in a queue.
    """


def _named(name: str | None, site: str | None) -> str | None:
    if name and site and name != site:
        raise click.UsageError(f"SITE and --site name two sites: {name} and {site}.")
    return name or site


@command.command()
@click.argument("name", metavar="[SITE]", required=False, callback=not_empty, shell_complete=complete_sites)
@click.option("--site", metavar="NAME", shell_complete=complete_sites, help="Site to imitate.")
@click.option("--nodes", default=2, show_default=True, metavar="N", help="Number of nodes of each kind.")
@click.option(
    "--gpu-type", metavar="TYPE", help="GPU type of the nodes, instead of the usual ones of the site."
)
@click.option(
    "--slurm",
    "release",
    metavar="VERSION",
    help="Slurm release to run, such as 24.11, if not the one that is installed.",
)
@click.option(
    "--account",
    "accounts",
    multiple=True,
    metavar="NAME",
    help="Account that jobs may be charged to; default: any is accepted.",
)
@click.option("--ssh", is_flag=True, help="Also start an SSH server, to reach the twin like a login node.")
@json_option
def up(
    name: str | None,
    site: str | None,
    nodes: int,
    gpu_type: str | None,
    ssh: bool,
    release: str | None,
    accounts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Start a twin of SITE and wait until its nodes are idle."""
    site = _named(name, site)
    if site is None:
        raise click.UsageError("Name the SITE to imitate; `slurmgen sites` lists all.")
    interrupt_when_ended()
    shape = load_site(site, project_dir())
    slurm = find(release, lambda line: click.echo(visible(line), err=True))
    started = twin.up(shape, nodes, ssh=ssh, gpu_type=gpu_type, slurm=slurm, accounts=accounts)
    if as_json:
        print_json(_object(started))
        return
    account = (
        f" --account {quote(next(iter(accounts), 'NAME'))}" if shape.account.required or accounts else ""
    )
    click.echo(visible(_welcome(started, account), keep="\n"))


@command.command()
@click.argument("name", metavar="[SITE]", required=False, callback=not_empty, shell_complete=complete_twins)
@click.option(
    "--site",
    metavar="NAME",
    shell_complete=complete_twins,
    help="Twin to stop; not needed if only one runs.",
)
@click.option("--all", "everything", is_flag=True, help="Stop all twins.")
@json_option
def down(name: str | None, site: str | None, everything: bool, as_json: bool) -> None:
    """Stop the twin of SITE, and remove its jobs and files."""
    site = _named(name, site)
    names = twin.stored() if everything else [site or _only()]
    for each in names:
        twin.down(each)
        if not as_json:
            click.echo(visible(f"the twin of {each} is stopped"))
    if as_json:
        print_json(StoppedTwins(stopped=names))


@command.command()
@click.argument("name", metavar="[SITE]", required=False, callback=not_empty, shell_complete=complete_twins)
@click.option("--site", metavar="NAME", shell_complete=complete_twins, help="Show only this twin.")
@json_option
@click.pass_context
def status(ctx: click.Context, name: str | None, site: str | None, as_json: bool) -> None:
    """Show the running twins with their nodes and jobs.

    Exits with 1 if no twin runs.
    """
    site = _named(name, site)
    twins = [each for each in twin.running() if site in (None, each.site)]
    if as_json:
        print_json(TwinList(twins=[_object(each) for each in twins]))
        ctx.exit(0 if twins else 1)
    for each in twins:
        click.echo(visible(_report(each), keep="\n"))
    if not twins:
        click.echo("no twin runs" if site is None else visible(f"no twin of {site} runs"))
        ctx.exit(1)


def _object(twin: Twin) -> TwinObject:
    return TwinObject(
        site=twin.site,
        folder=str(twin.folder),
        nodes=list(twin.nodes),
        partitions=twin.shapes,
        assumptions=list(twin.assumptions),
        environment=twin.environ(),
        ssh_host=twin.ssh_host,
        ssh_config=str(twin.ssh_config) if twin.ssh_config else None,
    )


def _only() -> str:
    names = [each.site for each in twin.running()]
    if len(names) != 1:
        running = ", ".join(names) or "none"
        raise TwinError(f"it is not clear which twin to stop; running: {running}", "Name it, or give --all.")
    return names[0]


def _welcome(twin: Twin, account: str) -> str:
    ssh = f"ssh -F {quote(str(twin.ssh_config))} {twin.ssh_host} " if twin.ssh_config else ""
    return "\n".join(
        [
            f"a twin of {twin.site} runs in {twin.folder}",
            *(f"  {name}: nodes of {shape}" for name, shape in twin.shapes.items()),
            *(f"  note: {text}" for text in twin.assumptions),
            "next:",
            *(f"  export {assignment}" for assignment in _variables(twin)),
            f"  {ssh}sinfo",
            f"  slurmgen submit --site {twin.site} --via twin{account}",
            *_over_ssh(twin, account),
            f"  slurmgen twin down --site {twin.site}",
        ]
    )


def _variables(twin: Twin) -> list[str]:
    path = [f'PATH={quote(str(twin.programs))}:"$PATH"'] if twin.programs else []
    return [f"SLURM_CONF={quote(str(twin.slurm_conf))}", *path]


def _over_ssh(twin: Twin, account: str) -> list[str]:
    if not twin.ssh_config:
        return []
    route = f"--host {twin.ssh_host} --ssh-config {quote(str(twin.ssh_config))}"
    return [f"  slurmgen submit --site {twin.site} {route}{account}"]


def _report(twin: Twin) -> str:
    return "\n".join(
        [
            f"{twin.site}: {' '.join(_variables(twin))}",
            slurm(twin, "sinfo", "--format=%10P %.12l %.6D %8t %6c %8m %14G %N"),
            slurm(twin, "squeue", "--format=%10i %10P %20j %8T %.10M %.5D %R"),
        ]
    )
