"""How a message names the fields of a request: by options on the command line, by labels on a page.

A message marks each field that it names, so that its text need not be searched for names.
"""

from collections.abc import Callable, Iterator

FILE_ONLY = ("before_login", "before", "after", "then", "stage", "stage_archives")
"Fields that slurmgen.toml and Python may set, but no option."
_IRREGULAR = {
    "modules": "--module",
    "binds": "--bind",
    "module": "--python-module",
    "secrets": "--secret",
    "launcher_args": "--launcher-arg",
    **{field: field for field in FILE_ONLY},
}
_MARK = "\x1f"
"The unit separator: no request has control characters."


def flag(field: str) -> str:
    """The command-line option of a field.

    >>> flag("cpus_per_gpu"), flag("modules"), flag("before")
    ('--cpus-per-gpu', '--module', 'before')
    """
    return _IRREGULAR.get(field) or f"--{field.replace('_', '-')}"


def option(field: str, value: object = "") -> str:
    """A field with a value, for a message.

    >>> worded(option("time", "4:00:00"))
    '--time 4:00:00'
    """
    return f"{_MARK}{field}{_MARK} {value}".rstrip(" ")


def parts(message: str) -> Iterator[tuple[str, str]]:
    """The text before each name of a field, with the field; the last text has none."""
    texts = message.split(_MARK)
    fields = [*texts[1::2], ""] if len(texts) % 2 else texts[1::2]
    return zip(texts[::2], fields, strict=True)


def fields_in(message: str) -> tuple[str, ...]:
    """The fields that a message names."""
    return tuple([field for _, field in parts(message) if field])


def worded(message: str, name: Callable[[str], str] = flag) -> str:
    """A message with the names of its fields; by default, those of their options."""
    return "".join(f"{text}{name(field) if field else ''}" for text, field in parts(message))
