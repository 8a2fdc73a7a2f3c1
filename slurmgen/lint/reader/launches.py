"""Find the launches of a script."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from slurmgen.lint.reader.commands import Command
from slurmgen.lint.reader.launch import LAUNCH, MOST_LAYERS, Launch, Layer, Options, read_options
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
    program_name,
)
from slurmgen.lint.reader.shell import read_shell
from slurmgen.lint.reader.source import Budget, Span, TooLarge
from slurmgen.lint.reader.words import Value, Word

_DEEPEST = 4
"Nesting limit of strings that run strings."
_ARGUMENT = 5
"Steps of the budget for an argument of a training script, which several rules read."


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
        if len(self.layers) >= MOST_LAYERS:
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
                budget.spend(LAUNCH)
                found = True
                if not _only_prints(launch):
                    yield launch
            if not found and "output" not in command.place:
                yield from other_program(command, env, budget)


def _only_prints(launch: Launch) -> bool:
    """Whether Python prints a value for the script, as in `PORT=$(python -c ...)`, and starts no ranks."""
    return launch.kind == "python" and "output" in launch.command.place and launch.step is None


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
    name = program_name(texts[0])
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
        is_shell = program_name(texts[at]) in SHELLS and texts[at + 1 : at + 2] == ["-c"]
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
