"""`slurmgen sites`: list, show and validate site profiles, and the commands that write and try them."""

from pathlib import Path

import click

from slurmgen.cli.completion import complete_sites
from slurmgen.cli.discover import command as discover
from slurmgen.cli.help import Group
from slurmgen.cli.route_options import project_dir
from slurmgen.cli.sites_new import command as new
from slurmgen.cli.sites_test import command as test
from slurmgen.text import toml_key, toml_value


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
@click.pass_context
def command(ctx: click.Context) -> int:
    """List, write, check and try site profiles."""
    return ctx.invoke(list_sites) if ctx.invoked_subcommand is None else 0


@command.command("list")
def list_sites() -> int:
    """List all sites and their profiles.

    Exits with 1 if a profile is not valid.
    """
    from slurmgen.errors import ConfigError
    from slurmgen.sites.profiles import load_profile, profile_paths
    from slurmgen.text import visible

    project = project_dir()
    paths = profile_paths(project)
    width = max(map(len, paths))
    is_wrong = False
    for name, path in paths.items():
        try:
            click.echo(visible(f"{name:{width}}  {load_profile(path, project).title}  ({path})"))
        except ConfigError as error:
            _print_error(error)
            is_wrong = True
    return int(is_wrong)


@command.command()
@click.argument("name", shell_complete=complete_sites)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of TOML.")
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
def validate(files: tuple[Path, ...], strict: bool) -> int:
    """Check profile files and print all errors.

    With --strict it also prints warnings: facts of a valid profile that contradict each other, have no
    effect, or have no source. Exits with 1 if there is an error or a warning.
    """
    from slurmgen.sites.profiles import profile_errors, profile_warnings
    from slurmgen.text import visible

    is_wrong = False
    for path in files:
        errors = profile_errors(path, project_dir())
        warnings = profile_warnings(path, project_dir()) if strict and not errors else []
        for error in errors:
            _print_error(error)
        for warning in warnings:
            _print_error(warning, "warning")
        is_wrong |= bool(errors or warnings)
        if not (errors or warnings):
            click.echo(visible(f"{path}: valid"))
    return int(is_wrong)


def _print_error(error: Exception, severity: str = "error") -> None:
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
