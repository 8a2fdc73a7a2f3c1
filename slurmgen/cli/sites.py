"""`slurmgen sites`: list, show and validate site profiles, and the commands that write and try them."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from slurmgen import twin as twins
from slurmgen.cli.objects import SiteList, SiteRow, SiteTrial, TrialResult, Validated, ValidatedProfile
from slurmgen.cli.options import complete_sites, json_option, project_dir
from slurmgen.cli.output import Command, Group, interrupt_when_ended, print_json
from slurmgen.cli.sites_write import discover_command, new_command
from slurmgen.errors import ConfigError, TwinError
from slurmgen.request.model import Request
from slurmgen.site_trial import Trial, has_shellcheck, try_hello, try_on_twin, try_scripts, twin_of
from slurmgen.sites.model import KNOWN_BY, UNSOURCED, Site
from slurmgen.sites.nodes import gpu_partitions
from slurmgen.sites.profiles import (
    comes_from_project,
    load_profile,
    load_site,
    profile_errors,
    profile_paths,
    profile_warnings,
    stated_facts,
)
from slurmgen.text import toml_key, toml_value, visible, visible_json, visible_strings


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
def test(name: str, twin: bool | None, as_json: bool, **options: str | None) -> int:
    """Try a site profile with six jobs, and run one on a twin.

    The jobs are python on one GPU; ddp, lightning and accelerate on one node; ddp and lightning on two. Each
    script is rendered and linted, and checked with shellcheck if it is installed. Then a twin of the site
    starts. Its Slurm checks each script, and runs a job without GPU code on two nodes. A job beyond a limit
    of the profile is refused, which is not a failure. Nothing is sent to the cluster.

    The job runs shell lines of the profile on this machine. So a profile that is a file of the project, or
    extends one, is tried without a twin, unless --twin is given. Use it only for a project that you trust.

    Exits with 1 if a job failed, or if all were refused.
    """
    site = load_site(name, project_dir())
    use_twin = _may_start_twin(name) if twin is None else twin
    if not has_shellcheck():
        click.echo("note: shellcheck is not installed, so the scripts are not checked with it", err=True)
    if others := _untried(site, options["partition"]):
        click.echo(visible(f"note: not tried without --partition NAME: {', '.join(others)}"), err=True)
    return _try(site, Request(**options), use_twin=use_twin, as_json=as_json)  # type: ignore[arg-type]


def _may_start_twin(name: str) -> bool:
    """Whether the job on the twin runs shell lines of the user's own and the bundled profiles only."""
    if not comes_from_project(name, project_dir()):
        return True
    note = (
        f"note: no job was run on a twin, because the profile {name} comes from the project, and the job "
        "runs its shell lines on this machine. If you trust the project, add --twin."
    )
    click.echo(visible(note), err=True)
    return False


def _untried(site: Site, partition: str | None) -> list[str]:
    """The partitions with GPUs that no job without --partition uses."""
    return [name for name in gpu_partitions(site) if not (partition or site.partitions[name].default)]


def _try(site: Site, options: Request, *, use_twin: bool, as_json: bool) -> int:
    trials = try_scripts(site, options)
    try:
        trials = _on_twin(site, options, trials) if use_twin else trials
    except TwinError as error:
        if not as_json:
            _print(trials)
        raise TwinError(error.fact, f"{error.hint} Or add --no-twin.".strip()) from None
    if as_json:
        results = [TrialResult(**trial._asdict()) for trial in trials]
        print_json(SiteTrial(site=site.name, twin=use_twin, trials=results))
    else:
        _print(trials)
    found = {trial.result for trial in trials}
    return int("failed" in found or "passed" not in found)


def _on_twin(site: Site, options: Request, trials: Sequence[Trial]) -> list[Trial]:
    interrupt_when_ended()
    runs = site.name in {twin.site for twin in twins.running()}
    note = f"using the running twin of {site.name}, which may be older than its profile"
    click.echo(visible(note if runs else f"starting a twin of {site.name}"), err=True)
    with TemporaryDirectory(prefix="slurmgen-") as name, twin_of(site) as twin:
        folder = Path(name)
        checked = [try_on_twin(trial, twin, folder) for trial in trials]
        return [*checked, try_hello(site, options, twin, folder)]


