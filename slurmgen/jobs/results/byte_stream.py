"""What a remote command writes, read in exact amounts."""

import time
from collections.abc import Iterator

MAX_REST = 1 << 20
"Bytes that may follow the end of an archive."
SILENCE = 120.0
"Seconds without progress after which the remote host counts as hung."
PROGRESS = 512
"Bytes that must arrive in that time."


class BadArchive(Exception):
    """What arrived is not an archive, or not one that tar would write."""


class ByteStream:
    """The output of a remote command. What has been read is not kept."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._since, self._arrived = time.monotonic(), 0
        self._part, self._at = b"", 0

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes.

        Raises:
            BadArchive: there are fewer.
        """
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes, as they arrive.

        Raises:
            BadArchive: there are fewer.
        """
        while size:
            if self._at == len(self._part) and not self._next():
                raise BadArchive("it ends early")
            piece = self._part[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def finish(self) -> None:
        """Read to the end: only there does the transport report whether the command failed.

        Raises:
            BadArchive: much follows.
        """
        rest = len(self._part) - self._at
        while self._next():
            rest += len(self._part)
            if rest > MAX_REST:
                raise BadArchive("much follows its end")

    def _next(self) -> bytes:
        """The next part that is not empty; nothing at the end."""
        self._part, self._at = b"", 0
        for part in self._parts:
            self._require_progress(len(part))
            if part:
                self._part = part
                break
        return self._part

    def _require_progress(self, arrived: int) -> None:
        """Raise BadArchive if almost nothing arrives: a byte now and then does not count as progress."""
        now = time.monotonic()
        self._arrived += arrived
        if now - self._since < SILENCE:
            return
        if self._arrived < PROGRESS:
            raise BadArchive(f"only {self._arrived} bytes of it came in {now - self._since:.0f} seconds")
        self._since, self._arrived = now, 0
