"""Read TOML into structs; an error names its line."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_origin

import msgspec

from slurmgen.errors import ConfigError, did_you_mean
from slurmgen.files import MAX_TEXT, read_text, require_private


def field_notes(kind: type) -> dict[str, str]:
    """The description of each field of a class, inherited ones too."""
    return {name: note for base in reversed(kind.__mro__) for name, note in _own_notes(base).items()}


def _own_notes(kind: type) -> dict[str, str]:
    if not kind.__module__.startswith("slurmgen."):
        return {}
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)  # noqa: S101
    notes = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                notes[name] = text
    return notes


_AT = r"(?s)^(?P<fact>.*?)(?: - at (?P<key>`key` in )?`\$(?P<place>[^`]*)`)?$"
_ANY_VALUE = "[...]"
_ANY_KEY = "[key]"
_STEP = r"\[\.\.\.\]|\[key\]|\[\d+\]|[^.\[]+"
_UNKNOWN = r"unknown field `(?P<name>[^`]*)`"
_LONGEST = 200
"Characters of a value in a message."


class Problem(NamedTuple):
    """A wrong key or value."""

    keys: Sequence[str]
    "The keys that lead to it; none if they are not known."
    fact: str
    hint: str


def shortened(text: str) -> str:
    """A text, cut to fit in a message."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def explained(message: str, data: Any, kind: Any) -> Problem:
    """The problem in parsed TOML that a message of msgspec describes."""
    match = re.match(_AT, message)
    assert match is not None  # noqa: S101  (the pattern matches any text)
    place = (match["place"] or "") + (_ANY_KEY if match["key"] else "")
    try:
        keys, kind, value = _walk(place, data, kind)
    except (LookupError, AttributeError, TypeError, StopIteration):  # a key looks like msgspec's notation
        return Problem((), message, "Correct that key.")
    if unknown := re.search(_UNKNOWN, match["fact"]):
        keys.append(unknown["name"])
        known = getattr(_struct_in(kind), "__struct_fields__", ())
        return Problem(keys, f"unknown key {'.'.join(keys)}", did_you_mean(unknown["name"], known))
    name = ".".join(keys) or "the file"
    if match["key"]:
        return Problem(keys, f"{name}: {_invalid(keys[-1], kind)}", "Correct that key.")
    return Problem(keys, f"{name}: {_fact(match['fact'], kind, value)}", "Correct that value.")


