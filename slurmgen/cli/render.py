"""`slurmgen render`: the batch script, on stdout or in a file."""

import os
from pathlib import Path

import click

from slurmgen.cli.options import Asked, JobCommand, request_options
from slurmgen.errors import RequestError


@click.command(cls=JobCommand)
@request_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.option("--write", is_flag=True, help="Write to the project's script folder, as NAME.SITE.sbatch.")
def command(asked: Asked, output: Path | None, write: bool) -> None:
    """Write the batch script for a job to stdout, or to a file.

    A script in a file never depends on your personal settings, so that it can be checked in.
    """
    from slurmgen.plan import resolve
    from slurmgen.script import render

    if output and write:
        raise click.UsageError("--output and --write exclude each other.")
    plan = resolve(asked.request, asked.site, asked.command, asked.sources)
    text = render(plan, asked.template_dir, _cache_dir())
    if write:
        output = asked.script_dir / f"{asked.job or plan.name}.{plan.site}.sbatch"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError(f"cannot write {output}: {error.strerror}", "Choose another file.") from None
    click.echo(f"wrote {output}", err=True)


def _cache_dir() -> Path | None:
    """A folder of your own for compiled templates; None where there can be none."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "slurmgen", "templates")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    # What is in there gets run, so that nobody else may write to it.
    is_ours = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return folder if is_ours and os.access(folder, os.W_OK) else None
