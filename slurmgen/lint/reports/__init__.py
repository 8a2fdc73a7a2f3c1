"""Report formats, one per module; only the selected one is imported."""

from collections.abc import Callable, Sequence
from importlib import import_module

from slurmgen.lint.reports.base import Linted

FORMATS = ("text", "json", "sarif", "github")


def report(format_name: str, files: Sequence[Linted]) -> str:
    """The findings in all files, in the given format."""
    write: Callable[[Sequence[Linted]], str] = import_module(f"{__name__}.{format_name}").report
    return write(files)


__all__ = ["FORMATS", "Linted", "report"]
