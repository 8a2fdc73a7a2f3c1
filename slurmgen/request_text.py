"""A request from texts, as users type them: options of the command line, and fields of a form."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from msgspec import structs

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.field_names import FILE_ONLY
from slurmgen.request import NONE, OnBadNode, Precision, Rendezvous, Request
from slurmgen.request_command import OMITTED
from slurmgen.sweep import Sweep

Parse = Callable[[str], Any]
"How a text becomes a value; it raises ValueError if the text is none."


def variables(words: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` words as a dict.

    Raises:
        ValueError: a word is of another form.
    """
    pairs = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ValueError(f"{text!r} is not KEY=VALUE.")
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"{name!r} is not a valid variable name.")
        if value == OMITTED:
            raise ValueError(f"{text!r} has no value; a script's header omits it.")
        pairs[name] = value
    return pairs


def command_words(text: str) -> tuple[str, ...]:
    """The words of a command, which a shell would read in the same way.

    Raises:
        ValueError: a quote is not closed, or there is no word.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a command: {error}.") from None
    if not words:
        raise ValueError("it is empty.")
    return words


def sbatch_options(words: Iterable[str]) -> dict[str, str | bool]:
    """`KEY=VALUE` words, or a KEY alone for an option without a value, as a dict.

    Raises:
        ValueError: a word is of another form.
    """
    found: dict[str, str | bool] = {}
    for text in words:
        key, equals, value = text.partition("=")
        if not key or (equals and not value):
            raise ValueError(f"{text!r} is neither KEY=VALUE nor KEY.")
        found[key] = value if equals else True
    return found


def grid(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`NAME=V,V` words as the grid of a sweep.

    Raises:
        ValueError: a word is of another form, or a name is there twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ValueError(f"{text!r} is not NAME=VALUE,VALUE.")
        if name in found:
            raise ValueError(f"{name} is there twice.")
        found[name] = tuple(value.split(","))
    return found


def with_sweep(values: dict[str, Any], limit: int | None) -> dict[str, Any]:
    """The fields of a request with its sweep instead of the sweep's grid."""
    parameters = values.get("sweep") or None
    has_sweep = parameters is not None or limit is not None
    return values | {"sweep": Sweep(grid=parameters, limit=limit) if has_sweep else None}


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value; `none` alone in a list means an empty list."""
    found = {key: value for key, value in values.items() if value not in (None, ())}
    return {key: () if value == (NONE,) else value for key, value in found.items()}


def request_of(texts: Mapping[str, str]) -> Request:
    """The request of a form, as the same texts make it on the command line.

    Args:
        texts: the text of each field, one value per line for a field with several; an empty one is not set.

    Raises:
        RequestError: there is no such field, or a text is not a value of it.
    """
    values = {name: _parsed(name, text) for name, text in texts.items() if text or name not in FIELDS}
    limit = values.pop("sweep_limit", None)
    return structs.replace(Request(), **given(with_sweep(values, limit)))


def _parsed(name: str, text: str) -> Any:
    if name not in FIELDS:
        raise RequestError(f"a form has no field {name!r}", did_you_mean(name, FIELDS), name)
    try:
        return FIELDS[name](text)
    except ValueError as error:
        raise RequestError(str(error), field=name) from None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid integer.") from None


def _switch(text: str) -> bool:
    return bool(_choice("yes", "no")(text) == "yes")


def _choice(*names: str) -> Parse:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"{text!r} is not one of {', '.join(map(repr, names))}.")
        return text

    return parse


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in re.split(r"\r\n|\n", text) if line)


def _each_line(parse: Callable[[tuple[str, ...]], Any]) -> Parse:
    return lambda text: parse(_lines(text))


def _arguments(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a list of arguments: {error}.") from None


_PARSE: dict[str, Parse] = {
    **dict.fromkeys(
        "gpus nodes cpus_per_gpu cpus ntasks_per_node segments sweep_limit".split(),
        _number,
    ),
    **dict.fromkeys("requeue preflight label_ranks".split(), _switch),
    **dict.fromkeys("binds secrets not_secret modules launcher_args exclude".split(), _lines),
    "rendezvous": _choice(*get_args(Rendezvous)),
    "mixed_precision": _choice(*get_args(Precision)),
    "on_bad_node": _choice(*get_args(OnBadNode)),
    "env": _each_line(variables),
    "sbatch": _each_line(sbatch_options),
    "sweep": _each_line(grid),
    "command": command_words,
    "script_args": _arguments,
}
"How the text of a field is read; any other field is that text."

FIELDS: dict[str, Parse] = {
    name: _PARSE.get(name, str)
    for name in (*Request.__struct_fields__, "sweep_limit")
    if name not in FILE_ONLY
}
"How a form's text of each field is read."
