"""The decorators that give a command its job and the options of a request."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from slurmgen.cli.completion import complete_jobs, complete_sites
from slurmgen.cli.job_command import JobCommand
from slurmgen.cli.request_completion import complete_project_jobs
from slurmgen.cli.request_options import REQUEST_OPTIONS
from slurmgen.cli.site_option import site_option
from slurmgen.field_names import FILE_ONLY
from slurmgen.job_options import JobOptions
from slurmgen.request import Request
from slurmgen.request_text import given, with_sweep

_JOB = click.argument("job", required=False, shell_complete=complete_project_jobs)
_ID = click.argument("job", metavar="ID", shell_complete=complete_jobs)


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the JOB argument and every request option; it is called with a JobOptions first."""
    return _with_request(function, _JOB)


def changes_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with the ID of a submitted job, whose request the options change."""
    return _with_request(function, _ID)


def several_sites_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same as `request_options` with several --site; the command also gets `sites`."""
    sites = click.option(
        "--site",
        "sites",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_sites,
        help="Site to ask; repeatable; default: those of personal.toml and of slurmgen.toml.",
    )
    return _with_request(function, _JOB, sites)


def _with_request(
    function: Callable[..., Any],
    argument: Callable[[Callable[..., Any]], Any],
    site: Callable[[Callable[..., Any]], Any] = site_option,
) -> Callable[..., Any]:
    @wraps(function)
    def call(**params: Any) -> Any:
        script_args = JobCommand.script_args(click.get_current_context())
        request = with_sweep({key: params.pop(key) for key in _REQUEST_KEYS}, params.pop("sweep_limit"))
        options = JobOptions(
            request=Request(**given(request), script_args=script_args),
            **{key: params.pop(key, None) for key in ("job", "site", "replace_args")},
        )
        return function(options, **params)

    for option in reversed([site, *REQUEST_OPTIONS]):
        call = option(call)
    with_argument: Callable[..., Any] = argument(call)
    return with_argument


_REQUEST_KEYS = [key for key in Request.__struct_fields__ if key not in ("script_args", *FILE_ONLY)]
