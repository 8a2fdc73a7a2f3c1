"""Which texts are keys, by their public forms, and which variables hold secrets, by their names.

The linter and the check of `env` share the table of forms, which the services document or their keys show.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

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
