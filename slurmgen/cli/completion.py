"""Shell completion of jobs, hosts, sites, twins and lint rules. Nothing here connects to a host."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from slurmgen.errors import SlurmgenError
from slurmgen.text import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from slurmgen.jobs.ledger import Record

MAX_JOBS = 100
"Jobs that are offered, the last submitted ones."


def complete_jobs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Ids and names of submitted jobs, and `last`; with --site, of that site."""
    from slurmgen.jobs.lookup import LAST

    records = [record for record in _records(ctx) if not record.pending]
    items = {record.id: _described(record, record.name) for record in records}
    items |= {record.name: _described(record, record.id) for record in records}
    items |= {LAST: _described(records[-1], records[-1].name)} if records else {}
    return _matching(items, incomplete)


def complete_submissions(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Names and keys of unsettled submissions; with --site, of that site."""
    records = [record for record in _records(ctx) if record.pending]
    items = {record.name: _described(record, record.key) for record in records}
    items |= {record.key: _described(record, record.name) for record in records}
    return _matching(items, incomplete)


def complete_sites(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of site profiles, also those of the project."""
    from slurmgen.sites.profiles import profile_paths

    return _starting(profile_paths(_project_dir()), incomplete)


def complete_hosts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Aliases of ssh_config, also after `USER@`."""
    from slurmgen.remote.ssh.host_names import aliases

    user, at, host = incomplete.rpartition("@")
    return [f"{user}{at}{name}" for name in _starting(aliases(ctx.params.get("ssh_config")), host)]


def complete_twins(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the twins that run."""
    from slurmgen import twin

    with suppress(SlurmgenError):
        return _starting([running.site for running in twin.running()], incomplete)
    return []


def complete_rules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Codes of lint rules, also after a comma."""
    from slurmgen.lint.rules import all_rules

    before, comma, _ = incomplete.rpartition(",")
    return _matching(
        {f"{before}{comma}{code}": rule.summary for code, rule in all_rules().items()}, incomplete
    )


def _records(ctx: click.Context) -> "list[Record]":
    """The last entries of the ledger; none if it cannot be read."""
    from slurmgen.jobs.ledger import Ledger

    site = ctx.params.get("site")
    with suppress(SlurmgenError):
        return list(Ledger().recent(MAX_JOBS, site))
    return []


def _described(record: "Record", what: str) -> str:
    return visible(f"{what} at {record.site}, {record.submitted[:16].replace('T', ' ')}")


def _matching(items: dict[str, str], incomplete: str) -> "list[CompletionItem]":
    """The items that start with the incomplete word."""
    from click.shell_completion import CompletionItem  # 2 ms that only completion needs

    return [CompletionItem(name, help=items[name]) for name in _starting(items, incomplete)]


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that start with the incomplete word, and that bash neither splits nor expands."""
    return [name for name in names if name.startswith(incomplete) and quote(name) == name]


def _project_dir() -> Path:
    from slurmgen.config.project import find_project

    with suppress(SlurmgenError):
        return find_project(Path.cwd())[0]
    return Path.cwd()
