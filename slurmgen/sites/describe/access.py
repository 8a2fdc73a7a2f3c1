"""Charges, notes, refusals, and how users log in."""

from collections.abc import Iterator

from slurmgen.sites.describe.model import Row, Section, codes, pairs
from slurmgen.sites.model import Charge, Site


def access(site: Site) -> Iterator[Section]:
    """What jobs cost, what users should know, and where they log in."""
    yield pairs("Charge", _charge(site.charge) if site.charge else ())
    yield pairs("Notes", ((f"notes.{topic}", topic, text) for topic, text in site.notes.items()))
    refused = site.refused_options.items()
    refusals = [Row(f"refused_options.{name}", (f"`--{name}`", reason)) for name, reason in refused]
    refusals += [Row("refusals", (f"“{text}”", advice)) for text, advice in site.refusals.items()]
    yield Section("Refusals", ("option or message", "advice"), tuple(refusals))
    yield pairs("Login", _login(site))


def _charge(charge: Charge) -> Iterator[tuple[str, str, str]]:
    of_one = f"for an hour of one {'GPU' if charge.per == 'gpu' else 'node'}"
    yield "charge", charge.unit, f"{charge.rate:g} {of_one}"
    for name, rate in charge.rates.items():
        yield "charge.rates", f"{charge.unit}, `{name}`", f"{rate:g} {of_one}"


def _login(site: Site) -> Iterator[tuple[str, str, str | None]]:
    login = site.login
    hours = f"{login.certificate_hours} hours" if login.certificate_hours else None
    command = f"`{login.certificate_command}`" if login.certificate_command else None
    yield "login.host", "host", _name(login.host)
    yield "login.other_hosts", "further hosts", codes(login.other_hosts)
    yield "login.jump_host", "jump host", _name(login.jump_host)
    yield "login.automation_host", "automation host", _name(login.automation_host)
    yield "login.transfer_hosts", "hosts for copying files", codes(login.transfer_hosts)
    yield "login.methods", "needs", ", ".join(login.methods)
    yield "login.certificate_hours", "certificate", hours
    yield "login.certificate_command", "gets a certificate", command
    yield "login.note", "note", login.note
    required = "required." if site.account.required else ""
    yield "account", "account", f"{required} {site.account.hint or ''}".strip()


def _name(host: str | None) -> str | None:
    return f"`{host}`" if host else None
