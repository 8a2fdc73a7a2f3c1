"""Secrets in a text: which texts are keys, which variables hold secrets, and a script without their values.

The linter and the check of `env` share the table of forms, which the services document or their keys show.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct

_NAME = re.compile(
    r"(\w+_)?(API_?KEY|KAGGLE_KEY|TOKEN|SECRET(_KEY)?|PASSWORD|PASSWD|PASSPHRASE|ACCESS_KEY(_ID)?|AUTH_KEY|PRIVATE_KEY"
    r"|CREDENTIALS?)",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"[$~./].*|-?\d{1,9}|true|false|yes|no|on|off|none|null|offline|online", re.IGNORECASE | re.DOTALL
)
"A value that is a path, a variable, a number or a switch."
_PLACEHOLDER = re.compile(
    r"x{4,}|your|\.\.\.|example|placeholder|redacted|changeme|\*{3}|[<>]|:(?:password|passwd|pass|pw)@",
    re.IGNORECASE,
)
_FEW = 6
"Different characters: a key has more, and `hf_aaaaaaaa` has fewer."

FORMS = {
    "a GitHub token": r"gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{40,}",
    "a GitLab token": r"gl(?:pat|dt|rt|ptt|ft|cbt|agent)-[A-Za-z0-9_-]{20,}",
    "a Hugging Face token": r"(?:hf|api_org)_[A-Za-z0-9]{16,}",
    "an Anthropic key": r"sk-ant-[A-Za-z0-9_-]{20,}",
    "an OpenAI key": r"sk-(?:[a-z0-9]{2,10}-){0,3}(?=[\w-]{0,200}\d)[A-Za-z0-9_]{16,}[\w-]*",
    "an AWS key": r"(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    "an AWS secret key": r"(?i:aws_secret_access_key)['\"]?\s?[=:]\s?['\"]?[A-Za-z0-9/+]{40}"
    r"(?![A-Za-z0-9/+])",
    "a Google key": r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{28}",
    "a Slack token": r"xox[abeprs]-[A-Za-z0-9-]{16,}",
    "a Slack webhook": r"https://hooks\.slack\.com/services/T\w{8,}/B\w{8,}/\w{20,}",
    "a Stripe key": r"[rs]k_live_[A-Za-z0-9]{20,}|whsec_[A-Za-z0-9]{32,}",
    "an npm token": r"npm_[A-Za-z0-9]{36}",
    "a PyPI token": r"pypi-AgE[A-Za-z0-9_-]{50,}",
    "a Weights & Biases key": r"wandb_v1_[A-Za-z0-9_-]{30,}"
    r"|(?i:wandb[ \t]+login|wandb_api_key)\b[^\n]{0,30}?\b[0-9a-f]{40}\b",
    "a Comet key": r"(?i:comet_api_key)['\"]?\s?[=:]\s?['\"]?[A-Za-z0-9]{25}\b",
    "a Neptune token": r"eyJhcGlfYWRkcmVzcyI6[A-Za-z0-9+/=]{20,}",
    "a SendGrid key": r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "a Twilio key": r"SK[0-9a-f]{32}\b",
    "a DigitalOcean token": r"do[opr]_v1_[0-9a-f]{64}",
    "a Databricks token": r"dapi[0-9a-f]{32}(?:-\d)?\b",
    "an Azure key": r"(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{42,86}={1,2}",
    "a JSON web token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "a private key": r"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----",
    "a Telegram token": r"\d{8,10}:AA[A-Za-z0-9_-]{33}\b",
    "a Kaggle key": r"KGAT_[0-9a-f]{32}|(?i:kaggle_key)['\"]?\s?[=:]\s?['\"]?[0-9a-f]{32}\b",
    "a Replicate token": r"r8_[A-Za-z0-9]{37}",
    "a Groq key": r"gsk_[A-Za-z0-9]{40,}",
    "an NVIDIA key": r"nvapi-[A-Za-z0-9_-]{60,}",
    "a Docker Hub token": r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}",
    "a Perplexity key": r"pplx-[A-Za-z0-9]{40,}",
    "an xAI key": r"xai-[A-Za-z0-9]{70,}",
    "a password in a URL": r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@$'\"]{1,60}:[^\s/:@$'\"{}]{3,100}@[A-Za-z0-9]",
}
"The form of each kind of key, as a regular expression."
_KINDS = tuple(FORMS)


class Key(NamedTuple):
    """A text that has the form of a key."""

    kind: str
    start: int
    end: int


@cache
def _any_form() -> re.Pattern[str]:
    forms = "|".join(f"(?P<f{at}>{form})" for at, form in enumerate(FORMS.values()))
    return re.compile(f"(?<![A-Za-z0-9_-])(?:{forms})")


def keys_in(text: str) -> Iterator[Key]:
    """The keys in a text, without placeholders such as `hf_xxxx`.

    >>> [key.kind for key in keys_in("--token hf_" + "a1b2c3d4e5" * 3)]
    ['a Hugging Face token']
    """
    for found in _any_form().finditer(text):
        if not is_placeholder(found[0]):
            yield Key(_KINDS[int(str(found.lastgroup)[1:])], *found.span())


def is_placeholder(value: str) -> bool:
    """Whether a text stands for a key and is none."""
    return bool(_PLACEHOLDER.search(value)) or len(set(value.rpartition("_")[2])) < _FEW


def has_secret_name(name: str) -> bool:
    """Whether a variable of that name usually holds a secret."""
    return _NAME.fullmatch(name) is not None


def has_key(name: str, value: str) -> bool:
    """Whether the value of a variable has the form of a key."""
    return any(keys_in(f"{name}={value}"))


def in_clear(name: str, value: str) -> bool:
    """Whether a variable would show a secret: neither a path, a variable, a number nor a switch.

    >>> in_clear("HF_TOKEN", "$HOME/token"), in_clear("HF_TOKEN", "hunter2")
    (False, True)
    """
    if has_secret_name(name) and value and not _PLACE.fullmatch(value):
        return True
    return has_key(name, value)


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


class Line(Struct, frozen=True):
    """A line of a script that is not taken over as it is."""

    line: int
    "Counted from 1."
    text: str
    why: str


class _Found(NamedTuple):
    start: int
    end: int
    name: str
    "The variable; empty if there is none."
    instead: str
    what: str


def without_secrets(text: str) -> tuple[str, tuple[str, ...], tuple[Line, ...]]:
    """A script in which each secret is replaced: by its variable where that works, else by `REDACTED`.

    Also the variables that the job should get as secrets, and the lines in which values were left out.

    >>> without_secrets("export HF_TOKEN=hunter2")[:2]
    ('export HF_TOKEN="$HF_TOKEN"', ('HF_TOKEN',))
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
    return cleaned, tuple(names), lines


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
