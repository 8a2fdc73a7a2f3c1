"""The host names in ssh_config, for shell completion: fast, and without errors."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from slurmgen import files

_PATTERN = frozenset("*?!")


def aliases(config_file: str | None = None) -> list[str]:
    """Each name of a Host line that is not a pattern, in the order of the files."""
    path = Path(config_file) if config_file else Path("~/.ssh/config").expanduser()
    return list(dict.fromkeys(_names(path, set())))


def _names(path: Path, seen: set[Path]) -> Iterator[str]:
    if path in seen:
        return
    seen.add(path)
    with suppress(OSError, ValueError, RuntimeError):
        for line in files.read_bytes(path).decode(errors="replace").splitlines():
            keyword, *words = line.replace("=", " ", 1).replace('"', " ").split() or [""]
            if keyword.lower() == "host":
                yield from (word for word in words if not _PATTERN.intersection(word))
            elif keyword.lower() == "include":
                for pattern in words:
                    whole = Path("~/.ssh").expanduser() / Path(pattern).expanduser()
                    for included in sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor)))):
                        yield from _names(included, seen)
