"""The addresses of the generator: the page, and the answer to its form."""

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.config.project import DEFAULT_SITE
from slurmgen.config.user import Personal
from slurmgen.errors import SlurmgenError
from slurmgen.field_names import parts
from slurmgen.hints import Offer, cleared
from slurmgen.sites.model import Site
from slurmgen.web.generator.answer import answer_of, check_size
from slurmgen.web.generator.choices import NAMED_BY_SITE, PLACED_BY, choices_of, hints_of
from slurmgen.web.generator.form import COMMON, GROUPS, LABELS
from slurmgen.web.generator.profiles import find_site, own_settings, site_titles
from slurmgen.web.pages import fields, page, settings_of

_SHOWN = "shown"
"The field with the values that the shown hints are for."
_UNKNOWN = "unknown"
"The field with an unknown name of the address, which is then refused."


def show(request: Request) -> Response:
    """The page, with the script of the default request."""
    settings = settings_of(request)
    site = find_site(settings, DEFAULT_SITE)
    own = own_settings(settings, site)
    sites = site_titles(settings)
    values: dict[str, Any] = {
        "sites": sites,
        "common": COMMON,
        "groups": GROUPS,
        "default_site": DEFAULT_SITE,
    }
    return page(
        request, "generator.html", **values, **_of_site(site, own, {}), answer=answer_of({}, site, own)
    )


async def answer(request: Request) -> Response:
    """The script of a filled form, or why there is none."""
    texts = await fields(request)
    return await run_in_threadpool(_answered, request, texts)


def _answered(request: Request, texts: dict[str, str]) -> Response:
    shown, unknown = texts.pop(_SHOWN, ""), texts.pop(_UNKNOWN, "")
    texts |= {unknown: ""} if unknown else {}
    of_site: dict[str, Any] = {"hints": None}
    try:
        check_size(texts)
        site = find_site(settings_of(request), texts.pop("site", DEFAULT_SITE))
        own = own_settings(settings_of(request), site)
        if shown != _placed({**texts, "site": site.name}):
            of_site = _of_site(site, own, texts)
        return page(request, "generator_answer.html", answer=answer_of(texts, site, own), **of_site)
    except SlurmgenError as error:
        field = next((name for name in error.fields if name in LABELS), "")
        refusal: dict[str, Any] = {
            "texts": [*parts(f"{error.marked[0]}. "), *parts(error.marked[1])],
            "field": field,
            "offers": tuple(dict.fromkeys((*error.offers, *_emptied(field, texts)))),
            "labels": LABELS,
        }
        reply = page(request, "generator_refusal.html", **refusal, **of_site)
        reply.headers["HX-Retarget"], reply.headers["HX-Reswap"] = "#refusal", "innerHTML"
        return reply


def _emptied(field: str, texts: Mapping[str, str]) -> tuple[Offer, ...]:
    """The offer to leave a field to the site, if what it has is a name of another site."""
    has_value = field in NAMED_BY_SITE and texts.get(field, "").strip()
    return cleared(field) if has_value else ()


def _of_site(site: Site, own: Personal, texts: Mapping[str, str]) -> dict[str, Any]:
    """What the form shows of the site's profile and of the user's own settings."""
    shown = _placed({**texts, "site": site.name})
    return {"shown": shown, "choices": choices_of(site), "hints": hints_of(site, own, texts)}


def _placed(texts: Mapping[str, str]) -> str:
    """The values that the hints depend on, as one text."""
    gpus = "0" if texts.get("gpus", "").strip() == "0" else ""
    return "|".join(texts.get(name, "").strip() if name != "gpus" else gpus for name in PLACED_BY)


ROUTES = (Route("/", show), Route("/generator", answer, methods=["POST"]))
