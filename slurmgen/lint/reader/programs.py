"""Programs that srun, mpirun or a container starts, besides launchers, Python and shells."""

import re
from collections.abc import Iterator, Sequence

from slurmgen.lint.reader.budget import Budget, TooLarge
from slurmgen.lint.reader.commands import Command
from slurmgen.lint.reader.launch import LAUNCH, MOST_LAYERS, Launch, Layer, Options
from slurmgen.lint.reader.launchers import PROGRAMS, SHELLS, UTILITIES, WRAPPERS, program_name
from slurmgen.lint.reader.options import read_options
from slurmgen.lint.reader.words import Word

_IMAGE_VERBS = frozenset("build image import load pull".split())

_STARTERS = PROGRAMS | {
    name for name, wrapper in WRAPPERS.items() if wrapper.kind not in ("env", "eval", "ssh", "uv")
}


def other_program(command: Command, env: dict[str, str], budget: Budget) -> Iterator[Launch]:
    """Any other program that srun, mpirun or a container starts, unless it is a utility.

    Raises:
        TooLarge: the budget is exhausted.
    """
    if command.name not in _STARTERS:
        return
    words: Sequence[Word] = command.words
    layers: list[Layer] = []
    while words and (name := program_name(words[0].text)) in WRAPPERS:
        wrapper, first = WRAPPERS[name], words[0]
        options, at = read_options(words, wrapper.syntax, 1, budget)
        if wrapper.verbs and at < len(words) and words[at].text in wrapper.verbs:
            options, at = read_options(words, wrapper.syntax, at + 1, budget)
        layers.append(Layer(wrapper.kind, first, options))
        words = words[at + wrapper.operands :]
        if len(layers) >= MOST_LAYERS:
            raise TooLarge
    budget.spend(LAUNCH)
    if words and not _is_utility(words):
        options = Options({}, open=True)
        yield Launch("program", words[0], words[0].span.end, options, None, tuple(layers), command, env)


def _is_utility(words: Sequence[Word]) -> bool:
    """Whether a program is a utility, or a shell that runs only utilities."""
    name = program_name(words[0].text)
    texts = [word.text for word in words[1:3]]
    if name in SHELLS and len(texts) > 1 and re.fullmatch(r"-\w*c", texts[0]):
        parts = [part.split() for part in re.split(r"[;&|\n]+", texts[1]) if part.strip()]
        return all(program_name(part[0]) in UTILITIES or _is_for_images(part) for part in parts)
    return name in UTILITIES


def _is_for_images(words: Sequence[str]) -> bool:
    """Whether a container engine fetches or looks up an image, as in `podman pull IMAGE`."""
    return program_name(words[0]) in WRAPPERS and len(words) > 1 and words[1] in _IMAGE_VERBS
