"""The parsed form of a shell script: its commands and its assignments, in order."""

from typing import NamedTuple

from slurmgen.lint.reader.launchers import program_name
from slurmgen.lint.reader.source import UNKNOWN, Span
from slurmgen.lint.reader.words import Range, Word

_CONDITIONAL = {"if", "else", "or", "and", "loop", "case", "function"}


class Assignment(NamedTuple):
    """A variable set by the script."""

    name: str
    value: str
    "With UNKNOWN in place of parts that the text does not determine."
    raw: str
    span: Span
    range: Range
    exported: bool
    names: frozenset[str]
    "The variables that its value uses."
    within: tuple[str, ...]
    "The commands whose output it contains."
    prefix_of: Span | None = None
    "The command that it stands in front of, if it applies to that command only."
    place: tuple[str, ...] = ()
    "The enclosing constructs, outermost first."

    @property
    def conditional(self) -> bool:
        """Whether a branch, a loop or a function contains it, so that it may not take place."""
        return bool(_CONDITIONAL & set(self.place))


class Command(NamedTuple):
    """A simple command."""

    words: tuple[Word, ...]
    span: Span
    env: dict[str, str]
    "Assignments in front of it."
    exported: dict[str, str]
    "The variables exported before it."
    settings: frozenset[str]
    "Which of errexit, nounset and pipefail are set."
    place: tuple[str, ...]
    "The enclosing constructs, outermost first: if, else, or, and, loop, function, pipe, output and so on."
    conditions: tuple[str, ...]
    "The texts of the conditions it depends on."
    incomplete: bool = False
    "Some of its words are not known, because it is cut off or cannot be parsed."

    @property
    def name(self) -> str:
        """The program's name without its folder; empty if it is not known."""
        name = program_name(self.words[0].text) if self.words else ""
        return "" if UNKNOWN in name else name

    @property
    def texts(self) -> list[str]:
        """The text of each word."""
        return [word.text for word in self.words]


class Cut(NamedTuple):
    """A place where a command ends although its author continued it on the next line."""

    span: Span
    "What ends the command."
    why: str
    "A comment, a blank line, or blanks after the backslash."


class Fault(NamedTuple):
    """Why bash cannot parse a script."""

    line: int
    message: str


class Part(NamedTuple):
    """A part of a text that a script contains, and its place."""

    text: str
    span: Span
    is_exact: bool = False
    "Whether the place has the same text."


class Document(NamedTuple):
    """A here-document."""

    parts: tuple[Part, ...]
    command: Command | None
    "The command that reads it."


class Shell(NamedTuple):
    """A whole script, or the string of a `bash -c`."""

    commands: tuple[Command, ...]
    assignments: tuple[Assignment, ...]
    comments: tuple[Span, ...]
    sourced: bool
    "It runs a file that may set variables."
    outside: tuple[Command, ...] = ()
    "The commands of branches that no job takes, such as those for the login node."
    array_copies: tuple[tuple[str, str, Span], ...] = ()
    "Arrays made of another array's bare name: the new name, the other one, and the place."
    cuts: tuple[Cut, ...] = ()
    documents: tuple[Document, ...] = ()
    has_error: bool = False
    "Some of it does not fit the grammar; bash may accept it nevertheless."
    fault: Fault | None = None
    "Why the shell cannot parse the whole script, which is then empty."
