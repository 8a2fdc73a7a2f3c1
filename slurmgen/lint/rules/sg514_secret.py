"""The script contains a key or a token.

## What it checks
Checks for variables such as `WANDB_API_KEY`, `HF_TOKEN` or `OPENAI_API_KEY` with a literal value, and for
`wandb login KEY`.

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

CODE = "SG514"
SEVERITY = "warning"
SUMMARY = "the script contains a secret"

_NAME = re.compile(r"(\w+_)?(API_?KEY|TOKEN|SECRET(_KEY)?|PASSWORD|ACCESS_KEY)", re.IGNORECASE)
_KEY = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9_-]{20,}")
_PREFIXED = re.compile(r"(hf_|sk-|ghp_|glpat-)[A-Za-z0-9_-]{16,}")
_LOGIN = re.compile(
    r"\bwandb login\s+(--relogin\s+)?[0-9a-f]{40}\b|\b(hf_|ghp_|glpat-)[A-Za-z0-9]{30,}"
    r"|\bAPI_KEY=['\"]?[0-9a-f]{40}\b"
)
_HARMLESS = re.compile(r"x{4,}|your|\.\.\.|example|placeholder|<", re.IGNORECASE)


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the variables and the commands that log in; the message does not repeat the key."""
    for found in script.shell.assignments:
        is_key = _is_key(found.value) or _PREFIXED.fullmatch(found.value)
        if is_key and _NAME.fullmatch(found.name):
            yield _finding(found.span, found.name)
    for command in script.commands:
        logs_in = command.texts[:2] == ["wandb", "login"] or "login" in command.texts[:3]
        for word in command.words[1:]:
            if _PREFIXED.fullmatch(word.text) or (logs_in and _is_key(word.text)):
                yield _finding(word.span, f"an argument of {command.name}")

    for comment in script.shell.comments:
        if _LOGIN.search(script.source.plain[slice(*comment)]):
            yield _finding(comment, "a comment")


def _is_key(value: str) -> bool:
    return bool(_KEY.fullmatch(value)) and not _HARMLESS.search(value)


def _finding(span: Span, what: str) -> Finding:
    return Finding(
        span, f"{what} looks like a secret", "read it from a file that only you can read, and revoke it"
    )
