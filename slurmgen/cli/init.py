"""`slurmgen init`: write a first slurmgen.toml, and copy the training examples."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click

from slurmgen.cli.objects import Started
from slurmgen.cli.options import json_option, shown, site_option, write_new
from slurmgen.cli.output import Command, print_json
from slurmgen.config.project import DEFAULT_SITE, FILE_NAME
from slurmgen.errors import RequestError
from slurmgen.files import FOLDER as TRAINING
from slurmgen.sites.model import Site
from slurmgen.text import visible


@click.command(
    "init",
    cls=Command,
    examples={
        "slurmgen init": "Start a project on the cluster that you are logged in to",
        "slurmgen init --site daic --training": "Start one for DAIC, with the training examples",
    },
)
@site_option
@click.option("--training", is_flag=True, help="Also copy the training examples to training/.")
@json_option
def command(site: str | None, training: bool, as_json: bool) -> None:
    """Create a commented slurmgen.toml in the current folder.

    An existing file is never overwritten. On a login node the site is detected. Elsewhere slurmgen
    asks for it, and without a terminal the site is `generic`.
    """
    from slurmgen.config.init_file import starter
    from slurmgen.sites.profiles import load_site

    folder = Path.cwd()
    names = [FILE_NAME, *([TRAINING] if training else [])]
    for name in names:
        _refuse_existing(folder / name)
    place = load_site(site or _find_site(folder), folder)
    write_new(folder / FILE_NAME, starter(place))
    click.echo(visible(f"wrote {FILE_NAME}"), err=True)
    if training:
        _copy_training(folder / TRAINING)
    if as_json:
        print_json(Started(site=place.name, wrote=names))
    _print_next_steps(place)


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise RequestError(
            f"{shown(path)} exists already", "It is not overwritten; remove it to start again."
        )


def _find_site(folder: Path) -> str:
    from slurmgen.config.init_file import site_here
    from slurmgen.sites.profiles import load_profile, profile_paths

    sites = [load_profile(path, folder) for path in profile_paths(folder).values()]
    found = site_here(_host_name(), _slurm_config(), sites)
    if found:
        return found
    if not sys.stdin.isatty():
        return DEFAULT_SITE
    names = click.Choice([site.name for site in sites])
    answer: str = click.prompt("Which site?", type=names, default=DEFAULT_SITE, err=True)
    return answer


def _host_name() -> str:
    name = socket.gethostname()
    return name if "." in name else socket.getfqdn()


def _slurm_config() -> str:
    """The configuration of the Slurm on this machine; empty if there is none."""
    try:
        shown = subprocess.run(["scontrol", "show", "config"], capture_output=True, timeout=5, check=False)  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return shown.stdout.decode("utf-8", "replace")


def _copy_training(folder: Path) -> None:
    from slurmgen.files import bundled

    shutil.copytree(bundled(TRAINING), folder, ignore=shutil.ignore_patterns("__pycache__"))
    click.echo(visible(f"copied the training examples to {shown(folder)}/"), err=True)


def _print_next_steps(site: Site) -> None:
    steps = {
        "slurmgen explain cifar": "the plan, each value with its reason",
        "slurmgen render --all --write": "write the scripts, to be checked in",
        "slurmgen submit cifar --test-only": "would Slurm accept the job?",
    }
    if site.account.required:
        steps = {f"$EDITOR {FILE_NAME}": f"{site.name} needs your account"} | steps
    click.echo("\n".join(["Next:", *(f"  {step:34}  # {why}" for step, why in steps.items())]), err=True)
