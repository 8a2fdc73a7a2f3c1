"""Log in to a site in the background while the caller does other work: a login is mostly waiting."""

import contextlib
import threading
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from slurmgen.errors import ConnectionBroke, SlurmgenError
from slurmgen.remote.route import Route, destination_of, open_route
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.transport import Transport

_END_TIMEOUT = 2.0
"Seconds that an unused login may take to end; after that it ends with the process."


class PendingLogin(Protocol):
    """A login that has begun."""

    def transport(self) -> Transport:
        """Wait for the login to finish; raises what `open_route` raises."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class BackgroundLogin:
    """A login that starts when the block begins. If `transport` was not called, it ends with the block.

    Only `transport` raises the errors of the login, so that errors in local files are reported first.
    """

    def __init__(self, route: Route, prompt: Prompt | None = None, *, starts: bool = True) -> None:
        self._route = route
        self._prompt = prompt
        self._starts = starts and route.via == "ssh"
        self._resources = contextlib.ExitStack()
        self._pending: PendingLogin | None = None
        self._error: SlurmgenError | None = None

    def __enter__(self) -> Self:
        if self._starts:
            try:
                self._pending = self._resources.enter_context(_started(self._route, self._prompt))
            except SlurmgenError as error:
                self._error = error
        return self

    def transport(self) -> Transport:
        """Wait for the login to finish.

        Raises:
            RemoteError, ConfigError, TwinError: as `open_route`.
        """
        if self._error:
            raise self._error
        if self._pending:
            return self._pending.transport()
        return open_route(self._route, self._prompt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)


def _started(route: Route, prompt: Prompt | None) -> PendingLogin:
    # A thread that finds a shared connection uses it: that needs no prompt.
    return _OpenSshLogin(route, prompt) if route.ssh_client == "openssh" else _LoginThread(route, prompt)


class _OpenSshLogin:
    """A login by ssh in the background, with the advice of the profile if it fails."""

    def __init__(self, route: Route, prompt: Prompt | None) -> None:
        from slurmgen.remote.login_advice import advised, check_certificates
        from slurmgen.remote.ssh.openssh import Login

        self._route, self._prompt = route, prompt
        to, login = destination_of(route)
        self._login = Login(to, prompt, partial(check_certificates, route.site, login, to))
        self._advice = partial(advised, route.site, login, to, interactive=prompt is not None)

    def __enter__(self) -> Self:
        self._login.__enter__()
        return self

    def transport(self) -> Transport:
        """See PendingLogin."""
        try:
            with self._advice():
                return self._login.transport()
        except ConnectionBroke:
            return open_route(self._route, self._prompt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._login.__exit__(kind, error, trace)


class _LoginThread:
    """A login in a thread; it shows no prompt before `transport` is called."""

    def __init__(self, route: Route, prompt: Prompt | None) -> None:
        self._route = route
        self._wanted = threading.Event()
        self._prompt = _DeferredPrompt(prompt, self._wanted) if prompt else None
        self._login: Future[Transport] = Future()
        # Not a thread of a pool, for which Python would wait at exit.
        self._thread = threading.Thread(target=self._log_in, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def transport(self) -> Transport:
        """See PendingLogin."""
        self._wanted.set()
        login, self._login = self._login.result(), Future()
        return login

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._prompt and not self._wanted.is_set():
            self._prompt.is_cancelled = True
            self._wanted.set()
        unwanted = self._login
        unwanted.add_done_callback(_close)
        if kind is not KeyboardInterrupt:  # then it may be waiting at a prompt
            self._thread.join(_END_TIMEOUT)

    def _log_in(self) -> None:
        login = self._login
        try:
            login.set_result(open_route(self._route, self._prompt))
        except BaseException as error:  # `transport` raises it
            login.set_exception(error)


def _close(unwanted: Future[Transport]) -> None:
    if not unwanted.exception():
        unwanted.result().close()


class _DeferredPrompt:
    """A prompt that waits until the login is wanted."""

    def __init__(self, prompt: Prompt, wanted: threading.Event) -> None:
        self._prompt = prompt
        self._wanted = wanted
        self.is_cancelled = False

    def __call__(self, prompt: str, /) -> str:
        """See Prompt."""
        self._wait()
        return self._prompt(prompt)

    def show(self, text: str, /) -> None:
        """See Prompt."""
        self._wait()
        self._prompt.show(text)

    def _wait(self) -> None:
        self._wanted.wait()
        if self.is_cancelled:
            raise EOFError
