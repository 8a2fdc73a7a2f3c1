"""RevokedHostKeys and other options of ssh_config about host keys."""

import os
import subprocess
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError, HostKeyError
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from tests.support.sshd import Server, keygen, privilege_separation_folder, sshd


def gets_in(server: Server, folder: Path, more: str) -> bool:
    """Whether the login of slurmgen succeeds; that of ssh must agree."""
    config = server.config(folder, more=more)
    ssh = subprocess.run(["ssh", "-F", config, "-o", "BatchMode=yes", "far", "true"], capture_output=True)
    try:
        with connect(destination("far", config)) as transport:
            accepted = transport.run(["true"], timeout=60).returncode == 0
    except HostKeyError as error:
        accepted = "is revoked: ssh-ed25519 SHA256:" not in error.fact
    assert accepted == (ssh.returncode == 0)
    return accepted


def revocation_list(folder: Path, *keys: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", folder / "list", *keys], check=True)
    return folder / "list"


def test_a_key_in_a_file_of_revoked_keys_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "revoked").write_text(f"# stolen\n\n{server.host_key} a comment\n")
    assert not gets_in(server, tmp_path, f"RevokedHostKeys {tmp_path}/revoked")


def test_a_key_in_a_revocation_list_is_refused(server: Server, tmp_path: Path) -> None:
    listed = revocation_list(tmp_path, server.folder / "host_key.pub")
    assert not gets_in(server, tmp_path, f"RevokedHostKeys {listed}")


def test_other_revoked_keys_have_no_effect(server: Server, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub")
    assert gets_in(server, tmp_path, f"RevokedHostKeys {other}")
    assert gets_in(server, tmp_path, f"RevokedHostKeys {revocation_list(tmp_path, other)}")
    assert gets_in(server, tmp_path, "RevokedHostKeys none")
    assert gets_in(server, tmp_path, "RevokedHostKeys /dev/null")


@pytest.mark.parametrize("content", [b"SSHKRL\n\0junk", b"junk", b"ssh-ed25519 !!!!", b"ssh-ed25519\n", None])
def test_a_file_of_revoked_keys_that_cannot_be_read_is_refused(
    server: Server, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "revoked").write_bytes(content)
    with pytest.raises(ConfigError, match=r"^cannot read RevokedHostKeys /.*/revoked: "):
        gets_in(server, tmp_path, f"RevokedHostKeys {tmp_path}/revoked")


def test_a_fifo_is_refused_as_a_file_of_revoked_keys(server: Server, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "revoked")
    config = server.config(tmp_path, more=f"RevokedHostKeys {tmp_path}/revoked")
    with pytest.raises(ConfigError, match="it is not a regular file"):
        connect(destination("far", config))


def test_a_command_for_known_hosts_is_left_to_openssh(server: Server, tmp_path: Path) -> None:
    config = server.config(tmp_path, more="KnownHostsCommand /bin/true")
    with pytest.raises(ConfigError, match=r"^KnownHostsCommand of far .*--ssh-client openssh"):
        connect(destination("far", config))
    with connect(destination("far", server.config(tmp_path, more="KnownHostsCommand none"))) as transport:
        assert transport.run(["true"], timeout=60).returncode == 0


def test_an_rsa_key_that_is_too_short_is_refused(tmp_path: Path) -> None:
    privilege_separation_folder()
    rsa = keygen(tmp_path / "rsa", "rsa")
    (tmp_path / "sshd").mkdir()
    with sshd(tmp_path / "sshd", more=f"HostKeyAlgorithms rsa-sha2-512\nHostKey {rsa}") as server:
        known = f"{server.name} {rsa.with_suffix('.pub').read_text()}"
        config = server.config(tmp_path, known=known, more="RequiredRSASize 4096")
        with pytest.raises(HostKeyError, match=r"has 3072 bits: ssh-rsa .* RequiredRSASize is 4096"):
            connect(destination("far", config))
        with connect(destination("far", server.config(tmp_path, known=known))) as transport:
            assert transport.run(["true"], timeout=60).returncode == 0
