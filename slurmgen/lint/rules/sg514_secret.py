"""The script contains a key or a token.

## What it checks
Checks for variables such as `WANDB_API_KEY`, `HF_TOKEN` or `OPENAI_API_KEY` with a literal value, also as the
default in `${NAME:-VALUE}`, for `wandb login KEY`, and in the whole script, comments included, for the forms
of over 30 kinds of keys: those of GitHub, GitLab, Hugging Face, OpenAI, Anthropic, AWS, Google, Azure, Slack
and other services, JSON web tokens, private keys, and passwords in URLs.

## Why it matters
Slurm stores the script of a job, and administrators can read it. In a repository everybody who reads it has
the key.

## Example
    export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567

## Use instead
    export WANDB_API_KEY="$(cat ~/.secrets/wandb)"

## When to ignore
If the value is not a secret.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.secret_names import has_key, has_secret_name, is_placeholder, keys_in

CODE = "SG514"
SEVERITY = "warning"
SUMMARY = "the script contains a secret"

_DEFAULT = re.compile(r"\$\{\w+:?[-=]['\"]?([^'\"{}$]+)['\"]?\}")
_KEY = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9_-]{20,}")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the variables, the logins and the whole text; the message does not repeat the key."""
    reported: list[Span] = []
    for span, what in (*_variables(script), *_logins(script)):
        reported.append(span)
        yield _finding(span, f"{what} looks like a secret")
    for key in keys_in(script.source.plain):
        if not any(span.start <= key.start < span.end for span in reported):
            yield _finding(Span(key.start, key.end), f"this looks like {key.kind}")


def _variables(script: Script) -> Iterator[tuple[Span, str]]:
    for found in script.shell.assignments:
        default = _DEFAULT.fullmatch(found.raw.strip('"'))
        value = default[1] if default else found.value
        if has_key(found.name, value) or (has_secret_name(found.name) and _is_key(value)):
            yield found.span, found.name


def _logins(script: Script) -> Iterator[tuple[Span, str]]:
    for command in script.commands:
        if "login" in command.texts[:3]:
            for word in command.words[1:]:
                if _is_key(word.text):
                    yield word.span, f"an argument of {command.name}"


def _is_key(value: str) -> bool:
    return bool(_KEY.fullmatch(value)) and not is_placeholder(value)


def _finding(span: Span, message: str) -> Finding:
    return Finding(span, message, "read it from a file that only you can read, and revoke it")
