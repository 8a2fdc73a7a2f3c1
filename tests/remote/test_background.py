"""A login that starts before the project is checked: local errors come first, and nothing remains."""

import threading
from pathlib import Path

import pytest

from slurmgen import errors
from slurmgen.remote.route import BackgroundLogin, Route
from tests.conftest import Run
from tests.remote.ssh.test_openssh import ours
from tests.support.sshd import Server, closed_port

CLIENTS = pytest.mark.parametrize("client", ["openssh", "paramiko"])


def route_to(config: str, client: str) -> Route:
    return Route(site="generic", via="ssh", host="far", ssh_config=config, ssh_client=client)  # type: ignore[arg-type]


@CLIENTS
def test_a_background_login_gives_a_transport(server: Server, tmp_path: Path, client: str) -> None:
    with BackgroundLogin(route_to(server.config(tmp_path), client)) as going:
        with going.transport() as transport:
            assert transport.run(["echo", "in"], timeout=60).out == "in\n"
        assert ours(str(tmp_path)) == []


@CLIENTS
def test_an_unused_login_ends_with_the_block(server: Server, tmp_path: Path, client: str) -> None:
    before = set(threading.enumerate())
    with pytest.raises(errors.RequestError), BackgroundLogin(route_to(server.config(tmp_path), client)):
        raise errors.RequestError("wrong", "Correct it.")
    assert ours(str(tmp_path)) == []
    assert not [one for one in set(threading.enumerate()) - before if not one.daemon]


@CLIENTS
def test_an_error_of_the_login_is_raised_when_the_transport_is_needed(
    server: Server, tmp_path: Path, client: str
) -> None:
    config = Server(server.folder, closed_port()).config(tmp_path)
    with BackgroundLogin(route_to(config, client)) as going, pytest.raises(errors.ConnectionFailed):
        going.transport()
    with (
        BackgroundLogin(Route(site="generic", via="ssh", host="-x")) as going,
        pytest.raises(errors.RequestError),
    ):
        going.transport()


@CLIENTS
def test_an_invalid_request_is_reported_before_a_failed_login(
    server: Server, tmp_path: Path, slurmgen: Run, client: str
) -> None:
    config = Server(server.folder, closed_port()).config(tmp_path)
    words = ["submit", "--site", "generic", "--host", "far", "--ssh-config", config, "--ssh-client", client]
    done = slurmgen(*words, "--script", "nowhere.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the script 'nowhere.py' is not among the files" in done.stderr
