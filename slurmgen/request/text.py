"""A request from text and to the command line."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from msgspec import structs, to_builtins

from slurmgen.errors import FILE_ONLY, RequestError, did_you_mean, flag
from slurmgen.request.model import NONE, OnBadNode, Precision, Rendezvous, Request, Sweep, text_of
from slurmgen.slurm.sbatch_options import given
from slurmgen.slurm.shell import quote

OMITTED = "..."
"Replaces the value of a variable in the command of a script's header."


def command_line(
    site: str,
    request: Request,
    job: str | None = None,
    *,
    replace_args: bool = False,
    with_values: bool = False,
) -> str:
    """The slurmgen command that makes this request.

    Args:
        job: the job of slurmgen.toml, if the command names one.
        replace_args: whether `script_args` of the request replace slurmgen.toml's.
        with_values: include the values of variables, which may be secret; only for the user who set them.
    """
    values = to_builtins(request)
    if with_values and request.env:
        values["env"] = tuple([f"{name}={value}" for name, value in request.env.items()])
    return command_of(site, values, job, replace_args=replace_args)


def command_of(
    site: str, values: dict[str, Any], job: str | None = None, *, replace_args: bool = False
) -> str:
    """`command_line` for the fields that `check_form` returned, without the values of variables."""
    words = ["slurmgen render", *([quote(job)] if job else []), f"--site {site}"]
    script_args = values.get("script_args", ())
    for key, value in values.items():
        if key == "script_args" or key in FILE_ONLY:
            continue
        words += _words(key, shlex.join(value) if key == "command" else value)
    if replace_args:
        words.append("--replace-args")
    if script_args:
        words += ["--", *map(quote, script_args)]
    return " ".join(words)


def _words(key: str, value: Any) -> list[str]:
    if key == "sweep":
        return _sweep_words(value)
    if isinstance(value, bool):
        return [_switch_flag(key, value)]
    if isinstance(value, (str, int)):
        return [_option(key, value)]
    return [_option(key, text) for text in _texts(key, value)]


def _sweep_words(sweep: dict[str, Any]) -> list[str]:
    """The options of a sweep; what only slurmgen.toml can set is left out, as FILE_ONLY is."""
    grid = sweep.get("grid") or {}
    texts = [f"{name}={','.join(map(text_of, values))}" for name, values in grid.items()]
    words = [_option("sweep", text) for text in texts]
    return [*words, *([f"--sweep-limit {sweep['limit']}"] if "limit" in sweep else [])]


def _option(key: str, value: str | int) -> str:
    return f"{flag(key)} {quote(str(value))}"


def _switch_flag(key: str, on: bool) -> str:
    return flag(key) if on else flag(key).replace("--", "--no-", 1)


def _texts(key: str, value: dict[str, Any] | tuple[str, ...]) -> list[str] | tuple[str, ...]:
    if value == ():
        return (NONE,)
    if key == "sbatch" and isinstance(value, dict):
        return [f"{name}={text}" if text else name for name, text in given(value).items()]
    if isinstance(value, dict):
        # A value may be secret, and scripts with this text are checked in.
        return [f"{name}={OMITTED}" for name in value]
    return value


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


def given_fields(values: Mapping[str, Any]) -> dict[str, Any]:
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
    return structs.replace(Request(), **given_fields(with_sweep(values, limit)))


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


def _parse_switch(text: str) -> bool:
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
    **dict.fromkeys("requeue preflight label_ranks".split(), _parse_switch),
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
