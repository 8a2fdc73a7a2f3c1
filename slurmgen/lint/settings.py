"""The rules and the site that a lint run uses."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurmgen.lint.engine import chosen

if TYPE_CHECKING:
    from slurmgen.sites.model import Site


def lint_settings(
    folder: Path,
    site: str | None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    *,
    notes: bool = False,
) -> "tuple[tuple[str, ...], Site | None]":
    """The codes of the rules, and the site; options override the table [lint] of slurmgen.toml.

    Args:
        folder: where the search for slurmgen.toml starts.
        site: the name of the site.
        select: codes or prefixes of codes, separated by commas.
        ignore: the same for rules to skip.
        notes: also the rules of severity note.

    Raises:
        ConfigError: slurmgen.toml or the profile is not valid, or there is no such site.
        RequestError: there is no such rule.
    """
    project_dir = folder = folder.resolve()
    if any((parent / "slurmgen.toml").is_file() for parent in (folder, *folder.parents)):
        from slurmgen.config.project import find_project

        project_dir, project = find_project(folder)
        select, ignore = select or project.lint.select, ignore or project.lint.ignore
    place = None
    if site:
        from slurmgen.sites.profiles import load_site

        place = load_site(site, project_dir)
    return chosen(_split(select), _split(ignore), notes), place


def _split(codes: Sequence[str]) -> tuple[str, ...]:
    return tuple(code.strip() for text in codes for code in text.split(",") if code.strip())
