"""The slurmgen command that makes a request, for the header of its script."""

import shlex
from typing import Any

from msgspec import to_builtins

from slurmgen.field_names import FILE_ONLY, flag
from slurmgen.request import NONE, Request
from slurmgen.slurm.sbatch_options import given
from slurmgen.slurm.shell import quote
from slurmgen.sweep import text_of

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
        site: the site.
        request: the options of the command.
        job: the job of slurmgen.toml, if the command names one.
        replace_args: the request's `script_args` replace those of slurmgen.toml.
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
    """The options of one field."""
    if key == "sweep":
        return _sweep_words(value)
    if isinstance(value, bool):
        return [_switch(key, value)]
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


def _switch(key: str, on: bool) -> str:
    return flag(key) if on else flag(key).replace("--", "--no-", 1)


def _texts(key: str, value: dict[str, Any] | tuple[str, ...]) -> list[str] | tuple[str, ...]:
    """The values of an option that is repeatable."""
    if value == ():
        return (NONE,)
    if key == "sbatch" and isinstance(value, dict):
        return [f"{name}={text}" if text else name for name, text in given(value).items()]
    if isinstance(value, dict):
        # A value may be secret, and scripts with this text are checked in.
        return [f"{name}={OMITTED}" for name in value]
    return value
