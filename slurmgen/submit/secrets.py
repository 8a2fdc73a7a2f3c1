"""The values of a job's secrets, and consent to send them."""

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn, Protocol

from msgspec import Struct

from slurmgen.config.user import FILE_NAME, load_personal
from slurmgen.errors import RequestError
from slurmgen.ledger.places import Confirm, Consents, is_own_place
from slurmgen.remote.route import Route
from slurmgen.text import visible

SERVICE = "slurmgen"
"The service of the keyring's entries; the user is the name of the variable."
MAX_SIZE = 100_000
"Bytes of one value; Linux takes no variable with more than 128 KiB."


class SecretValues:
    """Values by name. They are in no representation, and cannot be encoded or pickled."""

    def __init__(self, values: Mapping[str, str] = {}) -> None:
        self._lines = b"".join(_line(name, value) for name, value in values.items())
        self.names = tuple(values)

    def lines(self) -> bytes:
        """Lines of bash, in ASCII, that export the values."""
        return self._lines

    def __repr__(self) -> str:
        return f"SecretValues({', '.join(self.names)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the values of secrets are not stored")


def _line(name: str, value: str) -> bytes:
    text = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:03o}" for byte in os.fsencode(value)
    )
    return f"export {name}=$'{text}'\n".encode()


class Wanted(Struct, frozen=True):
    """The secrets of a job, without values."""

    names: tuple[str, ...] = ()
    by_project: tuple[str, ...] = ()
    "Those that only slurmgen.toml names."
    project: str = ""
    "The folder of the project, as a full path."


NO_SECRETS = Wanted()


class Questions(Confirm, Protocol):
    """Asks the user on the terminal."""

    def __call__(self, prompt: str, /) -> str:
        """Show a prompt and read an answer without echo."""


def find_values(wanted: Wanted, route: Route, ask: Questions | None) -> SecretValues:
    """The values of the secrets, after the user's consent.

    Args:
        ask: asks the user; None without a terminal.

    Raises:
        RequestError: the user does not agree, or a secret has no value.
    """
    for name in wanted.names:
        _check_consent(wanted, name, route, ask)
    return SecretValues({name: _value(name, ask) for name in wanted.names})


def _check_consent(wanted: Wanted, name: str, route: Route, ask: Questions | None) -> None:
    consents, key = Consents(), (wanted.project, name, route)
    if consents.has(*key):
        return
    if name in (load_personal(route.site).secrets or ()) and is_own_place(route, Path(wanted.project)):
        return
    if name in wanted.by_project:
        where = f"{route.site}, through {route.host}" if route.host else route.site
        project = visible(wanted.project)
        fact = f"slurmgen.toml of {project} asks for your secret {name}, for its jobs at {where}"
        if not (ask and ask.confirms(f"{fact}. Send it? [y/N] ")):
            raise RequestError(
                f"{fact}; you have not agreed",
                f"If you trust the project with it, use --secret {name} once, or add the name to "
                f"`secrets` of [{route.site}] in {FILE_NAME}.",
            )
    consents.add(*key)


def _value(name: str, ask: Questions | None) -> str:
    value, problem = os.environ.get(name) or "", ""
    if not value:
        value, problem = _in_keyring(name)
    if not value and ask:
        value = _asked(name, ask, problem)
    if not value:
        raise RequestError(
            f"the secret {name} has no value: it is not in the environment, nor in the keyring{problem}",
            f"Export {name}, or store it with `uvx keyring set {SERVICE} {name}` (slurmgen-torch[keyring]); "
            "on a terminal, slurmgen asks for it.",
        )
    if "\0" in value or len(os.fsencode(value)) > MAX_SIZE:
        raise RequestError(
            f"the value of the secret {name} has a NUL, or more than {MAX_SIZE:,} bytes",
            "A variable cannot hold it; use a file on the cluster.",
        )
    return value


_NO_LIBRARY = " (the library keyring is not installed)"


def _in_keyring(name: str) -> tuple[str, str]:
    try:
        value = import_module("keyring").get_password(SERVICE, name)  # an extra, and slow
    except ImportError:
        return "", _NO_LIBRARY
    except Exception as error:  # each backend raises errors of its own, whose text may hold anything
        return "", f" (which cannot be read: {type(error).__name__})"
    return (value, "") if isinstance(value, str) else ("", "")


def _asked(name: str, ask: Questions, problem: str) -> str:
    answers = _answers()
    if name not in answers:
        where = f", which is not in the keyring{problem}" if problem not in ("", _NO_LIBRARY) else ""
        answers[name] = ask(f"Value of the secret {name}{where}: ")
    return answers[name]


@cache
def _answers() -> dict[str, str]:
    """What the user typed, so that one command with several jobs asks once."""
    return {}
