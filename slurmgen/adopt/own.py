"""A script that slurmgen rendered, as the request that made it: rendering the request again proves it."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, get_type_hints

from msgspec import convert, structs

from slurmgen.adopt.program import value_of
from slurmgen.errors import FILE_ONLY, SlurmgenError, flag
from slurmgen.launchers import LAUNCHERS
from slurmgen.render import unsigned
from slurmgen.request.model import NONE, Request, Then

Render = Callable[[Request], str]
_MADE_BY = re.compile(r"^# Made by: slurmgen render (.*)$", re.MULTILINE)
_LOGIN = re.compile(r"^# Before this job, .*\n((?:#     .*\n)+)", re.MULTILINE)
_AFTER = re.compile(
    r"^trap 'exit \"\$\(\(status \? status : \$\?\)\)\"' ERR\n(.*)^exit \"\$status\"", re.M | re.S
)
_THEN = re.compile(r"^# Then, if that has succeeded\..*\n(?:#.*\n)?((?:.*\\\n)*.*\n)", re.MULTILINE)
_FIELDS = {flag(field): field for field in Request.__struct_fields__ if field not in FILE_ONLY}
_SWITCHES = {f"--no-{name[2:]}": name for name in ("--preflight", "--requeue")}
_HINTS = get_type_hints(Request)


def site_of(text: str) -> str | None:
    """The site of a script that slurmgen rendered; None for any other script."""
    match = _MADE_BY.search(text)
    words = _words(match[1]) if match else []
    return words[words.index("--site") + 1] if "--site" in words[:-1] else None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def from_rendered(text: str, render: Render) -> Request | None:
    """The request that made a script; None if another script results from it.

    Args:
        render: makes the script of a request, with the command in its header.
    """
    match = _MADE_BY.search(text)
    if match is None:
        return None
    text = unsigned(text)
    fields = _of_command(_words(match[1]))
    if fields is None:
        return None
    try:
        request = convert(fields, Request)
        return next((one for one in _completed(request, text, render) if render(one) == text), None)
    except (SlurmgenError, ValueError):
        return None


def _of_command(words: Sequence[str]) -> dict[str, Any] | None:
    """The fields of a request that are options of a command; None if it names a job of slurmgen.toml."""
    fields: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            fields["script_args"] = list(rest)
        elif word in _SWITCHES:
            fields[_FIELDS[_SWITCHES[word]]] = False
        elif word in ("--site", "--replace-args"):
            next(rest, None) if word == "--site" else None
        elif word not in _FIELDS:
            return None
        elif word in _SWITCHES.values():
            fields[_FIELDS[word]] = True
        else:
            _add(fields, _FIELDS[word], next(rest, ""))
    return fields


def _add(fields: dict[str, Any], field: str, value: str) -> None:
    kind = str(_HINTS[field])
    if field == "command":
        fields[field] = shlex.split(value)
    elif "dict" in kind:
        name, equals, text = value.partition("=")
        fields[field] = {**fields.get(field, {}), name: text if equals else True}
    elif "tuple" in kind:
        fields[field] = [] if value == NONE else [*fields.get(field, []), value]
    else:
        fields[field] = int(value) if "int" in kind else value


def _completed(request: Request, text: str, render: Render) -> Iterator[Request]:
    """The request with what its command omits: the values of variables, and what only a file sets."""
    request = structs.replace(request, env=_values(request, text), **_around(text))
    yield request
    for further in _further(request, text, render):
        yield further
        before = _inserted(render(further), text)
        yield structs.replace(further, before=before or None)


def _values(request: Request, text: str) -> dict[str, str]:
    """The values of the variables, from the lines that export them."""
    found = {}
    for name in request.env:
        match = re.search(rf"^export (?:\w+_)?{name}=(.*)$", text, re.MULTILINE)
        found[name] = (value_of(match[1]) if match else None) or ""
    return found


def _around(text: str) -> dict[str, Any]:
    login, after = _LOGIN.search(text), _AFTER.search(text)
    found: dict[str, Any] = dict(_staged(text))
    if login:
        found["before_login"] = tuple(line[6:] for line in login[1].splitlines())
    if after:
        found["after"] = tuple(after[1].splitlines())
    return found


def _staged(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The files and archives that each node copies."""
    match = re.search(r"""stage \\"\\\$@\\"" bash (.*)$""", text, re.MULTILINE)
    words = re.findall(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""", match[1]) if match else []
    pairs = list(zip(words[::2], words[1::2], strict=False))
    for key, is_copied in {"stage": True, "stage_archives": False}.items():
        files = tuple(value_of(file) or "" for how, file in pairs if (how == "copy") is is_copied)
        if files:
            yield key, files


def _further(request: Request, text: str, render: Render) -> Iterator[Request]:
    """The request with the further steps, of every framework that they may have."""
    yield request
    steps = [_program(match[1]) for match in _THEN.finditer(text)]
    if not steps or None in steps:
        return
    for framework in (None, *LAUNCHERS):
        yield structs.replace(
            request, then=tuple(structs.replace(s, framework=framework) for s in steps if s)
        )


def _program(step: str) -> Then | None:
    """The program of a further step: the last line of its launch."""
    line = re.sub(r" \|\| status=\$\?$", "", step.rstrip().splitlines()[-1].strip())
    raw = re.findall(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""", line)
    words = [value_of(word) or "" for word in raw]
    if words[:1] == ["python"]:
        words = words[1:]
    if not words or "" in words:
        return None
    if words[0] == "-m" and len(words) > 1:
        return Then(module=words[1], script_args=tuple(words[2:]) or None)
    if words[0] == "bash" and len(words) > 1 and words[1].endswith(".sh"):
        return Then(script=words[1], script_args=tuple(words[2:]) or None)
    if words[0].endswith(".py"):
        return Then(script=words[0], script_args=tuple(words[1:]) or None)
    return Then(command=tuple(words))


def _inserted(made: str, text: str) -> tuple[str, ...]:
    """The lines that a text has and the other has not, without the blank one around them."""
    old, new = made.splitlines(), text.splitlines()
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(line for tag, _, _, a, b in codes if tag == "insert" for line in new[a:b] if line)
