"""slurmgen: Slurm batch scripts that are right for your cluster.

    >>> from slurmgen import Request, load_site, render, resolve
    >>> plan = resolve(Request(framework="ddp", gpus=4), load_site("generic"))
    >>> plan.world_size, plan.cpus_per_task
    (4, 16)
    >>> render(plan).splitlines()[0]
    '#!/bin/bash'

docs/api.md describes every name. Each is imported on first use, so that the command line starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurmgen.api import cancel, fetch, follow, logs, status, wait
    from slurmgen.errors import (
        AuthenticationFailed,
        CommandFailed,
        ConfigError,
        ConnectionFailed,
        HostKeyError,
        Interrupted,
        RemoteError,
        RequestError,
        SlurmgenError,
        TransferFailed,
        TwinError,
        Unresolved,
    )
    from slurmgen.job_spec import JobSpec, load_job
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.report import Report
    from slurmgen.jobs.results.local_folder import Results
    from slurmgen.jobs.submission import Observer
    from slurmgen.jobs.submit import submit
    from slurmgen.lint import lint as lint_script
    from slurmgen.plan import Plan, resolve
    from slurmgen.request import Request
    from slurmgen.script import render
    from slurmgen.sites.model import Site
    from slurmgen.sites.profiles import load_site

    __version__: str

__all__ = [
    "AuthenticationFailed",
    "CommandFailed",
    "ConfigError",
    "ConnectionFailed",
    "HostKeyError",
    "Interrupted",
    "JobSpec",
    "Observer",
    "Plan",
    "Record",
    "RemoteError",
    "Report",
    "Request",
    "RequestError",
    "Results",
    "Site",
    "SlurmgenError",
    "TransferFailed",
    "TwinError",
    "Unresolved",
    "__version__",
    "cancel",
    "fetch",
    "follow",
    "lint_script",
    "load_job",
    "load_site",
    "logs",
    "render",
    "resolve",
    "status",
    "submit",
    "wait",
]

_HOMES = {
    "JobSpec": "job_spec",
    "Observer": "jobs.submission",
    "Plan": "plan",
    "Record": "jobs.ledger",
    "Report": "jobs.report",
    "Request": "request",
    "Results": "jobs.results.local_folder",
    "Site": "sites.model",
    "cancel": "api",
    "fetch": "api",
    "follow": "api",
    "load_job": "job_spec",
    "load_site": "sites.profiles",
    "logs": "api",
    "render": "script",
    "resolve": "plan",
    "status": "api",
    "submit": "jobs.submit",
    "wait": "api",
}
"The module of each name that is not an error."


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("slurmgen-torch")
    if name == "lint":
        return import_module(f"{__name__}.lint")
    if name == "lint_script":
        return import_module(f"{__name__}.lint").lint
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
