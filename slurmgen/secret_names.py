"""Which variables hold secrets, by their names and by the known forms of keys."""

import re

_NAME = re.compile(
    r"(\w+_)?(API_?KEY|TOKEN|SECRET(_KEY)?|PASSWORD|PASSWD|PASSPHRASE|ACCESS_KEY(_ID)?|PRIVATE_KEY|CREDENTIALS?)",
    re.IGNORECASE,
)
_VALUE = re.compile(r"(hf_|sk-|ghp_|github_pat_|glpat-|xox[bp]-|AKIA)[A-Za-z0-9_-]{16,}")


def is_secret(name: str, value: str = "") -> bool:
    """Whether a variable of that name, or with that value, is likely to hold a secret.

    >>> is_secret("WANDB_API_KEY"), is_secret("TOKENIZERS_PARALLELISM")
    (True, False)
    """
    return bool(_NAME.fullmatch(name) or _VALUE.search(value))
