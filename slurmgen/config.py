"""TOML into frozen structs, with errors that name the file and the key."""

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from slurmgen.errors import ConfigError, did_you_mean

T = TypeVar("T")
_AT = r"(?s)^(?P<fact>.*?)(?: - at (?:`key` in )?`\$(?P<place>[^`]*)`)?$"
_ANY_KEY = "[...]"
_STEP = r"\[\.\.\.\]|\[\d+\]|[^.\[]+"
_UNKNOWN = r"unknown field `(?P<name>[^`]*)`"


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", "Mend that line.") from error


def convert(data: dict[str, Any], kind: type[T], path: Path) -> T:
    """Make a struct of parsed TOML.

    Raises:
        ConfigError: a key is unknown or a value is wrong; it names both and the file.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), data, kind, path) from None


def _explained(message: str, data: Any, kind: Any, path: Path) -> ConfigError:
    match = re.match(_AT, message)
    assert match is not None  # noqa: S101  (the pattern matches any text)
    place, kind = _walk(match["place"] or "", data, kind)
    unknown = re.search(_UNKNOWN, match["fact"])
    if unknown:
        key = ".".join([*place, unknown["name"]])
        known = getattr(kind, "__struct_fields__", ())
        return ConfigError(f"{path}: unknown key {key}", did_you_mean(unknown["name"], known))
    fact = match["fact"][:1].lower() + match["fact"][1:]
    return ConfigError(f"{path}: {'.'.join(place) or 'the file'}: {fact}", "Mend that value.")


def _walk(place: str, data: Any, kind: Any) -> tuple[list[str], Any]:
    """The keys of a place in msgspec's notation, and the type that stands there.

    msgspec writes `[...]` for any key of a table; the one meant is the one that fails by itself.
    """
    keys = []
    for step in re.findall(_STEP, place):
        if step == _ANY_KEY:
            kind = kind.__args__[-1]
            step = next((key for key, value in data.items() if not _fits(value, kind)), step)
        elif step.startswith("["):
            break  # an item of a list; its key says enough
        else:
            fields = msgspec.structs.fields(_struct_in(kind))
            kind = next(field.type for field in fields if field.name == step)
        data = data.get(step) if isinstance(data, dict) else None
        keys.append(step)
    return keys, _struct_in(kind)


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _struct_in(kind: Any) -> Any:
    """The struct in `Struct | None`; anything else as it is."""
    options = [arg for arg in getattr(kind, "__args__", ()) if hasattr(arg, "__struct_fields__")]
    return options[0] if options else kind
