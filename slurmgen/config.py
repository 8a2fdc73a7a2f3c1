"""TOML into frozen structs, with errors that name the file and the key."""

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from slurmgen.errors import ConfigError, did_you_mean

T = TypeVar("T")
_AT = re.compile(r"^(?P<fact>.*?)(?: - at (?:key in )?`\$?\.?(?P<key>.*?)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`")


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
        raise _explained(str(error), kind, path) from None


def _explained(message: str, kind: type, path: Path) -> ConfigError:
    match = _AT.match(message)
    assert match is not None  # noqa: S101  (the pattern matches any text)
    place = match["key"] or ""
    unknown = _UNKNOWN.search(match["fact"])
    if unknown:
        key = f"{place}.{unknown['name']}".lstrip(".")
        return ConfigError(
            f"{path}: unknown key {key}", did_you_mean(unknown["name"], _fields_at(kind, place))
        )
    fact = match["fact"][:1].lower() + match["fact"][1:]
    return ConfigError(f"{path}: {place or 'the file'}: {fact}", "Mend that value.")


def _fields_at(kind: Any, place: str) -> tuple[str, ...]:
    """Field names of the struct that stands at a dotted place, such as `gpu.types[...]`."""
    for step in filter(None, place.replace("[...]", ".[...]").split(".")):
        kind = _inner(kind) if step == "[...]" else _field_type(kind, step)
    return tuple(getattr(_struct_of(kind), "__struct_fields__", ()))


def _field_type(kind: Any, name: str) -> Any:
    fields = msgspec.structs.fields(_struct_of(kind))
    return next((field.type for field in fields if field.name == name), None)


def _struct_of(kind: Any) -> Any:
    """The struct in `Struct | None`."""
    options = [arg for arg in getattr(kind, "__args__", (kind,)) if arg is not type(None)]
    return options[0] if options else kind


def _inner(kind: Any) -> Any:
    """The value type of `dict[str, Struct]`."""
    return kind.__args__[-1]
