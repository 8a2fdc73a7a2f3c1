"""Going to a site while something else is done here: a login is mostly waiting."""

import contextlib
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from slurmgen.errors import SlurmgenError
from slurmgen.remote.route import Route, open_route
from slurmgen.remote.ssh.prompt import Ask
from slurmgen.remote.transport import Transport

if TYPE_CHECKING:
    from concurrent.futures import Future

_END_TIMEOUT = 2.0
"Seconds that a login which nobody wants any more may take to end; the process takes the rest with it."


class UnderWay(Protocol):
    """A login that may take its time."""

    def transport(self) -> Transport:
        """Wait until we are in; raises what `open_route` raises."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Early:
    """A way on which we set out as the block begins. What nobody came for ends with the block.

    Nothing is raised before somebody waits for it, so that what is wrong here is told first.
    """

    def __init__(self, way: Route, ask: Ask | None = None, *, starts: bool = True) -> None:
        self._way = way
        self._ask = ask
        self._starts = starts and way.via == "ssh"
        self._resources = contextlib.ExitStack()
        self._under_way: UnderWay | None = None
        self._failed: SlurmgenError | None = None

    def __enter__(self) -> Self:
        if self._starts:
            try:
                self._under_way = self._resources.enter_context(_begun(self._way, self._ask))
            except SlurmgenError as error:
                self._failed = error
        return self

    def transport(self) -> Transport:
        """Wait until we are there.

        Raises:
            RemoteError, ConfigError, TwinError: as `open_route` says.
        """
        if self._failed:
            raise self._failed
        if self._under_way:
            return self._under_way.transport()
        return open_route(self._way, self._ask)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)


def _begun(way: Route, ask: Ask | None) -> UnderWay:
    if way.ssh_client == "openssh":
        from slurmgen.remote.ssh.config import destination
        from slurmgen.remote.ssh.openssh import Login

        return Login(destination(way.host or "", way.ssh_config), ask)
    return _InThread(way, ask)


class _InThread:
    """A login in a thread; it asks a person nothing until somebody waits for it."""

    def __init__(self, way: Route, ask: Ask | None) -> None:
        from concurrent.futures import Future

        self._way = way
        self._turn = threading.Event()
        self._ask = _Patient(ask, self._turn) if ask else None
        self._reached: Future[Transport] = Future()
        # Not of a pool: at exit Python would wait for it.
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def transport(self) -> Transport:
        """See UnderWay."""
        from concurrent.futures import Future

        self._turn.set()
        reached, self._reached = self._reached.result(), Future()
        return reached

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ask and not self._turn.is_set():
            self._ask.is_over = True
            self._turn.set()
        unwanted = self._reached
        unwanted.add_done_callback(_close)
        if kind is not KeyboardInterrupt:  # then a question may hold it up
            self._thread.join(_END_TIMEOUT)

    def _go(self) -> None:
        reached = self._reached
        try:
            reached.set_result(open_route(self._way, self._ask))
        except BaseException as error:  # for whoever waits
            reached.set_exception(error)


def _close(unwanted: "Future[Transport]") -> None:
    if not unwanted.exception():
        unwanted.result().close()


class _Patient:
    """Asks when it is its turn."""

    def __init__(self, ask: Ask, turn: threading.Event) -> None:
        self._ask = ask
        self._turn = turn
        self.is_over = False

    def __call__(self, prompt: str, /) -> str:
        """See Ask."""
        self._wait()
        return self._ask(prompt)

    def tell(self, text: str, /) -> None:
        """See Ask."""
        self._wait()
        self._ask.tell(text)

    def _wait(self) -> None:
        self._turn.wait()
        if self.is_over:
            raise EOFError
