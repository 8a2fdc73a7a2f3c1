"""The formats in plain text: for a terminal, and the workflow commands of GitHub."""

from collections.abc import Callable, Sequence

from slurmgen.lint.finding import Linted, Report
from slurmgen.lint.reader.source import Source
from slurmgen.text import annotation, counted, unstyled, visible

Style = Callable[..., str]

_WIDTH = 140
_CUT = "..."
_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}


def text(files: Sequence[Linted], *, style: Style = unstyled, width: int | None = None) -> str:
    """All findings, and their number; no excerpt is wider than `width`, default: 140 columns."""
    blocks = [
        _block(file.name, source, found, style, width or _WIDTH)
        for file in files
        for source in (Source(file.text),)
        for found in file.reports
    ]
    return "\n".join([*blocks, _summary(files, style)]) + "\n"


def _block(name: str, source: Source, found: Report, style: Style, width: int) -> str:
    place = f"{visible(name)}:{found.start.line}:{found.start.column}"
    color = _COLORS[found.rule.severity]
    severity = style(f"{found.rule.severity} {found.rule.code}", fg=color, bold=True)
    line, carets = _excerpt(source, found, width)
    lines = [
        f"{style(place, bold=True)}: {severity} {visible(found.finding.message)}",
        line,
        style(carets, fg=color),
    ]
    if found.finding.advice:
        lines.append(f"  = {visible(found.finding.advice)}")
    return "\n".join(lines) + "\n"


def _excerpt(source: Source, found: Report, width: int) -> tuple[str, str]:
    """The source line, and carets below the fault; a long line is cut where the fault stays in view."""
    line = source.line(found.start.line)
    number = f"{found.start.line:>5} | "
    room = max(width - len(number), 1)
    start = found.start.column - 1
    end = max(found.end.column - 1, start + 1) if found.end.line == found.start.line else len(line)
    first = max(0, min(start, end - room))
    before, fault = visible(line[first:start]), visible(line[start : min(end, first + room)])
    text = (before + fault + visible(line[end : first + room]))[:room]
    if first and len(before) >= len(_CUT):
        text = _CUT + text[len(_CUT) :]
    carets = (" " * len(before) + "^" * max(len(fault), 1))[:room]
    return number + text, " " * (len(number) - 2) + "| " + carets


def _summary(files: Sequence[Linted], style: Style) -> str:
    found = [item for file in files for item in file.reports]
    if not found:
        return style(f"{counted(len(files), 'file')}: nothing found", fg="green")
    return (
        f"{style(counted(len(found), 'finding'), bold=True)} in {counted(len(files), 'file')}{_hint(found)}"
    )


def _hint(found: list[Report]) -> str:
    """How many findings each kind of fix removes."""
    safe = sum(item.finding.safe for item in found if item.finding.edits)
    unsafe = sum(not item.finding.safe for item in found if item.finding.edits)
    parts = [f"{safe} fixable with --fix"] if safe else []
    parts += [f"{unsafe} fixable with --fix --unsafe-fixes"] if unsafe else []
    return "".join(f"; {part}" for part in parts)


def github(files: Sequence[Linted]) -> str:
    """Annotations that GitHub shows next to the lines of a pull request."""
    return "".join(_command(file.name, found) for file in files for found in file.reports)


def _command(name: str, found: Report) -> str:
    return annotation(
        "notice" if found.rule.severity == "note" else found.rule.severity,
        found.sentence,
        file=name,
        line=found.start.line,
        endLine=found.end.line,
        col=found.start.column,
        title=f"{found.rule.code} {found.rule.name}",
    )
