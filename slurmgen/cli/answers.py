"""Answers to questions of a command: from an option, from the terminal, or from stdin."""

import sys
from collections.abc import Callable
from typing import Any

import click

from slurmgen.slurm.shell import unprintable
from slurmgen.text import visible


def answered(
    text: str, option: str, given: str | None, read: Callable[[str], Any], *, required: bool = False
) -> Any:
    """The value of an option, else of an answer; None if that is empty.

    On a terminal, a wrong answer is asked for again with the reason.
    """
    while True:
        answer = _answer(text) if given is None else given
        try:
            if answer:
                return read(answer)
            if not required:
                return None
            raise ValueError("an answer is required; ^C ends the command")
        except ValueError as error:
            if given is not None:
                raise click.BadParameter(f"{error}", param_hint=option) from None
            if not is_terminal():
                raise click.UsageError(f"{text}: {error}. Give {option}, or another answer.") from None
            click.echo(visible(f"error: {error}"), err=True)


def is_terminal() -> bool:
    """Whether a user can answer questions."""
    return sys.stdin is not None and sys.stdin.isatty()


def _answer(text: str) -> str:
    """An answer from the terminal, or the next line of stdin; empty at its end."""
    if is_terminal():
        reply: str = click.prompt(text, default="", show_default=False, err=True)
        return reply.strip()
    line = sys.stdin.buffer.readline() if sys.stdin else b""
    return line.decode(errors="replace").strip()


def printable(text: str) -> str:
    """A text for a comment or a source.

    Raises:
        ValueError: it has a control character.
    """
    if any("\udc80" <= character <= "\udcff" for character in text):
        raise ValueError(f"{text.encode(errors='surrogateescape')!r} is not valid UTF-8")
    if unprintable(text) is not None:
        raise ValueError(f"{text!r} has a control character")
    return text
