"""The addresses of the linter.

Nothing but the text that the browser sends is checked: there is no path of a script, so the training script
next to it is never read.
"""

import atexit
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slurmgen.config.project import find_project
from slurmgen.errors import SlurmgenError
from slurmgen.lint.editor import findings, fixes
from slurmgen.lint.engine import chosen
from slurmgen.lint.settings import lint_settings
from slurmgen.sites.profiles import load_site, profile_paths
from slurmgen.web.linter.rule_pages import rule_list, rule_page
from slurmgen.web.pages import fields, page, settings_of
from slurmgen.web.settings import Settings
from slurmgen.workers import Busy, Stopped, Workers

if TYPE_CHECKING:
    from slurmgen.sites.model import Site

_SECONDS, _PATIENCE = 1.5, 0.4
"Of a check, and of waiting for a process."
_BUSY = "The linter is busy with other scripts. Try again in a few seconds.\n"
_STOPPED = (
    f"The check was stopped after {_SECONDS} seconds: the script is too complex to check here, "
    "or the server has too much to do.\n"
)


def _linter(request: Request) -> Response:
    settings = settings_of(request)
    project = None if settings.public else _project()
    shown = page(request, "linter.html", sites=profile_paths(project, personal=not settings.public))
    shown.background = BackgroundTask(_workers().prepare)
    return shown


def _project() -> Path:
    """The folder of the project, which may have site profiles of its own."""
    with suppress(SlurmgenError):  # shown when a script is checked
        return find_project(Path.cwd())[0]
    return Path.cwd()


async def _findings(request: Request) -> Response:
    """The JSON of `slurmgen.lint.editor.Findings`, or a sentence that says why not."""
    return await run_in_threadpool(_checked, settings_of(request), await fields(request))


def _checked(settings: Settings, form: dict[str, str]) -> Response:
    script, unsafe = form.get("script", ""), form.get("fixes") == "unsafe"
    try:
        codes, site = _rules(settings, form.get("site", ""), "notes" in form)
        if "fixes" in form:
            found = _workers().call(fixes, script, site, codes, unsafe)
        else:
            found = _workers().call(findings, script, site, codes)
    except Busy:
        return PlainTextResponse(_BUSY, 503, {"Retry-After": "2"})
    except Stopped:
        return PlainTextResponse(_STOPPED, 422)
    except SlurmgenError as error:
        return PlainTextResponse(f"{error}\n", 422)
    return Response(found, media_type="application/json")


def _rules(settings: Settings, site: str, notes: bool) -> "tuple[tuple[str, ...], Site | None]":
    """The rules and the site; of a local server as `slurmgen lint` in its folder has them."""
    if settings.public:
        return chosen(notes=notes), load_site(site, personal=False) if site else None
    return lint_settings(Path.cwd(), site or None, notes=notes)


@cache
def _workers() -> Workers:
    # Together they take less than a request to a public server may.
    first = (findings, "#!/bin/bash\nsrun python train.py\n", None, chosen())
    workers = Workers(first, seconds=_SECONDS, patience=_PATIENCE)
    atexit.register(workers.close)
    return workers


def _rule_list(request: Request) -> Response:
    return page(request, "linter_rules.html", groups=rule_list())


def _rule(request: Request) -> Response:
    return page(request, "linter_rule.html", rule=rule_page(request.path_params["code"]))


ROUTES = (
    Route("/lint", _linter),
    Route("/lint/findings", _findings, methods=["POST"]),
    Route("/rules", _rule_list),
    Route("/rules/{code}", _rule),
)
