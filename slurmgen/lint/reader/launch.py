"""A launch: a command that starts ranks, with its options and what it runs under."""

from typing import NamedTuple

from slurmgen.lint.reader.commands import Command, Cut
from slurmgen.lint.reader.source import UNKNOWN, Span
from slurmgen.lint.reader.words import Word


class Given(NamedTuple):
    """One option of a launch."""

    value: str
    word: Word
    "The word that holds the value."


class Options(NamedTuple):
    """The options of one program in a command."""

    given: dict[str, Given]
    open: bool
    "Whether an unknown variable may contain more of them."

    def text(self, name: str) -> str | None:
        """The value of an option, if it is given and known."""
        given = self.given.get(name)
        return None if given is None or UNKNOWN in given.value else given.value

    def number(self, name: str) -> int | None:
        """The value of an option, if it is a known number."""
        text = self.text(name)
        return int(text) if text is not None and text.isdigit() and len(text) < 16 else None

    def lacks(self, *names: str) -> bool:
        """Whether none of the options is given, for certain."""
        return not self.open and not any(name in self.given for name in names)


class Layer(NamedTuple):
    """A program that runs another one: srun, a container engine, uv, env."""

    kind: str
    word: Word
    options: Options
    before: tuple[Command, ...] = ()
    "For a `bash -c` string: the commands in it before this one."
    cuts: tuple[Cut, ...] = ()
    "For a `bash -c` string: the places where a command in it ends too early."


MOST_LAYERS = 40
"Limit of programs that run programs, in one command."
LAUNCH = 100
"Steps of the budget for the rules that check a launch."


class Launch(NamedTuple):
    """A program that starts ranks, or is one itself."""

    kind: str
    "A key of SYNTAXES, such as torchrun or python; program if it is another one."
    word: Word
    options_at: int
    "The index of its first possible option."
    options: Options
    script: Word | None
    layers: tuple[Layer, ...]
    "The outermost first."
    command: Command
    "The command of the batch script that it is part of."
    env: dict[str, str]
    "Variables that the script sets for it."
    arguments: tuple[Word, ...] = ()
    "The words after the training script."

    @property
    def step(self) -> Layer | None:
        """The srun that it runs under."""
        return next((layer for layer in self.layers if layer.kind == "srun"), None)

    def under(self, kind: str) -> Layer | None:
        """The layer of a kind, if there is one."""
        return next((layer for layer in self.layers if layer.kind == kind), None)

    @property
    def span(self) -> Span:
        """The span of its name."""
        return self.word.span
