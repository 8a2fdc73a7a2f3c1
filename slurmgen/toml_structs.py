"""TOML into frozen structs, with errors that name the file, the line and the key."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from slurmgen.errors import ConfigError
from slurmgen.files import MAX_TEXT, read_text
from slurmgen.paths import require_private
from slurmgen.toml_errors import Problem, explained, shortened
from slurmgen.toml_lines import MAX_PARTS, is_too_deep, line_of

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
    """The data without one key, or with nothing if it is at the root."""
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
