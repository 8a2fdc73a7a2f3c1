"""slurmgen: Slurm batch scripts that are right for your cluster.

    >>> from slurmgen import Request, load_site, render, resolve
    >>> plan = resolve(Request(framework="ddp", gpus=4), load_site("generic"))
    >>> plan.world_size, plan.cpus_per_task
    (4, 16)
    >>> render(plan).splitlines()[0]
    '#!/bin/bash'

docs/api.md describes every name. Each is imported on first use, so that the command line starts fast.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurmgen.api import cancel, fetch, follow, logs, status, submit, wait
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
    from slurmgen.ledger.ledger import Record
    from slurmgen.lint import lint as lint_script
    from slurmgen.plan import Plan, resolve
    from slurmgen.plan.explain import explain
    from slurmgen.render import render
    from slurmgen.request.model import Request
    from slurmgen.results.fetch import Results
    from slurmgen.sites.model import Site
    from slurmgen.sites.profiles import load_site
    from slurmgen.status.report import Report
    from slurmgen.submit.submission import Observer

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
    "explain",
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
    "Observer": "submit.submission",
    "Plan": "plan",
    "Record": "ledger.ledger",
    "Report": "status.report",
    "Request": "request.model",
    "Results": "results.fetch",
    "Site": "sites.model",
    "cancel": "api",
    "explain": "plan.explain",
    "fetch": "api",
    "follow": "api",
    "load_job": "job_spec",
    "load_site": "sites.profiles",
    "logs": "api",
    "render": "render",
    "resolve": "plan",
    "status": "api",
    "submit": "api",
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


class _Package(ModuleType):
    """`slurmgen.submit` is the function, also after the package of that name was imported.

    The import system sets each submodule as an attribute of its package:
    https://docs.python.org/3/reference/import.html#submodules
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
