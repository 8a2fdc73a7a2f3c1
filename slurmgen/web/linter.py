"""The linter: findings and fixes of a pasted script, and the page of each rule."""

import atexit
import re
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from markupsafe import Markup, escape
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slurmgen.config.project import find_project
from slurmgen.errors import SlurmgenError
from slurmgen.lint.editor import findings, fixes
from slurmgen.lint.engine import chosen
from slurmgen.lint.rule_pages import GROUPS, explain
from slurmgen.lint.rules import all_rules
from slurmgen.lint.settings import lint_settings
from slurmgen.sites.profiles import load_site, profile_paths
from slurmgen.web.pages import Settings, page, settings_of, with_fields
from slurmgen.worker import Busy, Stopped, Workers

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


@with_fields
def _findings(request: Request, form: dict[str, str]) -> Response:
    """The JSON of `slurmgen.lint.editor.Findings`, or a sentence that says why not."""
    settings, script, unsafe = settings_of(request), form.get("script", ""), form.get("fixes") == "unsafe"
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
    groups = {
        title: [rule for code, rule in all_rules().items() if code.startswith(prefix)]
        for prefix, title in GROUPS.items()
    }
    return page(request, "linter_rules.html", groups=groups)


def _rule(request: Request) -> Response:
    rules, code = all_rules(), request.path_params["code"]
    if code not in rules:
        raise HTTPException(404, "There is no lint rule with this code")
    codes = ["", *rules, ""]
    at = codes.index(code)
    text = _html(explain(rules[code]))
    return page(
        request, "linter_rule.html", rule=rules[code], text=text, before=codes[at - 1], after=codes[at + 1]
    )


ROUTES = (
    Route("/lint", _linter),
    Route("/lint/findings", _findings, methods=["POST"]),
    Route("/rules", _rule_list),
    Route("/rules/{code}", _rule),
)

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|(?P<link>https://[^\s)]+)"
    r"|(?P<thread>(?P<repository>[\w.-]+/[\w.-]+) (?:issue|pull request) (?P<number>\d+))"
)
_HEADING, _INDENT = "## ", "    "


def _html(text: str) -> Markup:
    """The explanation of a rule as headings, paragraphs and examples."""
    blocks = ((kind, "\n".join(lines)) for kind, lines in groupby(text.splitlines()[3:], _kind))
    return Markup("\n").join(_block(kind, str(escape(block))) for kind, block in blocks if block.strip())


def _kind(line: str) -> str:
    if not line:
        return "blank"
    if line.startswith(_INDENT):
        return "example"
    return "heading" if line.startswith(_HEADING) else "paragraph"


def _block(kind: str, text: str) -> Markup:
    if kind == "example":
        return Markup(f'<pre tabindex="0"><code>{dedent(text)}</code></pre>')  # noqa: S704
    tag = "h2" if kind == "heading" else "p"
    return Markup(f"<{tag}>{_INLINE.sub(_inline, text.removeprefix(_HEADING))}</{tag}>")  # noqa: S704


def _inline(match: re.Match[str]) -> str:
    if match["code"]:
        return f"<code>{match['code']}</code>"
    # GitHub redirects from an issue to the pull request of the same number.
    address = match["link"] or f"https://github.com/{match['repository']}/issues/{match['number']}"
    return f'<a href="{address}" rel="noreferrer">{match[0]}</a>'
