"""`slurmgen sites`: list, show and validate site profiles, and the commands that write and try them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmgen.cli.completion import complete_sites
from slurmgen.cli.discover import command as discover
from slurmgen.cli.help import Group
from slurmgen.cli.job_output import print_json
from slurmgen.cli.route_options import json_option, project_dir
from slurmgen.cli.sites_new import command as new
from slurmgen.cli.sites_test import command as test
from slurmgen.text import toml_key, toml_value

if TYPE_CHECKING:
    from slurmgen.cli.objects.sites import SiteRow


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
    from slurmgen.sites.profiles import profile_paths
    from slurmgen.text import visible

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
        from slurmgen.cli.objects.sites import SiteList

        print_json(SiteList(sites=rows), indent=2)
    return int(any(row.error for row in rows))


def _site_row(name: str, path: Path, project: Path) -> "SiteRow":
    from slurmgen.cli.objects.sites import SiteRow
    from slurmgen.errors import ConfigError
    from slurmgen.sites.profiles import load_profile

    try:
        return SiteRow(name=name, title=load_profile(path, project).title, path=str(path), error="")
    except ConfigError as error:
        return SiteRow(name=name, title="", path=str(path), error=str(error))


@command.command()
@click.argument("name", shell_complete=complete_sites)
@json_option
def show(name: str, as_json: bool) -> None:
    """Print the profile of a site, including what it inherits."""
    from slurmgen.sites.profiles import stated_facts
    from slurmgen.text import visible_json, visible_strings

    facts = stated_facts(name, project_dir())
    if as_json:
        click.echo(visible_json(facts, indent=2), nl=False)
    else:
        click.echo(visible_strings(_toml(facts)), nl=False)


command.add_command(new, "new")
command.add_command(discover, "discover")
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
    from slurmgen.cli.objects.sites import Validated, ValidatedProfile
    from slurmgen.sites.profiles import profile_errors, profile_warnings
    from slurmgen.text import visible

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
    from slurmgen.text import visible

    click.echo(visible(f"{severity}: {error}", keep="\n"), err=True)


def _toml(data: dict[str, object], prefix: str = "") -> str:
    """TOML of nested tables."""
    plain = {key: value for key, value in data.items() if not isinstance(value, dict)}
    lines = [f"{toml_key(key)} = {toml_value(value)}\n" for key, value in plain.items()]
    if prefix and (lines or not data):
        lines.insert(0, f"\n[{prefix}]\n")
    for key, value in data.items():
        if isinstance(value, dict):
            lines.append(_toml(value, f"{prefix}.{toml_key(key)}" if prefix else toml_key(key)))
    return "".join(lines)
