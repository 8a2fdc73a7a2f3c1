"""Secrets of a hand-written script: their values are left out before anything is made of it."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from slurmgen.adopt.program import Line
from slurmgen.secret_names import has_secret_name, in_clear, is_placeholder, keys_in

LEFT_OUT = "REDACTED"
"Instead of a value that no variable can replace."
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|\$'[^'\n]*'|(?:\\.|[^\s\\"';&|<>()`,{}])+)"""
_ASSIGNED = re.compile(rf"(?<![\w.$-])(?P<name>[A-Za-z_]\w*)\+?=(?P<value>{_VALUE}+)")
_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*):?[-=](?P<value>[^${}\n]+)\}")
_OPTION = re.compile(rf"(?<!\S)--?(?P<name>[A-Za-z][\w.-]*)[ \t=]+(?P<value>(?!-){_VALUE})")
_ENTRY = re.compile(
    r"""(?<![\w$])(?<!\$\{)["']?(?P<name>[A-Za-z_][\w-]*)["']?\]?[ \t]*[:=][ \t]*"""
    r"""(?P<value>"[^"\n]+"|'[^'\n]+'|[^\s"',]+)"""
)
"A line of YAML, JSON or Python, in a text within the script."
_NETRC = re.compile(
    r"(?:machine|login)[ \t]+\S+\s+(?:login[ \t]+\S+\s+)?(?:password|account)[ \t]+(?P<value>\S+)"
)
_LOGIN = re.compile(r"[\w-]+[ \t]+login\b[^\n;&|]*?[ \t](?P<value>(?=\S*\d)(?=\S*[A-Za-z])[\w.-]{20,})(?!\S)")
_USER = re.compile(r"(?<!\S)(?:-u|--user)[ =]?[\"']?[\w.@-]+:(?P<value>[^\s\"'$]+)")
_PASSWORD = re.compile(r"\b(?:sshpass|login)\b[^\n;&|]*?[ \t]-p[ \t]*(?P<value>[^\s$-]\S*)")
_HEADER = re.compile(r"\b(?:Bearer|Basic|Token)[ \t]+(?P<value>[\w.+/=~-]{8,})")
_PRIVATE = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*-----)?")
_WORDS = re.compile(
    r"(?:.*_)?(pad|eos|bos|unk|mask|sep|cls|image|special|start|end|stop|num|max|min)_token", re.IGNORECASE
)
"Options of a tokenizer, not of an account."
_VARIABLES = {
    "a Hugging Face token": "HF_TOKEN",
    "a Weights & Biases key": "WANDB_API_KEY",
    "an OpenAI key": "OPENAI_API_KEY",
    "an Anthropic key": "ANTHROPIC_API_KEY",
    "a GitHub token": "GITHUB_TOKEN",
    "a GitLab token": "GITLAB_TOKEN",
    "a Comet key": "COMET_API_KEY",
    "a Neptune token": "NEPTUNE_API_TOKEN",
    "a Replicate token": "REPLICATE_API_TOKEN",
    "a Kaggle key": "KAGGLE_KEY",
}
"The variables that the programs of these services read."


class Cleaned(NamedTuple):
    """A script without the values of its secrets."""

    text: str
    names: tuple[str, ...]
    "The variables that the job should get as secrets."
    lines: tuple[Line, ...]
    "Where values were left out."


class _Found(NamedTuple):
    start: int
    end: int
    name: str
    "The variable; empty if there is none."
    instead: str
    what: str


def without_secrets(text: str) -> Cleaned:
    """A script in which each secret is replaced: by its variable where that works, else by `REDACTED`.

    >>> without_secrets("export HF_TOKEN=hunter2").text
    'export HF_TOKEN="$HF_TOKEN"'
    """
    found = _without_overlaps(sorted(_found(text), key=lambda one: (one.start, -one.end, one.name == "")))
    values = {text[one.start : one.end].strip("\"'") for one in found}
    parts, at = [], 0
    for one in found:
        parts += [text[at : one.start], one.instead]
        at = one.end
    cleaned = "".join([*parts, text[at:]])
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= 8:  # of a shorter one, another use is an accident
            cleaned = cleaned.replace(value, LEFT_OUT)
    names = dict.fromkeys(one.name for one in found if one.name)
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    lines = tuple(Line(bisect_right(starts, one.start), one.what, _why(one)) for one in found)
    return Cleaned(cleaned, tuple(names), lines)


