"""Commands whose words after `--` belong to the training script."""

import re
import shlex

import click

from slurmgen.cli.help import Command
from slurmgen.request_command import OMITTED

_SCRIPT_ARGS = "slurmgen.script_args"
_WORDS = "slurmgen.words"
_VARIABLE = re.compile(r"((?:--env=)?[^=]*=).*", re.DOTALL)


class JobCommand(Command):
    """A command whose words after `--` belong to the training script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the words after the first `--` aside."""
        ctx.meta[_WORDS] = tuple(args)
        if "--" in args:
            at = args.index("--")
            ctx.meta[_SCRIPT_ARGS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    @staticmethod
    def script_args(ctx: click.Context) -> tuple[str, ...] | None:
        """The words after `--`; None if there was no `--`."""
        words: tuple[str, ...] | None = ctx.meta.get(_SCRIPT_ARGS)
        return words

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the words after `--`."""
        return [*super().collect_usage_pieces(ctx), "[-- SCRIPT ARGS]"]


def typed(ctx: click.Context) -> str:
    """The command line as it was typed, without the values of --env, which may be secret."""
    words: tuple[str, ...] = ctx.meta[_WORDS]
    end = words.index("--") if "--" in words else len(words)
    shown = [_without_value(before, word) for before, word in zip(("", *words), words[:end], strict=False)]
    return shlex.join(["slurmgen", str(ctx.info_name), *shown, *words[end:]])


def _without_value(before: str, word: str) -> str:
    is_variable = before == "--env" or word.startswith("--env=")
    return _VARIABLE.sub(rf"\1{OMITTED}", word) if is_variable else word
