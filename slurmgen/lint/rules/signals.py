"""The signal that a job requests, its traps, and its requeue commands."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from slurmgen.lint.reader import Command, Script
from slurmgen.lint.reader.header import Directive

_FORM = r"(?:(?P<flags>[RB]+):)?(?P<signal>[A-Za-z]+\d?|\d+)(?:@\d+)?"
_REQUEUES = {"requeue", "requeuehold"}
_NUMBERS = {"1": "HUP", "2": "INT", "3": "QUIT", "10": "USR1", "12": "USR2", "15": "TERM", "18": "CONT"}


class SignalRequest(NamedTuple):
    """The value of `--signal`."""

    directive: Directive
    name: str
    "Without the prefix SIG."
    to_batch_shell: bool


def requested_signal(script: Script) -> SignalRequest | None:
    """The signal that Slurm sends before the time limit, if the header requests one."""
    directive = script.header.last("signal")
    match = re.fullmatch(_FORM, directive.value) if directive else None
    if directive is None or match is None:
        return None
    return SignalRequest(directive, _plain(match["signal"]), "B" in (match["flags"] or ""))


def traps(commands: Iterable[Command], signal: str) -> list[Command]:
    """The `trap` commands for a signal, including those that ignore it."""
    return [c for c in commands if c.name == "trap" and signal in map(_plain, c.texts[1:])]


def requeues(script: Script) -> list[Command]:
    """The `scontrol requeue` and `scontrol requeuehold` commands."""
    return [c for c in script.commands if c.name == "scontrol" and _REQUEUES & set(c.texts[1:3])]


def _plain(signal: str) -> str:
    name = signal.upper().removeprefix("SIG")
    return _NUMBERS.get(name, name)