def _why(one: _Found) -> str:
    if one.name:
        return f"its value is left out, and the job gets {one.name} as a secret; see docs/secrets.md"
    return "it is left out; name a variable in `secrets`, and read it in the program"


def _without_overlaps(found: list[_Found]) -> list[_Found]:
    kept: list[_Found] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def _found(text: str) -> Iterator[_Found]:
    yield from _named(text)
    for match in _PRIVATE.finditer(text):
        lines = match[0].count("\n")
        yield _Found(*match.span(), "", "\n".join([LEFT_OUT] * (lines + 1)), "a private key")
    for form, what in {
        _LOGIN: "an argument of login",
        _PASSWORD: "a password",
        _USER: "a password",
        _HEADER: "a token in a header",
        _NETRC: "a password of .netrc",
    }.items():
        for match in form.finditer(text):
            if not is_placeholder(match["value"]):
                kind = next((key.kind for key in keys_in(match[0])), what)
                yield _Found(*match.span("value"), _VARIABLES.get(kind, ""), LEFT_OUT, kind)
    for key in keys_in(text):
        yield _key(text, key.kind, key.start, key.end)


def _named(text: str) -> Iterator[_Found]:
    """Values that have a name: of a variable, an option, or an entry of a file."""
    for match in _ASSIGNED.finditer(text):
        name, value = match["name"], match["value"]
        if _is_secret(name, value.strip("\"'")) and "${" not in value:
            yield _assigned(text, match)
    for match in _DEFAULT.finditer(text):
        if _is_secret(match["name"], match["value"]):
            yield _Found(*match.span("value"), match["name"], "", match["name"])
    for form in (_OPTION, _ENTRY):
        for match in form.finditer(text):
            name, value = re.sub(r"[.-]", "_", match["name"]), match["value"].strip("\"'")
            if has_secret_name(name) and _is_secret(name, value):
                kind = next((key.kind for key in keys_in(f"{name}={value}")), "")
                own = name.upper() if form is _OPTION else ""
                yield _Found(*_inner(match), _VARIABLES.get(kind, own), LEFT_OUT, match["name"])


def _assigned(text: str, match: re.Match[str]) -> _Found:
    """A variable of the shell, or one in an argument, as `--export=ALL,A=1`, `--env A=1` or `url?a=1`."""
    name, before = match["name"], text[max(match.start() - 20, 0) : match.start()]
    if re.search(r"[,=]\Z|(?:--env|-e|--export)[ \t]+[\"']?\Z", before) and name.isupper():
        return _Found(match.end("name"), match.end(), name, "", name)
    if before.endswith(tuple(",=?&:(")):
        return _Found(*_inner(match), "", LEFT_OUT, name)
    return _Found(*match.span("value"), name, f'"${name}"', name)


def _inner(match: re.Match[str]) -> tuple[int, int]:
    """Where a value is, without its quotes."""
    quotes = match["value"][0] in "\"'" and match["value"][0] == match["value"][-1]
    return match.start("value") + quotes, match.end("value") - quotes


def _is_secret(name: str, value: str) -> bool:
    is_name = value == LEFT_OUT or has_secret_name(value) or _WORDS.fullmatch(name)
    return not is_name and in_clear(name, value)


def _key(text: str, kind: str, start: int, end: int) -> _Found:
    """A key without a name; of one with its name or its address, only the value goes."""
    found = text[start:end]
    if kind == "a password in a URL":
        password = re.search(r":([^\s/:@]+)@", found)
        first, last = password.span(1) if password else (0, len(found))
        return _Found(start + first, start + last, "", LEFT_OUT, kind)
    value = re.search(r"[^\s=:'\"]+\Z", found)
    first = value.start() if value else 0
    return _Found(start + first, end, _VARIABLES.get(kind, ""), LEFT_OUT, kind)
