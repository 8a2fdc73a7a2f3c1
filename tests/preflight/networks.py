"""Nodes with a network of their own on this machine, as root: network namespaces, joined by a bridge."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def addresses(count: int) -> list[str]:
    """The addresses of the nodes."""
    return [f"10.77.0.{number + 1}" for number in range(count)]


def inside(node: int) -> list[str]:
    """The words before a command that runs on a node."""
    return ["ip", "netns", "exec", _name(node)]


@contextmanager
def network(count: int) -> Iterator[None]:
    """Nodes that reach each other."""
    try:
        _ip("netns", "add", _SWITCH)
        _ip("-n", _SWITCH, "link", "add", "bridge", "type", "bridge")
        _ip("-n", _SWITCH, "link", "set", "bridge", "up")
        for node, address in enumerate(addresses(count)):
            _connect(node, address)
        yield
    finally:
        for name in (_SWITCH, *map(_name, range(count))):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def can_be_made() -> bool:
    """Whether this user may make such a network."""
    try:
        with network(1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def drop(node: int, port: int) -> None:
    """Drop what a node sends to a port, as a firewall does."""
    _on(node, "iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP")


def limit(node: int, rate: str) -> None:
    """Limit the rate at which a node sends."""
    bucket = ["tbf", "rate", rate, "burst", "64kb", "latency", "50ms"]
    _on(node, "tc", "qdisc", "add", "dev", "eth0", "root", *bucket)


_SWITCH = "preflight-switch"


def _name(node: int) -> str:
    return f"preflight-{node}"


def _connect(node: int, address: str) -> None:
    name, port = _name(node), f"port{node}"
    _ip("netns", "add", name)
    _ip("-n", _SWITCH, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("-n", _SWITCH, "link", "set", port, "master", "bridge", "up")
    _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _ip("-n", name, "link", "set", device, "up")


def _on(node: int, *command: str) -> None:
    _run([*inside(node), *command])


def _ip(*words: str) -> None:
    _run(["ip", *words])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, capture_output=True, check=True, timeout=60)
