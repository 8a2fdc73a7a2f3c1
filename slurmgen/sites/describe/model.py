"""A table of facts. Words between backticks are code, as in Markdown."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace


class Row(Struct, frozen=True):
    """One line of a table."""

    key: str
    "The key of the fact, or of the table of the facts, in the profile."
    cells: tuple[str, ...]


class Section(Struct, frozen=True):
    """A table of facts on one theme."""

    title: str
    head: tuple[str, ...]
    "The names of the columns; empty for those that need none."
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    "What follows from the facts, in sentences."

    @property
    def wide(self) -> bool:
        """Whether the table has more than a name and a value."""
        return len(self.head) > 2


def pairs(title: str, facts: Iterable[tuple[str, str, str | int | None]]) -> Section:
    """A table of names and values; facts without a value are left out.

    Args:
        title: the theme.
        facts: key, name and value of each.
    """
    rows = (Row(key, (name, str(value))) for key, name, value in facts if value not in ("", None))
    return Section(title, ("", ""), tuple(rows))


def code(*words: str) -> str:
    """Each word as code.

    >>> print(code("a=1", "b=2"))
    `a=1` `b=2`
    """
    return " ".join(f"`{word}`" for word in words)


def codes(words: Iterable[str]) -> str:
    """Each word as code, with commas."""
    return ", ".join(f"`{word}`" for word in words)


def plain(section: Section, row: Row) -> str:
    """The facts of a row in one line, without its name, such as `CPUs: 16, memory: 64G`."""
    named = zip(section.head[1:], row.cells[1:], strict=True)
    return ", ".join(f"{head}: {cell}" if head else cell for head, cell in named if cell)


def without_empty_columns(section: Section) -> Section:
    """The table without the columns that have no value; the first two stay."""
    columns = [n for n in range(len(section.head)) if n < 2 or any(row.cells[n] for row in section.rows)]
    rows = tuple(Row(row.key, tuple(row.cells[n] for n in columns)) for row in section.rows)
    return replace(section, head=tuple(section.head[n] for n in columns), rows=rows)
