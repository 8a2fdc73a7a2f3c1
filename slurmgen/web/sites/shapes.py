"""The scripts of a site for the shapes of jobs that every site must be able to run."""

from urllib.parse import urlencode

from msgspec import Struct

from slurmgen.errors import SlurmgenError
from slurmgen.plan import resolve
from slurmgen.request import Request
from slurmgen.script import render
from slurmgen.sites.model import Site
from slurmgen.sites.shapes import SIX_SHAPES, SIZES, shape_request

_FIELDS = ("framework", "gpus", "nodes", "qos")


class Shape(Struct, frozen=True):
    """One shape: its script, or why the site allows no such job."""

    title: str
    fields: str
    "The request as the generator's address has it."
    script: str = ""
    refusal: str = ""


def shapes(site: Site) -> tuple[Shape, ...]:
    """Every shape on a site. A required account has an example value."""
    return tuple(_shape(site, framework, size) for framework, size in SIX_SHAPES)


def _shape(site: Site, framework: str, size: str) -> Shape:
    title = f"{framework} on {SIZES[size]}"
    try:
        request = shape_request(site, framework, size)
        return Shape(title, _fields(site, request), render(resolve(request, site)))
    except SlurmgenError as error:
        return Shape(title, "", refusal=str(error))


def _fields(site: Site, request: Request) -> str:
    values = {name: getattr(request, name) for name in _FIELDS}
    return urlencode(
        {"site": site.name} | {name: value for name, value in values.items() if value is not None}
    )
