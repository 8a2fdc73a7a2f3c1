"""Writing a job into slurmgen.toml; everything else in the file stays as it is, comments included."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from slurmgen.config.project import FILE_NAME, Job, Project
from slurmgen.errors import ConfigError, RequestError
from slurmgen.request import Request
from slurmgen.text import toml_key, toml_value, visible
from slurmgen.toml_lines import table_statements
from slurmgen.toml_structs import convert

_SHORT = 90
"Characters of a list that is written in one line."


def table_of(name: str, request: Request, origin: str = "") -> str:
    """The table of a job, with a comment on where it comes from."""
    values: dict[str, Any] = to_builtins(request)
    if values.get("name") == name:
        del values["name"]
    comment = f"  # adopted from {visible(origin)}" if origin else ""
    lines = [
        f"[job.{toml_key(name)}]{comment}",
        *(f"{key} = {_value(value)}" for key, value in values.items()),
    ]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    text = toml_value(value)
    if not isinstance(value, list | tuple) or len(text) <= _SHORT:
        return text
    return "\n".join(["[", *(f"    {toml_value(item)}," for item in value), "]"])


def with_job(text: str, name: str, table: str, path: Path, *, replace: bool = False) -> str:
    """A slurmgen.toml with one more job, at its end.

    Args:
        text: the file; empty for a new one.
        name: the name of the job.
        table: what `table_of` returned.
        path: the file, for errors.
        replace: replace a job of that name.

    Raises:
        RequestError: there is a job of that name.
        ConfigError: a table cannot be added to the file.
    """
    has_job = name in tomllib.loads(text).get("job", {})
    if has_job and not replace:
        raise RequestError(
            f"{FILE_NAME} has a job {name!r} already", "Name another with --name, or replace it with --force."
        )
    kept = "".join(_without(text, name)) if has_job else text
    made = f"{kept.rstrip()}\n\n{table}" if kept.strip() else table
    try:
        found = convert(tomllib.loads(made), Project, path)
    except tomllib.TOMLDecodeError:
        found = Project()
    if found.job.get(name, Job()) != _job_of(table, path).job[name]:
        raise ConfigError(
            f"{path}: a table [job.{toml_key(name)}] cannot be added to it",
            "Write each job as a table of its own, [job.NAME].",
        )
    return made


def _job_of(table: str, path: Path) -> Project:
    return convert(tomllib.loads(table), Project, path)


def _without(text: str, name: str) -> Iterator[str]:
    """The parts of the file without the statements of a job; comments stay."""
    for table, statement in table_statements(text):
        is_comment = not statement.strip() or statement.lstrip().startswith("#")
        if is_comment or table[:2] != ("job", name):
            yield statement
