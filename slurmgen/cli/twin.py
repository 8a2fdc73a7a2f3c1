"""`slurmgen twin`: a real Slurm on this machine in the shape of a site."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import click

from slurmgen.cli.completion import complete_sites, complete_twins

if TYPE_CHECKING:
    from slurmgen.twin import Twin


@click.group(name="twin")
def command() -> None:
    """Run a real Slurm here, in the shape of a site.

    A script can be tried on it without queueing.
    """


@command.command()
@click.option(
    "--site",
    required=True,
    metavar="NAME",
    shell_complete=complete_sites,
    help="The site whose shape it takes.",
)
@click.option("--nodes", default=2, show_default=True, metavar="N", help="Nodes, for each kind the site has.")
@click.option(
    "--gpu-type", metavar="TYPE", help="Give the nodes this type's GPUs, instead of the usual ones."
)
@click.option("--ssh", is_flag=True, help="Start an sshd too, to reach it as one reaches the login node.")
def up(site: str, nodes: int, gpu_type: str | None, ssh: bool) -> None:
    """Start a twin and wait until its nodes are idle."""
    from slurmgen import twin
    from slurmgen.cli.route_options import project_dir
    from slurmgen.sites.profiles import load_site
    from slurmgen.text import visible

    shape = load_site(site, project_dir())
    started = twin.up(shape, nodes, ssh=ssh, gpu_type=gpu_type)
    account = " --account NAME" if shape.account.required else ""
    click.echo(visible(_welcome(started, account), keep="\n"))


@command.command()
@click.option(
    "--site",
    metavar="NAME",
    shell_complete=complete_twins,
    help="The twin to end; not needed if only one runs.",
)
@click.option("--all", "everything", is_flag=True, help="End all twins.")
def down(site: str | None, everything: bool) -> None:
    """End a twin, the jobs on it, and all it wrote."""
    from slurmgen import twin
    from slurmgen.text import visible

    names = [each.site for each in twin.running()] if everything else [site or _only()]
    for name in names:
        twin.down(name)
        click.echo(visible(f"the twin of {name} is down"))


@command.command()
@click.option("--site", metavar="NAME", shell_complete=complete_twins, help="Only this twin.")
@click.pass_context
def status(ctx: click.Context, site: str | None) -> None:
    """Show the twins that run, with their nodes and jobs. Exit code 1 if there is none."""
    from slurmgen import twin
    from slurmgen.text import visible

    twins = [each for each in twin.running() if site in (None, each.site)]
    for each in twins:
        click.echo(visible(_report(each), keep="\n"))
    if not twins:
        click.echo("no twin runs" if site is None else visible(f"no twin of {site} runs"))
        ctx.exit(1)


def _only() -> str:
    from slurmgen import twin
    from slurmgen.errors import TwinError

    names = [each.site for each in twin.running()]
    if len(names) != 1:
        told = ", ".join(names) or "none"
        raise TwinError(f"which twin is not clear; running: {told}", "Say it with --site, or --all.")
    return names[0]


def _welcome(twin: Twin, account: str) -> str:
    ssh = f"ssh -F {quote(str(twin.ssh_config))} {twin.ssh_host} " if twin.ssh_config else ""
    return "\n".join(
        [
            f"a twin of {twin.site} runs in {twin.folder}",
            *(f"  {name}: nodes of {shape}" for name, shape in twin.shapes.items()),
            *(f"  note: {text}" for text in twin.assumptions),
            "next:",
            f"  export SLURM_CONF={quote(str(twin.slurm_conf))}",
            f"  {ssh}sinfo",
            f"  slurmgen submit --site {twin.site} --via twin{account}",
            *_over_ssh(twin, account),
            f"  slurmgen twin down --site {twin.site}",
        ]
    )


def _over_ssh(twin: Twin, account: str) -> list[str]:
    """How to submit as to the real site, with a login."""
    if not twin.ssh_config:
        return []
    way = f"--host {twin.ssh_host} --ssh-config {quote(str(twin.ssh_config))}"
    return [f"  slurmgen submit --site {twin.site} {way}{account}"]


def _report(twin: Twin) -> str:
    from slurmgen.twin.commands import slurm

    return "\n".join(
        [
            f"{twin.site}: SLURM_CONF={quote(str(twin.slurm_conf))}",
            slurm(twin, "sinfo", "--format=%10P %.12l %.6D %8t %6c %8m %14G %N"),
            slurm(twin, "squeue", "--format=%10i %10P %20j %8T %.10M %.5D %R"),
        ]
    )
