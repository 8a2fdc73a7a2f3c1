"""`slurmgen sites`: list, show and validate site profiles."""

from pathlib import Path

import click


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, show and validate site profiles."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_sites)


@command.command("list")
def list_sites() -> None:
    """Name every site and where its profile is."""
    from slurmgen.profiles import load_profile, profile_paths

    project_dir = _project_dir()
    paths = profile_paths(project_dir)
    width = max(map(len, paths))
    for name, path in paths.items():
        click.echo(f"{name:{width}}  {load_profile(path, project_dir).title}  ({path})")


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of TOML.")
def show(name: str, as_json: bool) -> None:
    """Show every fact about a site, with what it inherits."""
    import msgspec

    from slurmgen.profiles import load_site

    site = load_site(name, _project_dir())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(site)).decode())
    else:
        click.echo(_toml(msgspec.to_builtins(site)), nl=False)


@command.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def validate(files: tuple[Path, ...]) -> int:
    """Check profile files; exit with 1 if one is wrong."""
    from slurmgen.errors import ConfigError
    from slurmgen.profiles import load_profile

    wrong = 0
    for path in files:
        try:
            load_profile(path, _project_dir())
            click.echo(f"{path}: valid")
        except ConfigError as error:
            click.echo(f"error: {error}", err=True)
            wrong = 1
    return wrong


def _project_dir() -> Path:
    from slurmgen.project import find_project

    return find_project(Path.cwd())[0]


def _toml(data: dict[str, object], prefix: str = "") -> str:
    """TOML of nested tables; a JSON string or list of strings is a TOML one too."""
    import json

    plain = {key: value for key, value in data.items() if not isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in plain.items()]
    if lines and prefix:
        lines.insert(0, f"\n[{prefix}]\n")
    for key, value in data.items():
        if isinstance(value, dict):
            lines.append(_toml(value, f"{prefix}.{key}" if prefix else key))
    return "".join(lines)
