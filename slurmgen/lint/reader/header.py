"""The `#SBATCH` lines of a script, read as sbatch reads them.

sbatch looks at lines that begin with `#SBATCH` until the first line that is neither blank nor a
comment. It splits each line into words by its own rules: quotes and backslashes count, nothing is
expanded, an unquoted `#` ends the line. The words of all lines form one argument list.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from slurmgen.lint.reader.source import Budget, Source, Span, TooLarge
from slurmgen.slurm import getopt

MARK = "#SBATCH"
_MARKED = re.compile(r"^#SBATCH.*\n?", re.MULTILINE)
_COMMAND = re.compile(r"^[ \t\r]*[^#\s]", re.MULTILINE)
"The first line that is neither blank nor a comment."
_LINE = 200
_CHARACTER = 10
"Steps of the budget for a directive: rules compare it with every option, and with other directives."


class Directive(NamedTuple):
    """One option of the header."""

    option: getopt.Option
    span: Span
    value_span: Span
    component: int
    "The component of a heterogeneous job that it belongs to, from 0."

    @property
    def name(self) -> str:
        """The option's long name."""
        return self.option.name

    @property
    def value(self) -> str:
        """Its value; empty if it has none."""
        return self.option.value or ""


class Broken(NamedTuple):
    """A directive that sbatch cannot read."""

    span: Span
    why: str


class Header(NamedTuple):
    """The requests of a script to sbatch."""

    directives: tuple[Directive, ...]
    strays: tuple[Span, ...]
    "Words that are not options."
    broken: tuple[Broken, ...]
    late: tuple[Span, ...]
    "Lines after the first command, which sbatch ignores."
    end: int
    "The offset of the line of the first command."
    components: int

    def last(self, *names: str) -> Directive | None:
        """The last directive of the first of these options that is set."""
        found = (d for name in names for d in reversed(self.directives) if d.name == name)
        return next(found, None)

    def value(self, name: str) -> str | None:
        """The value that applies to an option; None if it is not set."""
        found = self.last(name)
        return found.value if found else None

    @property
    def appends_to_logs(self) -> bool:
        """Whether Slurm keeps what the log files contain."""
        return (self.value("open-mode") or "").startswith("a")


_OTHER_MARKS = {
    "PBS": r"#PBS\s+-",
    "Grid Engine": r"#\$\s+-[A-Za-z]",
    "LSF": r"#BSUB\s+-",
    "Flux": r"#\s*(?:flux|FLUX):\s*-",
    "Cobalt": r"#COBALT\s+-",
    "Moab": r"#MSUB\s+-",
    "OAR": r"#OAR\s+-",
    "Fujitsu TCS": r"#PJM\s+-",
    "LoadLeveler": r"#\s?@\s*job_\w+\s*=",
}
_OTHER = re.compile("|".join(f"^(?P<_{i}>{mark})" for i, mark in enumerate(_OTHER_MARKS.values())), re.M)


def other_scheduler(text: str) -> tuple[str, Span] | None:
    """The scheduler, other than Slurm, that a script is for, and its first directive."""
    found = None if _MARKED.search(text) else _OTHER.search(text)
    if found is None:
        return None
    return [*_OTHER_MARKS][int((found.lastgroup or "_0")[1:])], Span(*found.span())


class _Token(NamedTuple):
    text: str
    span: Span
    component: int


def read_header(source: Source, budget: Budget) -> Header:
    """The header of a script, or as much of it as the budget allows."""
    command = _COMMAND.search(source.plain)
    end = command.start() if command else len(source.plain)
    marked = list(_affordable(source.plain, budget))
    tokens, broken, components = _tokens(source.plain, [span for span in marked if span.start < end])
    directives, strays = _options(tokens)
    late = tuple(Span(span.start, _trimmed(source.plain, span)) for span in marked if span.start >= end)
    return Header(directives, strays, tuple(broken), late, end, components)


def _affordable(text: str, budget: Budget) -> Iterator[Span]:
    """The lines that begin with #SBATCH."""
    for match in _MARKED.finditer(text):
        try:
            budget.spend(_LINE + _CHARACTER * (match.end() - match.start()))
        except TooLarge:
            return
        yield Span(*match.span())


def _trimmed(text: str, span: Span) -> int:
    return span.start + len(text[slice(*span)].rstrip())


def _tokens(text: str, lines: list[Span]) -> tuple[list[_Token], list[Broken], int]:
    tokens: list[_Token] = []
    broken: list[Broken] = []
    component = 0
    for line in lines:
        body = text[line.start + len(MARK) : line.end]
        if re.fullmatch(r"\s*(hetjob|packjob)\s*(#.*)?\s*", body):
            component += 1
            continue
        words, why = split_words(body)
        if why:
            broken.append(Broken(Span(line.start, _trimmed(text, line)), why))
            continue
        start = line.start + len(MARK)
        tokens += [_Token(word, Span(start + a, start + b), component) for word, a, b in words]
    return tokens, broken, component + 1


_QUOTED = re.compile(
    r"""(?P<q>["'])(?P<body>(?:\\.|(?!(?P=q))[^\\\n])*)(?P=q)|\\(?P<one>\S?)|(?P<plain>[^\s#"'\\])"""
)


def split_words(line: str) -> tuple[list[tuple[str, int, int]], str]:
    """The words of a directive with their positions, and the error in the line, if any."""
    if line.startswith(":"):
        return [], "sbatch takes no `:` after #SBATCH"
    words: list[tuple[str, int, int]] = []
    at = 0
    while at < len(line):
        start, text = at, ""
        while match := _QUOTED.match(line, at):
            text += (
                re.sub(r"\\(.)", r"\1", match["body"]) if match["q"] else match["one"] or match["plain"] or ""
            )
            at = match.end()
        if at > start:
            words.append((text, start, at))
        elif line[at] == "#":
            return words, ""
        elif line[at] in "\"'":
            return words, f"the quote {line[at]} is never closed"
        else:
            at += 1
    return words, ""


def _options(tokens: list[_Token]) -> tuple[tuple[Directive, ...], tuple[Span, ...]]:
    """The options, and the other words. sbatch stops at the first other word; the linter continues."""
    words = [token.text for token in tokens]
    directives: list[Directive] = []
    strays: list[Span] = []
    at = 0
    while at < len(words):
        found, at = getopt.parse(words, getopt.SBATCH, at)
        directives += [_directive(option, tokens) for option in found]
        if at < len(words):
            strays.append(tokens[at].span)
            at += 1
    return tuple(directives), tuple(strays)


def _directive(option: getopt.Option, tokens: list[_Token]) -> Directive:
    first, last = tokens[option.at], tokens[option.value_at]
    start = last.span.start
    if option.at == option.value_at and option.value is not None:
        start = max(start, last.span.end - len(option.value))
    return Directive(
        option, Span(first.span.start, last.span.end), Span(start, last.span.end), first.component
    )
