"""`slurmgen init`: write a first slurmgen.toml, and copy the training examples."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Container, Iterable, Mapping
from itertools import chain, count
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

import click

from slurmgen.adopt import adopt
from slurmgen.cli.objects import Started
from slurmgen.cli.options import json_option, site_option, write_new
from slurmgen.cli.output import Command, print_json, say
from slurmgen.config.project import DEFAULT_SITE, FILE_NAME, table_of
from slurmgen.errors import RequestError, SlurmgenError, did_you_mean
from slurmgen.files import FOLDER as TRAINING
from slurmgen.files import bundled, read_text
from slurmgen.launchers import LAUNCHERS
from slurmgen.program.entry_points import batch_scripts, entry_points
from slurmgen.program.framework import Program, calls_of
from slurmgen.request.model import Request
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_profile, load_site, profile_paths
from slurmgen.text import counted, toml_key, toml_value, visible

_STARTER = Template("""\
# The jobs of this project. `slurmgen render --all --write` writes a batch script for each, to be checked in;
# `slurmgen check` reports those that are out of date.
site = "$site"  # `slurmgen sites` lists all sites

[defaults]  # for every job
$account
time = "01:00:00"

$jobs
# What differs on another site. The job then has a script for that site too.
# [job.$first.site.OTHER]
# gpus = 4
# account = "..."
""")


_EXAMPLE = """\
[job.cifar]  # `slurmgen submit cifar`
framework = "ddp"  # or {others}
gpus = 1  # total of the job, as in Slurm
script = "training/train_ddp.py"  # an example of slurmgen; replace it by your own
script_args = ["--data", "synthetic", "--model", "cnn", "--limit", "512", "--epochs", "2"]
"""


_NOTHING = """\
# No program was found: a Python file that imports a framework, and parses arguments or runs as a program.
# [job.train]  # `slurmgen submit train`
# script = "train.py"
# framework = "ddp"  # or {others}
# gpus = 1  # total of the job, as in Slurm
"""


_OTHERS = ", ".join(name for name in LAUNCHERS if name != "ddp")
_CLUSTER_NAME = re.compile(r"^ClusterName\s*=\s*(\S+)", re.MULTILINE)


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

    It has the jobs that the files of the folder show: each training program becomes a job, with the framework
    that its calls show, and so does each batch script. Nothing is imported or run.

    An existing file is never overwritten. On a login node the site is detected. Elsewhere slurmgen
    asks for it, and without a terminal the site is `generic`.
    """
    folder = Path.cwd()
    names = [FILE_NAME, *([TRAINING] if training else [])]
    for name in names:
        if os.path.lexists(name):
            raise RequestError(f"{name} exists already", "It is not overwritten; remove it to start again.")
    place = load_site(site or _find_site(folder), folder)
    jobs = {"cifar": ""} if training else _jobs(folder, place)
    text = starter(place) if training else starter(place, jobs, _account(place) if jobs else "")
    write_new(folder / FILE_NAME, text)
    click.echo(visible(f"wrote {FILE_NAME}" + _found(jobs, training=training)), err=True)
    if training:
        shutil.copytree(bundled(TRAINING), folder / TRAINING, ignore=shutil.ignore_patterns("__pycache__"))
        say(f"copied the training examples to {TRAINING}/")
    if as_json:
        print_json(Started(site=place.name, wrote=names))
    _print_next_steps(place, next(iter(jobs), None))


def starter(site: Site, tables: Mapping[str, str] | None = None, account: str = "") -> str:
    """A slurmgen.toml for a site, with comments on what to change.

    Args:
        tables: the table of each job of the project; unset: a bundled job that runs unchanged.
        account: the account to charge, if it is known.
    """
    example = _EXAMPLE if tables is None else _NOTHING
    jobs = "\n".join((tables or {}).values()) or example.format(others=_OTHERS)
    first = next(iter(tables or {}), "cifar" if tables is None else "train")
    hint = site.account.hint or "the account to charge, if the site needs one"
    line = f"account = {toml_value(account)}" if account else f'# account = "..."  # {hint}'
    return _STARTER.substitute(site=site.name, account=line, jobs=jobs, first=toml_key(first))


def site_here(host: str, slurm_config: str, sites: Iterable[Site]) -> str | None:
    """The site of a host, by its full name or by the output of `scontrol show config`."""
    cluster = _CLUSTER_NAME.search(slurm_config)
    for site in sites:
        if _is_of(host.lower(), site) or (cluster and cluster[1].lower() == site.name.lower()):
            return site.name
    return None


def _is_of(host: str, site: Site) -> bool:
    """Whether a host is in the domain of a site's login host.

    The domain begins with the site's own name, since neighbouring sites share what follows:
    login-1.olivia.sigma2.no is Olivia, login-1.saga.sigma2.no is not.
    """
    if not site.login.host:
        return False
    labels = site.login.host.lower().split(".")
    name = site.name.lower()
    domain = ".".join(labels[labels.index(name) :] if name in labels else labels)
    return host == domain or host.endswith(f".{domain}")


