"""slurmgen: Slurm batch scripts that are right for your cluster.

    >>> from slurmgen import Request, load_site, render, resolve
    >>> plan = resolve(Request(framework="ddp", gpus=4), load_site("generic"))
    >>> plan.world_size, plan.cpus_per_task
    (4, 16)
    >>> render(plan).splitlines()[0]
    '#!/bin/bash'

Each name is imported when it is first used, so that the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurmgen import lint
    from slurmgen.errors import SlurmgenError
    from slurmgen.jobs.submit import submit
    from slurmgen.plan import Plan, resolve
    from slurmgen.request import Request
    from slurmgen.script import render
    from slurmgen.sites.model import Site
    from slurmgen.sites.profiles import load_site

_HOMES = {
    "Plan": "plan",
    "Request": "request",
    "Site": "sites.model",
    "SlurmgenError": "errors",
    "load_site": "sites.profiles",
    "render": "script",
    "resolve": "plan",
    "submit": "jobs.submit",
}

__all__ = ["Plan", "Request", "Site", "SlurmgenError", "lint", "load_site", "render", "resolve", "submit"]


def __getattr__(name: str) -> Any:
    if name == "lint":
        return import_module(f"{__name__}.lint")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
