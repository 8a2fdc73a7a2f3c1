"""The facts of two sites side by side."""

from msgspec import Struct

from slurmgen.sites.describe import Overview, Section, overview, plain, sections
from slurmgen.sites.model import Site


class Pair(Struct, frozen=True):
    """A fact of both sites; empty where a profile does not state it."""

    name: str
    first: str
    second: str

    @property
    def same(self) -> bool:
        """Whether both are equal."""
        return self.first == self.second


class Theme(Struct, frozen=True):
    """The facts on one theme."""

    title: str
    pairs: tuple[Pair, ...]


def compared(first: Site, second: Site) -> tuple[Theme, ...]:
    """All facts of two sites by theme, in the order of their pages."""
    tables = [_themes(first), _themes(second)]
    titles = dict.fromkeys([*tables[0], *tables[1]])
    return tuple(Theme(title, _pairs(*(table.get(title, {}) for table in tables))) for title in titles)


def _themes(site: Site) -> dict[str, dict[str, str]]:
    themes = {section.title: _rows(section) for section in sections(site)}
    return {"Overview": _line(overview(site)), **themes}


def _line(facts: Overview) -> dict[str, str]:
    return {
        "GPUs": ", ".join(facts.gpu_types),
        "GPUs of a node": ", ".join(map(str, facts.gpus_per_node)),
        "container engines": ", ".join(facts.engines),
        "longest time": facts.max_time,
        "newest source": facts.newest_source,
    }


def _rows(section: Section) -> dict[str, str]:
    """The facts of a table by name; those of one name together."""
    rows: dict[str, str] = {}
    for row in section.rows:
        before = f"{rows[row.cells[0]]}; " if row.cells[0] in rows else ""
        rows[row.cells[0]] = before + (plain(section, row) or "listed")
    return rows


def _pairs(first: dict[str, str], second: dict[str, str]) -> tuple[Pair, ...]:
    names = dict.fromkeys([*first, *second])
    return tuple(Pair(name, first.get(name, ""), second.get(name, "")) for name in names)
