"""Open the page in the user's browser."""

import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread


@contextmanager
def opened(address: str, say: Callable[[str], None]) -> Iterator[None]:
    """Open an address. It has a token, so a file that only the user can read leads there.

    All users of the machine can read a browser's arguments.

    Args:
        address: the address that was printed.
        say: writes a line to stderr if there is no browser.
    """
    with NamedTemporaryFile("w", prefix="slurmgen-", suffix=".html") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
        file.flush()
        # A browser in the terminal runs until the user leaves it.
        Thread(target=_open, args=(Path(file.name).as_uri(), say), daemon=True).start()
        yield


def _open(file: str, say: Callable[[str], None]) -> None:
    if not webbrowser.open(file):
        say("found no browser; open the address above")
