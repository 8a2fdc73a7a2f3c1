"""Plans of requests on a site, by default the generic one."""

from typing import Any

from msgspec import structs

from slurmgen import Plan, Request, Site, load_site, resolve


def plan_of(site: str | Site = "generic", **asked: Any) -> Plan:
    return resolve(Request(**asked), load_site(site) if isinstance(site, str) else site)


def directives(site: str | Site = "generic", **asked: Any) -> dict[str, str]:
    return dict(plan_of(site, **asked).directives)


def site_with(**facts: object) -> Site:
    """The generic site with other facts."""
    return structs.replace(load_site("generic"), **facts)
