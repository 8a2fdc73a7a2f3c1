"""`slurmgen sites test`: try a profile with six jobs, and on its twin."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from slurmgen.cli.completion import complete_sites
from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_json
from slurmgen.cli.route_options import json_option, project_dir
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.request import Request
    from slurmgen.site_trial import Trial
    from slurmgen.sites.model import Site


@click.command(
    "test",
    cls=Command,
    examples={
        "slurmgen sites test daic": "Try a profile",
        "slurmgen sites test mine --twin": "Try a profile of the project that you trust",
        "slurmgen sites test daic --no-twin": "Without Slurm on this machine",
    },
)
@click.argument("name", shell_complete=complete_sites)
@click.option(
    "--twin/--no-twin",
    default=None,
    help="Run a job on a twin, or only render, lint and check the scripts; default: --no-twin for a profile "
    "of the project, else --twin.",
)
@click.option("--account", metavar="NAME", help="Account of the jobs; default: a made-up one if required.")
@click.option("--partition", metavar="NAME", help="Partition of the jobs; default: that of the site.")
@click.option("--qos", metavar="NAME", help="QoS of the jobs; default: that of the site.")
@click.option("--gpu-type", metavar="TYPE", help="GPU type of the jobs; default: that of the site.")
@json_option
def command(name: str, twin: bool | None, as_json: bool, **options: str | None) -> int:
    """Try a site profile with six jobs, and run one on a twin.

    The jobs are python on one GPU; ddp, lightning and accelerate on one node; ddp and lightning on two. Each
    script is rendered and linted, and checked with shellcheck if it is installed. Then a twin of the site
    starts. Its Slurm checks each script, and runs a job without GPU code on two nodes. A job beyond a limit
    of the profile is refused, which is not a failure. Nothing is sent to the cluster.

    The job runs shell lines of the profile on this machine. So a profile that is a file of the project, or
    extends one, is tried without a twin, unless --twin is given. Use it only for a project that you trust.

    Exits with 1 if a job failed, or if all were refused.
    """
    from slurmgen.request import Request
    from slurmgen.site_trial import has_shellcheck
    from slurmgen.sites.profiles import load_site

    site = load_site(name, project_dir())
    use_twin = _may_start_twin(name) if twin is None else twin
    if not has_shellcheck():
        click.echo("note: shellcheck is not installed, so the scripts are not checked with it", err=True)
    if others := _untried(site, options["partition"]):
        click.echo(visible(f"note: not tried without --partition NAME: {', '.join(others)}"), err=True)
    return _try(site, Request(**options), use_twin=use_twin, as_json=as_json)  # type: ignore[arg-type]


def _may_start_twin(name: str) -> bool:
    """Whether the job on the twin runs shell lines of the user's own and the bundled profiles only."""
    from slurmgen.sites.profiles import comes_from_project

    if not comes_from_project(name, project_dir()):
        return True
    note = (
        f"note: no job was run on a twin, because the profile {name} comes from the project, and the job "
        "runs its shell lines on this machine. If you trust the project, add --twin."
    )
    click.echo(visible(note), err=True)
    return False


def _untried(site: "Site", partition: str | None) -> list[str]:
    """The partitions with GPUs that no job without --partition uses."""
    from slurmgen.sites.nodes import gpu_partitions

    return [name for name in gpu_partitions(site) if not (partition or site.partitions[name].default)]


def _try(site: "Site", options: "Request", *, use_twin: bool, as_json: bool) -> int:
    from slurmgen.errors import TwinError
    from slurmgen.site_trial import try_scripts

    trials = try_scripts(site, options)
    try:
        trials = _on_twin(site, options, trials) if use_twin else trials
    except TwinError as error:
        if not as_json:
            _print(trials)
        raise TwinError(error.fact, f"{error.hint} Or add --no-twin.".strip()) from None
    _print_object(site.name, use_twin, trials) if as_json else _print(trials)
    results = {trial.result for trial in trials}
    return int("failed" in results or "passed" not in results)


def _on_twin(site: "Site", options: "Request", trials: "Sequence[Trial]") -> "list[Trial]":
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from slurmgen import twin as twins
    from slurmgen.cli.signals import interrupt_when_ended
    from slurmgen.site_trial import try_hello, try_on_twin, twin_of

    interrupt_when_ended()
    runs = site.name in {twin.site for twin in twins.running()}
    note = f"using the running twin of {site.name}, which may be older than its profile"
    click.echo(visible(note if runs else f"starting a twin of {site.name}"), err=True)
    with TemporaryDirectory(prefix="slurmgen-") as name, twin_of(site) as twin:
        folder = Path(name)
        checked = [try_on_twin(trial, twin, folder) for trial in trials]
        return [*checked, try_hello(site, options, twin, folder)]


def _print_object(site: str, twin: bool, trials: "Sequence[Trial]") -> None:
    from slurmgen.cli.objects.sites import SiteTrial, TrialResult

    results = [TrialResult(**trial._asdict()) for trial in trials]
    print_json(SiteTrial(site=site, twin=twin, trials=results))


def _print(trials: "Sequence[Trial]") -> None:
    width = max(len(trial.shape) for trial in trials)
    for trial in trials:
        row = f"{trial.shape:{width}}  {trial.result:7}  {trial.reason}"
        click.echo(visible(row).rstrip())
