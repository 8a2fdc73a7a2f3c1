"""`slurmgen adopt`: put the jobs of batch scripts into slurmgen.toml."""

from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from slurmgen.adopt import Adopted, Line, adopt
from slurmgen.cli.objects import AdoptedFact, AdoptedJob, AdoptedJobs, AdoptedLine
from slurmgen.cli.options import shown, site_option, write_in_project
from slurmgen.cli.output import Command, color_option, print_json, say, style_of, styled_diff
from slurmgen.config.project import (
    DEFAULT_SITE,
    FILE_NAME,
    Project,
    find_project,
    job_request,
    table_of,
    with_job,
)
from slurmgen.errors import RequestError
from slurmgen.files import OutsideFolder, is_inside, read_text
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.text import counted, toml_value, visible
from slurmgen.toml import unreadable


@click.command(
    "adopt",
    cls=Command,
    examples={
        "slurmgen adopt job.sbatch": "Put the job of a batch script into slurmgen.toml",
        "slurmgen adopt --dry-run --site daic slurm/*.sbatch": "Show what would become of several scripts",
        "slurmgen adopt --name eval --force job.sbatch": "Replace the job eval of slurmgen.toml",
    },
)
@click.argument(
    "scripts", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@site_option
@click.option("--name", metavar="NAME", help="Name of the job in slurmgen.toml; default: that of the file.")
@click.option("--dry-run", is_flag=True, help="Show the job without writing slurmgen.toml.")
@click.option("--force", is_flag=True, help="Replace a job of the same name.")
@color_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    scripts: tuple[Path, ...],
    site: str | None,
    name: str | None,
    dry_run: bool,
    force: bool,
    color: str,
    as_json: bool,
) -> int:
    """Put the jobs of hand-written batch scripts into slurmgen.toml.

    Prints what slurmgen replaces, each line that a job does not express, the secrets whose values are left
    out, and how the script that `slurmgen render` makes differs. The comments in slurmgen.toml stay. Exits
    with 1 if a line is not expressed.
    """
    if name and len(scripts) > 1:
        raise click.UsageError("--name is for one script.")
    folder, project = find_project(Path.cwd())
    place = load_site(site or project.site or DEFAULT_SITE, folder)
    found = {path: _adopted(path, place, project, name) for path in scripts}
    tables = _tables(found)
    _refuse_errors(found)
    text = _with_jobs(folder, found, tables, site if not project.site else None, force)
    if not dry_run:
        write_in_project(folder, folder / FILE_NAME, text.encode())
    if as_json:
        jobs = [_object(path, one, tables[path], written=not dry_run) for path, one in found.items()]
        print_json(AdoptedJobs(jobs=jobs))
    else:
        for path, one in found.items():
            _show(path, one, tables[path], color)
    if not dry_run:
        say(f"wrote {counted(len(found), 'job')} into {shown(folder / FILE_NAME)}")
    return int(any(one.lost or one.differences for one in found.values()))


def _adopted(path: Path, site: Site, project: Project, name: str | None) -> Adopted:
    return adopt(_text(path), str(path), site, job_request(project, None, site.name), name)


def _text(path: Path) -> str:
    try:
        if path.is_symlink() and not is_inside(path, path.parent):
            raise OutsideFolder("it is a link out of its folder")
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def _tables(found: dict[Path, Adopted]) -> dict[Path, str]:
    names = [one.name for one in found.values()]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RequestError(f"two scripts would be the job {twice!r}", "Adopt them one by one, with --name.")
    return {path: table_of(one.name, one.request, shown(path)) for path, one in found.items()}


def _refuse_errors(found: dict[Path, Adopted]) -> None:
    for path, one in found.items():
        if one.error:
            raise RequestError(
                f"{shown(path)} cannot be adopted: {one.error}",
                "Correct the script, or add what is missing to [defaults] of slurmgen.toml; "
                f"`slurmgen submit {shown(path)}` submits the script as it is.",
            )


def _with_jobs(
    folder: Path, found: dict[Path, Adopted], tables: dict[Path, str], site: str | None, force: bool
) -> str:
    path = folder / FILE_NAME
    is_new = not path.exists()
    text = f"site = {toml_value(site)}\n" if is_new and site else "" if is_new else read_text(path)
    for script, one in found.items():
        text = with_job(text, one.name, tables[script], path, replace=force)
    return text


def _show(path: Path, one: Adopted, table: str, color: str) -> None:
    lines = [f"{shown(path)}: job {one.name}"]
    lines += _listed("replaced by slurmgen:", one.replaced)
    lines += _listed("not expressed:", one.lost)
    lines += _listed("secrets, whose values are left out here and in the job; revoke them:", one.secrets)
    lines += [f"  note: {text}" for text in one.notes]
    changed = [f"  {d.name}: {d.old} in the script, {d.new} in the job" for d in one.differences]
    lines += (
        ["  the header requests something else:", *changed] if changed else ["  the header requests the same"]
    )
    for line in lines:
        click.echo(visible(line))
    click.echo("\n" + table)
    diff = visible(_diff(path, one), keep="\n\t")
    click.echo(styled_diff(diff, style_of(color)), nl=False, color=True)


def _listed(title: str, lines: Sequence[Line]) -> list[str]:
    shown_lines = [f"    line {one.line}: {one.text}: {one.why}" for one in lines]
    return [f"  {title}", *shown_lines] if lines else []


def _diff(path: Path, one: Adopted) -> str:
    old, new = one.source.splitlines(keepends=True), one.rendered.splitlines(keepends=True)
    names = (shown(path), f"slurmgen render {one.name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in unified_diff(old, new, *names))


def _object(path: Path, one: Adopted, table: str, *, written: bool) -> AdoptedJob:
    return AdoptedJob(
        file=str(path),
        name=one.name,
        request=to_builtins(one.request),
        toml=table,
        replaced=[AdoptedLine(**asdict(line)) for line in one.replaced],
        not_expressed=[AdoptedLine(**asdict(line)) for line in one.lost],
        secrets=[AdoptedLine(**asdict(line)) for line in one.secrets],
        notes=list(one.notes),
        differences=[AdoptedFact(**fact._asdict()) for fact in one.differences],
        rendered=one.rendered,
        written=written,
    )
