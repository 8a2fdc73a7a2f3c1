"""Report formats; only the module of the selected one is imported."""

from collections.abc import Callable, Sequence
from importlib import import_module

from slurmgen.lint.finding import Linted
from slurmgen.text import unstyled

_MODULES = {
    **{"text": "text", "json": "json", "sarif": "json", "github": "text", "gitlab": "json"},
    **{"junit": "xml", "checkstyle": "xml"},
}
FORMATS = tuple(_MODULES)


def report(
    format_name: str,
    files: Sequence[Linted],
    *,
    style: Callable[..., str] = unstyled,
    width: int | None = None,
) -> str:
    """The findings in all files, in the given format.

    Args:
        format_name: one of FORMATS.
        files: the files with their findings.
        style: adds colours to the format `text`, such as `click.style`.
        width: most columns of an excerpt in the format `text`; default: 140.
    """
    options = {"style": style, "width": width} if format_name == "text" else {}
    module = import_module(f"{__name__}.{_MODULES[format_name]}")
    text: str = getattr(module, format_name)(files, **options)
    return text


__all__ = ["FORMATS", "Linted", "report"]
