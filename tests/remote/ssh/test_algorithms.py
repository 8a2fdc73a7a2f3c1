"""Ciphers, MACs, KexAlgorithms and HostKeyAlgorithms of ssh_config: they count as they do for ssh."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import paramiko
import pytest

from slurmgen.errors import ConfigError, ConnectionFailed
from slurmgen.remote.ssh import config
from slurmgen.remote.ssh.config import destination, restrict_algorithms
from slurmgen.remote.ssh.paramiko import connect
from tests.support.sshd import Server, privilege_separation_folder, sshd

Serving = Callable[[str], Server]

# What the server has, what ssh_config says, and whether one gets in.
CASES = [
    ("Ciphers aes256-ctr", "", True),
    ("Ciphers 3des-cbc", "", False),
    ("Ciphers aes128-cbc,aes256-cbc", "", False),
    ("Ciphers aes128-cbc,aes256-cbc", "Ciphers +aes256-cbc", True),
    ("Ciphers aes128-cbc,aes256-cbc", "Ciphers ^aes128-cbc", True),
    ("Ciphers aes128-cbc,aes256-cbc", "Ciphers aes128-cbc", True),
    ("Ciphers aes256-ctr", "Ciphers -aes256-*", False),
    ("Ciphers aes256-ctr", "Ciphers -aes128-*,3des-cbc", True),
    ("Ciphers aes256-ctr", "Ciphers aes128-ctr,aes192-ctr", False),
    ("Ciphers aes256-ctr", "Ciphers aes128-ctr,aes256-ctr", True),
    ("MACs hmac-md5\nCiphers aes256-ctr", "", False),
    ("MACs hmac-md5\nCiphers aes256-ctr", "MACs +hmac-md5", True),
    ("MACs hmac-sha1\nCiphers aes256-ctr", "", True),
    ("MACs hmac-sha1\nCiphers aes256-ctr", "MACs -hmac-sha1*", False),
    ("KexAlgorithms diffie-hellman-group14-sha1", "", False),
    ("KexAlgorithms ecdh-sha2-nistp256", "", True),
    ("KexAlgorithms ecdh-sha2-nistp256", "KexAlgorithms -ecdh-*", False),
    ("KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org", "KexAlgorithms curve25519-sha256", True),
    ("", "HostKeyAlgorithms rsa-sha2-512", False),
    ("", "HostKeyAlgorithms -ssh-ed25519", False),
    ("", "HostKeyAlgorithms rsa-sha2-512,ssh-ed25519", True),
]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with some settings, started when first asked for."""
    privilege_separation_folder()
    with ExitStack() as running:
        yield cache(lambda more: running.enter_context(sshd(tmp_path_factory.mktemp("sshd"), more=more)))


def gets_in(config: str) -> bool:
    try:
        with connect(destination("far", config)) as transport:
            return transport.run(["true"], timeout=60).returncode == 0
    except ConnectionFailed as error:
        return "far has no algorithm that is allowed here" not in error.fact


@pytest.mark.parametrize(("has", "says", "expected"), CASES)
def test_algorithms_are_the_same_as_in_ssh(
    serving: Serving, tmp_path: Path, has: str, says: str, expected: bool
) -> None:
    config = serving(has).config(tmp_path, more=says)
    argv = ["ssh", "-F", config, "-o", "BatchMode=yes", "far", "true"]
    assert gets_in(config) == expected
    assert (subprocess.run(argv, capture_output=True, check=False).returncode == 0) == expected


@pytest.mark.parametrize(("has", "says", "expected"), CASES)
def test_without_ssh_algorithms_are_the_same(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: str, says: str, expected: bool
) -> None:
    monkeypatch.setattr(config.shutil, "which", lambda _: None)  # type: ignore[attr-defined]
    assert gets_in(serving(has).config(tmp_path, more=says)) == expected


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("Ciphers", "chacha20-poly1305@openssh.com"),
        ("MACs", "umac-128-etm@openssh.com"),
        ("KexAlgorithms", "sntrup761x25519-sha512@openssh.com"),
        ("HostKeyAlgorithms", "ssh-ed25519-cert-v01@openssh.com"),
    ],
)
def test_an_option_that_allows_nothing_paramiko_has_is_named(
    serving: Serving, tmp_path: Path, option: str, value: str
) -> None:
    config = serving("").config(tmp_path, more=f"{option} {value}")
    with pytest.raises(ConfigError, match=rf"^{option} of far .*: {value}\. .*--ssh-client openssh"):
        gets_in(config)


def test_the_defaults_without_ssh_are_those_of_ssh() -> None:
    by_ssh, without = (_security(lists) for lists in (destination("far").algorithms, {}))
    # OpenSSH 9.9 and later has the last one.
    assert without - by_ssh <= {"mlkem768x25519-sha256"}
    assert by_ssh <= without
    assert not {name for name in without if "cbc" in name or "md5" in name}


def _security(lists: dict[str, str]) -> set[str]:
    """What a connection may use."""
    here, there = socket.socketpair()
    with here, there:
        connection = paramiko.Transport(here)
        restrict_algorithms(connection, lists, "far")
        options = connection.get_security_options()
        return {*options.ciphers, *options.digests, *options.kex, *options.key_types}
