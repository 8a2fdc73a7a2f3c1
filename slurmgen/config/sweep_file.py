"""The parameters of a sweep in a file of the project: untrusted, so it must be a small regular file in it."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import ValidationError, convert, structs

from slurmgen.errors import ConfigError, shortened
from slurmgen.files import MAX_TEXT, read_inside
from slurmgen.sweep import ParameterName, Sweep

_Row = dict[ParameterName, str | bool]


def with_file(sweep: Sweep, folder: Path) -> Sweep:
    """The sweep with the content of its file instead of the file's name; unchanged if it names none.

    Args:
        sweep: the sweep.
        folder: the folder of the project.

    Raises:
        ConfigError: the file cannot be read, or is not a table of parameters.
    """
    if sweep.file is None or sweep.grid is not None or sweep.list is not None:
        return sweep
    path, kind = folder / sweep.file, PurePosixPath(sweep.file).suffix
    if kind not in _READERS:
        raise ConfigError(
            f"sweep.file: {sweep.file!r} is of none of the kinds {', '.join(_READERS)}",
            "Rename it, or write another.",
        )
    try:
        rows = convert(_READERS[kind](_text(folder, sweep.file)), list[_Row])
    except OSError as error:
        raise ConfigError(
            f"sweep.file: {path} cannot be read: {error.strerror or error}",
            f"It must be a regular file of the project, of at most {MAX_TEXT:,} bytes.",
        ) from None
    except (ValueError, RecursionError, csv.Error, ValidationError) as error:
        raise ConfigError(f"sweep.file: {path}: {shortened(str(error))}", _HINT) from None
    return structs.replace(sweep, file=None, list=tuple(rows))


_HINT = "Each run is a row of CSV below a header, or an object of JSON with texts, numbers and booleans."


def _text(folder: Path, name: str) -> str:
    return read_inside(folder, name).decode("utf-8-sig")


def _csv(text: str) -> list[dict[Any, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    names = list(reader.fieldnames or ())
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"the header has {twice} twice")
    rows = list(reader)
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise ValueError(f"row {number} below the header has more or fewer cells than it")
    return rows


def _json(text: str) -> Any:
    # Numbers stay as they are written: 1e-3 is not 0.001 to every program.
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has a name twice: {', '.join(name for name, _ in pairs)}")
    return found


def _json_lines(text: str) -> list[Any]:
    return [_json(line) for line in text.split("\n") if line.strip()]


_READERS: dict[str, Callable[[str], Any]] = {".csv": _csv, ".json": _json, ".jsonl": _json_lines}
