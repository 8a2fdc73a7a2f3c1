"""A launch: a command that starts ranks, and its options."""

from collections.abc import Sequence
from typing import NamedTuple

from slurmgen.lint.reader.commands import Command, Cut
from slurmgen.lint.reader.source import UNKNOWN, Budget, Span
from slurmgen.lint.reader.words import Word
from slurmgen.slurm import getopt


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

    def first(self, *names: str) -> Given | None:
        """The first of these options that is given."""
        return next((self.given[name] for name in names if name in self.given), None)

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

    @property
    def is_direct(self) -> bool:
        """Whether the batch shell starts it, without srun or mpirun."""
        return self.step is None and self.under("mpirun") is None

    @property
    def may_run_beside_others(self) -> bool:
        """Whether it runs in the background or in a loop."""
        return bool({"background", "loop"} & set(self.command.place))


_OPTION = 10
"Steps of the budget for a word of options, besides one for each letter."


def read_options(
    words: Sequence[Word], syntax: getopt.Syntax, at: int, budget: Budget, through: bool = True
) -> tuple[Options, int]:
    """The options from a word on, and the index of the first word that is not one.

    If a word may be any number of options, the options are incomplete; `through` continues after it.
    """
    texts = [word.text for word in words]
    budget.spend(sum(_OPTION + len(text) if text.startswith("-") else 1 for text in texts[at:]))
    given: dict[str, Given] = {}
    is_open = False
    while at < len(words):
        found, at = getopt.parse(texts, syntax, at)
        for option in found:
            given[option.name] = Given(option.value or "", words[option.value_at])
        if at >= len(words) or not words[at].loose:
            break
        is_open = True
        if not through:
            break
        at += 1
    return Options(given, is_open), at
