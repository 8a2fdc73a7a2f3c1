"""What the requests to one server share: connections, what is known of the jobs, and the poller."""

from contextlib import suppress
from threading import Thread

from starlette.requests import Request

from slurmgen.errors import ConfigError
from slurmgen.jobs.ledger import Record
from slurmgen.remote.ssh.prompt import terminal_prompt
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.connections import Asking, Connections
from slurmgen.web.jobs.poller import Poller


class State:
    """Made once for each server."""

    def __init__(self) -> None:
        self.connections = Connections(Asking(terminal_prompt()))
        self.board = Board()
        self.poller = Poller(self.board, self.connections)
        self.submitted: dict[str, Record] = {}
        "The job of each form that submitted one, by the key of the form."

    def begin(self) -> None:
        """Read a long ledger before the first page needs it."""
        Thread(target=_read, args=[self.board], daemon=True).start()

    def end(self) -> None:
        """Close the connections to sites."""
        self.connections.close()


def state_of(request: Request) -> State:
    """What the server that answers has."""
    state: State = request.app.state.jobs
    return state


def connections_of(request: Request) -> Connections:
    """The connections to sites that all requests to this server share."""
    return state_of(request).connections


def _read(board: Board) -> None:
    with suppress(ConfigError):  # the page says it
        board.read()
