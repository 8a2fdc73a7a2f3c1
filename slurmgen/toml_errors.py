"""What is wrong with parsed TOML: msgspec's message in plain words."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, get_origin

import msgspec

from slurmgen.errors import did_you_mean

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
    """msgspec's message in plain words, with the value."""
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
    """A value as TOML writes it, where Python writes another word."""
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
    """The description of a type's pattern, also within `list` and `Type | None`."""
    found = [meta.description for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    inner = (_description(arg) for arg in getattr(kind, "__args__", ()) if arg is not Ellipsis)
    return next(filter(None, [*found, *inner]), None)


def _in_words(types: str) -> str:
    """`int | null` as `a whole number`."""
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | ") if name != "null")


def _choices(kind: Any) -> tuple[str, ...]:
    """The words of a Literal, also within `Literal | None`."""
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
    """The type of the items in `list[Item]` or `tuple[Item, ...] | None`; None for another type."""
    lists = (one for one in (kind, *getattr(kind, "__args__", ())) if get_origin(one) in (list, tuple))
    return next((one.__args__[0] for one in lists), None)


def _struct_in(kind: Any) -> Any:
    """The struct in `Struct | None`; anything else as it is."""
    options = [arg for arg in getattr(kind, "__args__", ()) if hasattr(arg, "__struct_fields__")]
    return options[0] if options else kind
