"""The format `text`: for each finding the line, carets under the fault, and the advice."""

from collections.abc import Sequence

from slurmgen.lint.finding import Report
from slurmgen.lint.reader.source import Source
from slurmgen.lint.reports.base import Linted
from slurmgen.text import counted, visible

_COLUMNS = 140


def report(files: Sequence[Linted]) -> str:
    """All findings, and their number."""
    blocks = [block for file in files for block in _of_file(file)]
    return "\n".join([*blocks, _summary(files)]) + "\n"


def _of_file(file: Linted) -> list[str]:
    source = Source(file.text)
    return [_block(file.name, source, found) for found in file.reports]


def _block(name: str, source: Source, found: Report) -> str:
    line, column = found.start
    place = f"{visible(name)}:{line}:{column}"
    lines = [
        f"{place}: {found.rule.severity} {found.rule.code} {visible(found.finding.message)}",
        *_excerpt(source, found),
    ]
    if found.finding.advice:
        lines.append(f"  = {visible(found.finding.advice)}")
    return "\n".join(lines) + "\n"


def _excerpt(source: Source, found: Report) -> list[str]:
    """The line, with a caret under each column of the finding."""
    text = source.line(found.start.line)[:_COLUMNS]
    before, rest = text[: found.start.column - 1], text[found.start.column - 1 :]
    if found.end.line == found.start.line:
        rest = rest[: max(found.end.column - found.start.column, 1)]
    indent, width = len(visible(before)), max(len(visible(rest)), 1)
    number = f"{found.start.line:>5} | "
    return [
        (number + visible(text))[:_COLUMNS],
        (" " * (len(number) - 2) + "| " + " " * indent + "^" * width)[:_COLUMNS],
    ]


def _summary(files: Sequence[Linted]) -> str:
    found = [item for file in files for item in file.reports]
    if not found:
        return f"{counted(len(files), 'file')}: nothing found"
    fixable = sum(bool(item.finding.edits) for item in found)
    hint = f"; {fixable} fixable with --fix" if fixable else ""
    return f"{counted(len(found), 'finding')} in {counted(len(files), 'file')}{hint}"
