"""The ports that a twin takes of this machine."""

import socket

import pytest

from slurmgen.errors import TwinError
from slurmgen.twin import machine
from tests.support.ports import free_port


def test_ports_are_free_for_one_twin_and_for_the_servers_that_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only = free_port()
    monkeypatch.setattr(machine, "FIRST_PORT", only)
    monkeypatch.setattr(machine, "LAST_PORT", only)
    with machine.free_ports(1) as port, socket.create_server(("127.0.0.1", port)):  # it sets SO_REUSEADDR
        assert port == only
    with machine.free_ports(1), pytest.raises(TwinError, match="no 1 free ports"), machine.free_ports(1):
        pass
    with machine.free_ports(1):
        pass
