"""Launches: the commands that start ranks, and the srun, container and tools that they run under."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from slurmgen.lint.reader.budget import Budget, TooLarge
from slurmgen.lint.reader.commands import Command, Cut
from slurmgen.lint.reader.launchers import (
    CARRIERS,
    PROGRAMS,
    SHELL_OPTIONS,
    SHELLS,
    SYNTAXES,
    UTILITIES,
    WRAPPERS,
    Wrapper,
    head,
)
from slurmgen.lint.reader.shell import read_shell
from slurmgen.lint.reader.source import UNKNOWN, Span
from slurmgen.lint.reader.words import Value, Word
from slurmgen.slurm import getopt

_STARTERS = frozenset(
    name for name, wrapper in WRAPPERS.items() if wrapper.kind not in ("env", "eval", "ssh", "uv")
)
_DEEPEST = 4
"Nesting limit of strings that run strings."
_MOST_LAYERS = 40
"Limit of programs that run programs, in one command."
_LAUNCH = 100
"Steps of the budget for the rules that check a launch."
_ARGUMENT = 5
"Steps of the budget for an argument of a training script, which several rules read."
_OPTION = 10
"Steps of the budget for a word of options, besides one for each letter."


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


_IMAGE_VERBS = frozenset("build image import load pull".split())


class _Scene(NamedTuple):
    """The position in a command."""

    command: Command
    known: dict[str, Value]
    "What Slurm sets in every step."
    budget: Budget
    layers: tuple[Layer, ...] = ()
    env: dict[str, str] = {}
    depth: int = 0
    incomplete: bool = False
    "Whether the command has further words that are not known."

    def within(self, layer: Layer, env: dict[str, str]) -> "_Scene":
        """The position in the program that this one runs."""
        if len(self.layers) >= _MOST_LAYERS:
            raise TooLarge
        self.budget.spend(len(env))
        return self._replace(layers=(*self.layers, layer), env=env)


def read_launches(commands: Sequence[Command], known: dict[str, Value], budget: Budget) -> Iterator[Launch]:
    """The launches of a script; `known` are the variables that Slurm sets in every step.

    Raises:
        TooLarge: the budget is exhausted.
    """
    for command in commands:
        if command.words and head_or_wrapper(command):
            budget.spend(len(command.exported))
            env = {**command.exported, **command.env}
            scene = _Scene(command, known, budget, env=env, incomplete=command.incomplete)
            found = False
            for launch in _unwrap(command.words, scene):
                budget.spend(_LAUNCH)
                found = True
                yield launch
            if not found and (command.name in _STARTERS | PROGRAMS):
                yield from _program(command.words, scene)


def _program(words: Sequence[Word], scene: _Scene) -> Iterator[Launch]:
    """Any other program that srun, mpirun or a container starts, unless it is a utility."""
    layers: list[Layer] = []
    while words and (name := words[0].text.rpartition("/")[2]) in WRAPPERS:
        wrapper, first = WRAPPERS[name], words[0]
        options, at = read_options(words, wrapper.syntax, 1, scene.budget)
        if wrapper.verbs and at < len(words) and words[at].text in wrapper.verbs:
            options, at = read_options(words, wrapper.syntax, at + 1, scene.budget)
        layers.append(Layer(wrapper.kind, first, options))
        words = words[at + wrapper.operands :]
        if len(layers) >= _MOST_LAYERS:
            raise TooLarge
    scene.budget.spend(_LAUNCH)
    if words and not _is_utility(words):
        options = Options({}, open=True)
        yield Launch(
            "program", words[0], words[0].span.end, options, None, tuple(layers), scene.command, scene.env
        )


def _is_utility(words: Sequence[Word]) -> bool:
    """Whether a program is a utility, or a shell that runs only utilities."""
    name = _program_name(words[0].text)
    texts = [word.text for word in words[1:3]]
    if name in SHELLS and len(texts) > 1 and re.fullmatch(r"-\w*c", texts[0]):
        parts = [part.split() for part in re.split(r"[;&|\n]+", texts[1]) if part.strip()]
        return all(_program_name(part[0]) in UTILITIES or _is_for_images(part) for part in parts)
    return name in UTILITIES


def _is_for_images(words: Sequence[str]) -> bool:
    """Whether a container engine fetches or looks up an image, as in `podman pull IMAGE`."""
    return _program_name(words[0]) in WRAPPERS and len(words) > 1 and words[1] in _IMAGE_VERBS


def _program_name(text: str) -> str:
    return text.rpartition("/")[2]


def head_or_wrapper(command: Command) -> bool:
    """Whether a command can start ranks at all."""
    name = command.name
    is_program = name in WRAPPERS or name in SHELLS or name in PROGRAMS | CARRIERS or name.endswith(".py")
    return is_program or head(command.texts) is not None


def _unwrap(words: Sequence[Word], scene: _Scene) -> Iterator[Launch]:
    if not words:
        return
    scene.budget.spend(len(words))
    texts = [word.text for word in words]
    name = texts[0].rpartition("/")[2]
    start = head(texts)
    if start:
        yield _launch(start.kind, words, start.length, scene)
    elif name in WRAPPERS:
        yield from _unwrap_wrapper(WRAPPERS[name], words, scene)
    elif name in SHELLS:
        yield from _unwrap_shell(words, scene)
    elif name.endswith(".py"):
        yield _script_launch(words, scene)
    elif name in CARRIERS or (scene.layers and name.endswith(".sh")):
        yield from _unwrap(_carried(words), scene)


def _carried(words: Sequence[Word]) -> Sequence[Word]:
    """The words from the first launcher, Python or `bash -c` on that is an argument of another program."""
    texts = [word.text for word in words]
    for at in range(1, len(texts)):
        is_shell = texts[at].rpartition("/")[2] in SHELLS and texts[at + 1 : at + 2] == ["-c"]
        if is_shell or head(texts[at:]):
            return words[at:]
    return ()


def _unwrap_wrapper(wrapper: Wrapper, words: Sequence[Word], scene: _Scene) -> Iterator[Launch]:
    at = 1
    if wrapper.verbs:
        at = next((i for i, word in enumerate(words) if word.text in wrapper.verbs), len(words)) + 1
    options, at = read_options(words, wrapper.syntax, at, scene.budget, through=not wrapper.operands)
    env = dict(scene.env)
    while wrapper.takes_env and at < len(words) and "=" in words[at].text:
        name, _, value = words[at].text.partition("=")
        env[name] = value
        at += 1
    layer = Layer(wrapper.kind, words[0], options)
    rest, inner = words[at + wrapper.operands :], scene.within(layer, env)
    if wrapper.joins and rest and scene.depth < _DEEPEST:
        yield from _run_text(" ".join(word.text for word in rest), rest[0], inner, scene.known)
    else:
        yield from _unwrap(rest, inner)


def _unwrap_shell(words: Sequence[Word], scene: _Scene) -> Iterator[Launch]:
    """The string of `bash -c STRING NAME ARG...`; a script file is unknown."""
    texts = [word.text for word in words]
    at = next(
        (
            i
            for i, text in enumerate(texts)
            if text.startswith("-") and not text.startswith("--") and "c" in text
        ),
        0,
    )
    if not at or at + 1 >= len(words) or scene.depth >= _DEEPEST:
        return
    options, _ = read_options(words, SHELL_OPTIONS, 1, scene.budget)
    inner = scene.within(Layer("shell", words[0], options), scene.env)
    variables = {**scene.known, **_arguments(tuple(texts[at + 3 :]))}
    yield from _run_text(words[at + 1].text, words[at + 1], inner, variables, _settings(texts[at]))


def _run_text(
    text: str, word: Word, scene: _Scene, known: dict[str, Value], settings: tuple[str, ...] = ()
) -> Iterator[Launch]:
    """The launches in a text that the innermost layer of the scene runs as a shell script."""
    shell = read_shell(text, {**known, **scene.env}, scene.budget, _places(word), settings=settings)
    *outer, layer = scene.layers
    for index, command in enumerate(shell.commands):
        if head_or_wrapper(command):
            scene.budget.spend(index + len(command.exported) + len(scene.env))
            inner = scene._replace(
                layers=(*outer, layer._replace(before=shell.commands[:index], cuts=shell.cuts)),
                env={**scene.env, **command.exported, **command.env},
                depth=scene.depth + 1,
                incomplete=scene.incomplete or command.incomplete,
            )
            yield from _unwrap(command.words, inner)


def _settings(word: str) -> tuple[str, ...]:
    names = {"e": "errexit", "u": "nounset"}
    return tuple(names[letter] for letter in word if letter in names)


def _arguments(arguments: tuple[str, ...]) -> dict[str, Value]:
    numbered = {str(i): text for i, text in enumerate(arguments[:9], start=1)}
    return {**numbered, "@": arguments, "*": arguments}


def _places(string: Word) -> Callable[[int], Span]:
    """The offset of each character of a string in the script, or the whole span if they do not correspond."""
    at = string.literal_at
    return lambda offset: string.span if at is None else Span(at + offset, at + offset)


def _launch(kind: str, words: Sequence[Word], length: int, scene: _Scene) -> Launch:
    options, at = read_options(words, SYNTAXES[kind], length, scene.budget)
    options = options._replace(open=options.open or scene.incomplete)
    script = words[at] if at < len(words) and not (kind == "python" and "module" in options.given) else None
    after = words[at + (script is not None) :]
    scene.budget.spend(_ARGUMENT * len(after))
    return Launch(
        kind,
        words[0],
        words[length - 1].span.end,
        options,
        script,
        scene.layers,
        scene.command,
        scene.env,
        tuple(after),
    )


def _script_launch(words: Sequence[Word], scene: _Scene) -> Launch:
    """A Python script that is run by its name."""
    word, options = words[0], Options({}, open=scene.incomplete)
    return Launch(
        "python",
        word,
        word.span.end,
        options,
        word,
        scene.layers,
        scene.command,
        scene.env,
        tuple(words[1:]),
    )


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