def _print(trials: Sequence[Trial]) -> None:
    width = max(len(trial.shape) for trial in trials)
    for trial in trials:
        row = f"{trial.shape:{width}}  {trial.result:7}  {trial.reason}"
        click.echo(visible(row).rstrip())


@click.group(
    "sites",
    cls=Group,
    invoke_without_command=True,
    examples={
        "slurmgen sites": "List the sites that slurmgen knows",
        "slurmgen sites show daic": "Show all that it knows about one",
        "slurmgen sites new mycluster": "Write a profile of your cluster",
        "slurmgen sites validate --strict site_profiles/mine.toml": "Check your own profile",
        "slurmgen sites test daic": "Try a profile with six jobs",
    },
)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """List, write, check and try site profiles."""
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(list_sites, as_json=as_json))
    if as_json:
        raise click.UsageError(f"Put --json after {ctx.invoked_subcommand}.")
    return 0


@command.command("list")
@json_option
def list_sites(as_json: bool) -> int:
    """List all sites and their profiles.

    Exits with 1 if a profile is not valid.
    """
    project = project_dir()
    paths = profile_paths(project)
    width = max(map(len, paths))
    rows = []
    for name, path in paths.items():
        row = _site_row(name, path, project)
        rows.append(row)
        if row.error:
            _print_error(row.error)
        elif not as_json:
            click.echo(visible(f"{name:{width}}  {row.title}  ({path})"))
    if as_json:
        print_json(SiteList(sites=rows), indent=2)
    return int(any(row.error for row in rows))


def _site_row(name: str, path: Path, project: Path) -> SiteRow:
    try:
        return SiteRow(name=name, title=load_profile(path, project).title, path=str(path), error="")
    except ConfigError as error:
        return SiteRow(name=name, title="", path=str(path), error=str(error))


@command.command()
@click.argument("name", shell_complete=complete_sites)
@json_option
def show(name: str, as_json: bool) -> None:
    """Print the profile of a site, including what it inherits.

    A comment after each fact says how it is known: seen on the machine, documented, or inferred, with the
    name of its source.
    """
    facts = stated_facts(name, project_dir())
    if as_json:
        click.echo(visible_json(facts, indent=2), nl=False)
    else:
        click.echo(visible_strings(_toml(facts, load_site(name, project_dir()))), nl=False)


command.add_command(new_command, "new")
command.add_command(discover_command, "discover")
command.add_command(test, "test")


@command.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--strict", is_flag=True, help="Also report contradictions, and facts that have no effect or no source."
)
@json_option
def validate(files: tuple[Path, ...], strict: bool, as_json: bool) -> int:
    """Check profile files and print all errors.

    With --strict it also prints warnings: facts of a valid profile that contradict each other, have no
    effect, or have no source. Exits with 1 if there is an error or a warning.
    """
    profiles = []
    for path in files:
        errors = [str(error) for error in profile_errors(path, project_dir())]
        warnings = profile_warnings(path, project_dir()) if strict and not errors else []
        profile = ValidatedProfile(path=str(path), errors=errors, warnings=[*map(str, warnings)])
        profiles.append(profile)
        for error in errors:
            _print_error(error)
        for warning in profile.warnings:
            _print_error(warning, "warning")
        if not (errors or warnings or as_json):
            click.echo(visible(f"{path}: valid"))
    if as_json:
        print_json(Validated(profiles=profiles), indent=2)
    return int(any(profile.errors or profile.warnings for profile in profiles))


def _print_error(error: str, severity: str = "error") -> None:
    click.echo(visible(f"{severity}: {error}", keep="\n"), err=True)


def _toml(data: dict[str, object], site: Site, table: tuple[str, ...] = ()) -> str:
    plain = {key: value for key, value in data.items() if not isinstance(value, dict)}
    lines = [
        f"{toml_key(key)} = {toml_value(value)}{_known(site, (*table, key))}\n"
        for key, value in plain.items()
    ]
    if table and (lines or not data):
        lines.insert(0, f"\n[{'.'.join(map(toml_key, table))}]\n")
    for key, value in data.items():
        if isinstance(value, dict):
            lines.append(_toml(value, site, (*table, key)))
    return "".join(lines)


def _known(site: Site, keys: tuple[str, ...]) -> str:
    """How a fact is known, as a comment."""
    name = site.source_of(".".join(keys)) if keys[0] not in UNSOURCED else None
    return f"  # {KNOWN_BY[site.sources[name].mark]} [{name}]" if name else ""
