"""The options of a program in a command."""

from collections.abc import Sequence

from slurmgen.lint.reader.budget import Budget
from slurmgen.lint.reader.launch import Given, Options
from slurmgen.lint.reader.words import Word
from slurmgen.slurm import getopt

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