def _found(jobs: dict[str, str], *, training: bool) -> str:
    return f", with {counted(len(jobs), 'job')}: {', '.join(jobs)}" if jobs and not training else ""


def _jobs(folder: Path, site: Site) -> dict[str, str]:
    """The table of a job for each program and batch script of the folder."""
    programs = entry_points(folder)
    gpus = _ask("How many GPUs does a job need in total?", 1, int) if programs else 1
    tables: dict[str, str] = {}
    for program in programs:
        name = _free_name(program.file, tables)
        tables[name] = _table(name, program, gpus)
    for script in batch_scripts(folder):
        name = _free_name(script, tables)
        tables[name] = _adopted(name, script, folder, site)
    return tables


def _free_name(file: str, taken: Container[str]) -> str:
    """A name of a job that needs no quotes in TOML."""
    path = PurePosixPath(file)
    first = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "job"
    parent = re.sub(r"[^A-Za-z0-9_-]+", "-", path.parent.name).strip("-")
    names = chain([first, f"{parent}-{first}"], (f"{first}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken and name.strip("-") == name)


def _table(name: str, program: "Program", gpus: int) -> str:
    """The job of a program, with what shows its framework."""
    own = _own_gpus(program) or gpus
    request = Request(framework=program.framework, gpus=own, script=program.file)
    shown = program.evidence[0].text if program.evidence else "nothing in it starts several processes"
    first, *lines = table_of(name, request).splitlines()
    unsure = [f"# It could also be {one.framework}: {one.text} ({one.place})" for one in program.against[:2]]
    notes = [f"# framework: {shown} ({program.origin})", *unsure]
    return "\n".join([f"{first}  # `slurmgen submit {name}`", *map(visible, notes), *lines]) + "\n"


def _own_gpus(program: "Program") -> int | None:
    """The GPUs that Lightning's Trainer names."""
    calls = calls_of(program, "lightning") if program.framework == "lightning" else []
    counts = [(one.number("devices"), one.number("num_nodes", 1)) for one in calls]
    return next((devices * nodes for devices, nodes in counts if devices and nodes), None)


def _adopted(name: str, script: str, folder: Path, site: Site) -> str:
    """The job of a batch script; comments if it is not possible as a whole."""
    advice = f"# {visible(script)}: `slurmgen submit {visible(script)}` submits it as it is"
    try:
        made = adopt(read_text(folder / script), script, site, name=name)
    except (OSError, ValueError, SlurmgenError) as error:
        return f"{advice}; it cannot be adopted: {visible(str(error))}\n"
    table = table_of(name, made.request, script)
    if made.error:
        return (
            "\n".join([f"{advice}; as a job it needs more:", *(f"# {one}" for one in table.splitlines())])
            + "\n"
        )
    lost = [f"# line {one.line} is not in the job: {visible(one.text)}" for one in made.lost]
    return "\n".join([*table.splitlines(), *lost]) + "\n"


def _account(site: Site) -> str:
    return _ask(f"Which account does {site.name} charge?", "", str) if site.account.required else ""


def _ask(question: str, default: Any, kind: type) -> Any:
    """The answer of the user; the default without a terminal."""
    if not sys.stdin.isatty():
        return default
    return click.prompt(question, default=default, type=kind, err=True, show_default=default != "")


def _find_site(folder: Path) -> str:
    sites = [load_profile(path, folder) for path in profile_paths(folder).values()]
    found = site_here(_host_name(), _slurm_config(), sites)
    if found:
        return found
    if not sys.stdin.isatty():
        return DEFAULT_SITE
    names = [site.name for site in sites]
    while True:
        question = f"Which site? ({', '.join(names)})"
        answer: str = click.prompt(question, default=DEFAULT_SITE, err=True)
        if answer in names:
            return answer
        say(f"error: there is no site {answer!r}. {did_you_mean(answer, names)}")


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


def _print_next_steps(site: Site, job: str | None) -> None:
    steps = {
        f"slurmgen explain {job}": "the plan, each value with its reason",
        "slurmgen render --all --write": "write the scripts, to be checked in",
        f"slurmgen submit {job} --test-only": "would Slurm accept the job?",
    }
    edits = [f"{site.name} needs your account"] if site.account.required else []
    if job is None:
        edits, steps = [*edits, "write a job for your program"], {}
    if edits:
        steps = {f"$EDITOR {FILE_NAME}": ", and ".join(edits)} | steps
    click.echo("\n".join(["Next:", *(f"  {step:34}  # {why}" for step, why in steps.items())]), err=True)
