"""What a twin takes of this machine: its ports, and its daemons."""

import socket
from pathlib import Path

import pytest

from slurmgen.errors import TwinError
from slurmgen.twin import daemons, installation
from slurmgen.twin.daemons import Daemon
from tests.support.ports import free_port


def test_ports_are_free_for_one_twin_and_for_the_servers_that_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only = free_port()
    monkeypatch.setattr(installation, "FIRST_PORT", only)
    monkeypatch.setattr(installation, "LAST_PORT", only)
    with (
        installation.free_ports(1) as port,
        socket.create_server(("127.0.0.1", port)),
    ):  # it sets SO_REUSEADDR
        assert port == only
    with (
        installation.free_ports(1),
        pytest.raises(TwinError, match="no 1 free ports"),
        installation.free_ports(1),
    ):
        pass
    with installation.free_ports(1):
        pass


def test_a_daemon_that_does_not_go_into_the_background_has_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "START_TIMEOUT", 0.1)
    files = {name: str(tmp_path / name) for name in ("mark", "pid_file", "log_file")}
    with pytest.raises(TwinError, match="munged did not start; its log ends with: nothing"):
        daemons.start(Daemon(name="munged", argv=("sleep", "600"), **files))
