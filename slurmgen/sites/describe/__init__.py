"""The facts of a profile in words, for readers: the docs page and the web page of a site are made of them."""

from slurmgen.sites.describe.access import access
from slurmgen.sites.describe.hardware import hardware
from slurmgen.sites.describe.limits import limits
from slurmgen.sites.describe.model import Row, Section, plain, without_empty_columns
from slurmgen.sites.describe.overview import Overview, longest_seconds, overview
from slurmgen.sites.describe.software import software
from slurmgen.sites.describe.sources import facts_by_mark, sources_of
from slurmgen.sites.model import Site

__all__ = [
    "Overview",
    "Row",
    "Section",
    "facts_by_mark",
    "longest_seconds",
    "overview",
    "plain",
    "sections",
    "sources_of",
]


def sections(site: Site) -> tuple[Section, ...]:
    """All that a profile states about its site, by theme; a theme without facts has no section."""
    parts = (hardware, limits, software, access)
    return tuple(without_empty_columns(section) for part in parts for section in part(site) if section.rows)