_TYPES = {
    "int": "a whole number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def _fact(message: str, kind: Any, value: Any) -> str:
    if choices := _choices(kind):
        wrong = [item for item in value if item not in choices] if isinstance(value, list) else [value]
        return f"{', '.join(map(_shown, wrong))} is none of {', '.join(choices)}"
    if message.startswith("Object missing"):
        return "a key is missing: " + message.rpartition(" ")[2].strip("`")
    if "matching regex" in message:
        return _invalid(value, kind)
    words = re.sub(r"`([^`]*)`", lambda found: _in_words(found[1]), message)
    return f"{words[:1].lower()}{words[1:]}: {_shown(value)}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _invalid(value: Any, kind: Any) -> str:
    """The message for a text that does not match its pattern, with the pattern's description."""
    description = _description(kind)
    items = value if isinstance(value, list | tuple) else [value]
    shown = ", ".join(repr(_without_value(item)) for item in items)
    return f"{shown} is not valid" + (f"; it must be {description}" if description else "")


def _without_value(item: Any) -> Any:
    """`NAME=VALUE` as `NAME=...`: where a name is expected, the value may be a secret."""
    return re.sub(r"(?s)=.+", "=...", item) if isinstance(item, str) else item


def _description(kind: Any) -> str | None:
    found = [meta.description for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    inner = (_description(arg) for arg in getattr(kind, "__args__", ()) if arg is not Ellipsis)
    return next(filter(None, [*found, *inner]), None)


def _in_words(types: str) -> str:
    """`int | null` as `a whole number`."""
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | ") if name != "null")


def _choices(kind: Any) -> tuple[str, ...]:
    options = [arg for arg in getattr(kind, "__args__", ()) if arg not in (type(None), Ellipsis)]
    if options and all(isinstance(option, str) for option in options):
        return tuple(options)
    return _choices(options[0]) if len(options) == 1 else ()


def _walk(place: str, data: Any, kind: Any) -> tuple[list[str], Any, Any]:
    """The keys of a place in msgspec's notation, with the expected type and the value.

    msgspec writes `[...]` for any value of a table; it is the value that is not valid by itself.
    """
    keys = []
    for step in re.findall(_STEP, place):
        if step == _ANY_KEY:
            step = next(key for key in data if not _fits(key, kind.__args__[0]))
        elif step == _ANY_VALUE:
            kind = kind.__args__[-1]
            step = next((key for key, value in data.items() if not _fits(value, kind)), step)
        elif step.startswith("["):
            if not hasattr(item := _item_of(kind), "__struct_fields__"):
                break  # an item of a list; its key suffices
            kind, data = item, data[int(step[1:-1])]
            continue
        else:
            fields = msgspec.structs.fields(_struct_in(kind))
            kind = next(field.type for field in fields if field.name == step)
        data = data.get(step) if isinstance(data, dict) else None
        keys.append(step)
    return keys, kind, data


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _item_of(kind: Any) -> Any:
    lists = (one for one in (kind, *getattr(kind, "__args__", ())) if get_origin(one) in (list, tuple))
    return next((one.__args__[0] for one in lists), None)


def _struct_in(kind: Any) -> Any:
    options = [arg for arg in getattr(kind, "__args__", ()) if hasattr(arg, "__struct_fields__")]
    return options[0] if options else kind


MAX_PARTS = 16
"Parts of a dotted key. tomllib's time grows with their square, and with them times the lines of a table."

# Possessive quantifiers, and strings that need no end, keep the time linear in the size of any text.
_KEY = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_FURTHER = rf"(?:[ \t]*+\.[ \t]*+{_KEY})"
_TOO_DEEP = re.compile(rf"(?:^|[\[{{,])[ \t]*+{_KEY}{_FURTHER}{{{MAX_PARTS}}}", re.MULTILINE)
# Compiled where they are used: only an error needs them.
_HEAD = rf"[ \t]*+(?P<table>\[?)\[?[ \t]*+(?P<key>{_KEY}{_FURTHER}*+)"
_INLINE_TABLE = r"[ \t]*=[ \t]*\{"
_STRUCTURE = (
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{0,5}'
    r"|'''(?:[^']|'(?!''))*+'{0,5}"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|[\[{\]}\n]"
)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


def is_too_deep(text: str) -> bool:
    """Whether a dotted key has more than `MAX_PARTS` parts."""
    return _TOO_DEEP.search(text) is not None


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """The line of the first statement that defines a key, something in it or the inline table around it.

    Args:
        keys: the key after all its tables.

    Returns:
        None if there is no such statement.
    """
    wanted = tuple(keys)
    table: tuple[str, ...] | None = ()
    pattern, inline_table = re.compile(_HEAD), re.compile(_INLINE_TABLE)
    for start, line in _statements(text):
        head = pattern.match(text, start)
        if head is None:  # blank, or a comment
            continue
        if head["table"]:
            path = table = _path((), head["key"], wanted)
        else:
            path = None if table is None else _path(table, head["key"], wanted)
        if path and (len(path) >= len(wanted) or inline_table.match(text, head.end())):
            return line
    return None


def table_statements(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each statement, blank line or comment of valid TOML with the table that it is in or begins."""
    table: tuple[str, ...] = ()
    pattern = re.compile(_HEAD)
    starts = [start for start, _ in _statements(text)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        head = pattern.match(text, start)
        if head is not None and head["table"]:
            table = tuple(_parts(head["key"]))
        if end > start:
            yield table, text[start:end]


def _path(table: tuple[str, ...], key: str, wanted: tuple[str, ...]) -> tuple[str, ...] | None:
    following = wanted[len(table)]
    if following not in key and "\\" not in key:  # most keys end here
        return None
    path = (*table, *_parts(key))
    return path if all(one == other for one, other in zip(path, wanted, strict=False)) else None


def _parts(key: str) -> list[str]:
    if '"' not in key and "'" not in key:
        return [part.strip() for part in key.split(".")]
    parts = []
    data: Any = tomllib.loads(f"{key} = 0")
    while isinstance(data, dict):
        ((part, data),) = data.items()
        parts.append(part)
    return parts


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Where each statement, blank line or comment starts, and its line."""
    start, line, lines, depth = 0, 1, 1, 0
    for match in re.finditer(_STRUCTURE, text, re.DOTALL):
        part = match[0]
        lines += part.count("\n")
        depth += _DEPTH.get(part, 0)
        if part == "\n" and depth == 0:
            yield start, line
            start, line = match.end(), lines
    yield start, line


T = TypeVar("T")
_MOST_PROBLEMS = 20
"Errors of one file that are reported at once; finding each takes a pass over the file."
_PLAIN_HINT = f"It must be a regular file in UTF-8 of at most {MAX_TEXT:,} bytes that you may read."


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    text = _text(path)
    if is_too_deep(text):
        raise ConfigError(f"{path}: a key has more than {MAX_PARTS} parts", "Remove it.")
    try:
        data = tomllib.loads(text)
        msgspec.msgpack.encode(data)  # takes integers of 64 bits, as TOML has; tomllib takes any
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(path, text, str(error)) from error
    except RecursionError:
        raise ConfigError(f"{path}: lists or tables are nested too deeply", "Remove them.") from None
    except (ValueError, OverflowError):
        raise ConfigError(f"{path}: a number has more than 64 bits", "Correct that number.") from None
    return data


def _not_toml(path: Path, text: str, message: str) -> ConfigError:
    """The error for a file that tomllib refuses; its message ends with the line, or names the end."""
    found = re.search(r" \(at line ([0-9]+), (column [0-9]+)\)\Z", message)
    if found:
        line, fact = found[1], f"{message[: found.start()]} at {found[2]}"
    else:
        line, fact = str(len(text.splitlines()) or 1), message
    return ConfigError(f"{path}:{line}: it is not TOML: {shortened(fact)}", "Correct that line.")


def read_own(path: Path) -> dict[str, Any]:
    """Parse a TOML file of the user's own, which may name programs to run.

    Raises:
        ConfigError: it cannot be read or is not TOML, or another user may change it.
    """
    try:
        require_private(path)
    except OSError as error:
        raise unreadable(path, error) from None
    return read_toml(path)


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: Exception) -> ConfigError:
    """The error for a file that `slurmgen.files` could not read."""
    return ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", _PLAIN_HINT)


def located(path: Path, *places: Sequence[str]) -> str:
    """A file with the line of the first of some keys that it defines, as `FILE:LINE`."""
    text = _text(path)
    line = next((line for keys in places if (line := line_of(text, keys))), None)
    return f"{path}:{line}" if line else str(path)


def convert(data: dict[str, Any], kind: type[T], path: Path) -> T:
    """Make a struct of parsed TOML.

    Raises:
        ConfigError: a key is unknown or a value is wrong; it names both, the file and the line.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _error(explained(str(error), data, kind), path) from None


def _error(problem: Problem, path: Path) -> ConfigError:
    place = located(path, problem.keys, problem.keys[:-1] or problem.keys) if problem.keys else str(path)
    return ConfigError(f"{place}: {shortened(problem.fact)}", problem.hint)


def problems(
    data: dict[str, Any], kind: Any, path: Path, required: dict[str, Any]
) -> tuple[list[ConfigError], dict[str, Any]]:
    """Every error that `convert` would raise, one after the other, and the data without the wrong values.

    `required` has values for the keys that the struct requires.
    """
    found: list[ConfigError] = []
    data = required | data
    while True:
        try:
            msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            problem = explained(str(error), data, kind)
            keys = problem.keys
            found.append(_error(problem, path))
            if not has(data, keys) or not keys or len(found) == _MOST_PROBLEMS:
                return found, required
            data = required | _without(data, keys)
        else:
            return found, data


def _without(data: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    if len(keys) < 2:
        return {key: value for key, value in data.items() if key not in keys}
    return {**data, keys[0]: _without(data[keys[0]], keys[1:])}


def has(data: Any, keys: Sequence[str]) -> bool:
    """Whether nested tables have a value under these keys."""
    for key in keys:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True
