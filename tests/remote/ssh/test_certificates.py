"""Certificates of users' keys, before a real sshd that trusts an authority and no key."""

import subprocess
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path

import pytest

from slurmgen.errors import AuthenticationFailed, HostKeyError
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from tests.remote.ssh.test_authenticate import agent
from tests.support.sshd import Server, keygen, privilege_separation_folder, sshd

__all__ = ["agent"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keygen(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture(scope="module")
def trusting(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    privilege_separation_folder()
    folder = tmp_path_factory.mktemp("trusting")
    with sshd(folder, more=f"TrustedUserCAKeys {authority}.pub\nAuthorizedKeysFile none") as running:
        yield running


def signed(authority: Path, key: Path, user: str | None = None) -> Path:
    """The certificate of a key, signed by the authority."""
    subprocess.run(
        ["ssh-keygen", "-q", "-s", authority, "-I", "test", "-n", user or getuser(), f"{key}.pub"], check=True
    )
    return key.with_name(f"{key.name}-cert.pub")


def login(server: Server, folder: Path, key: Path, more: str = "") -> str:
    with connect(destination("far", server.config(folder, key=key, more=more))) as transport:
        assert transport.run(["echo", "in"], timeout=60).out == "in\n"
        return transport.login


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_certificate_beside_the_key_is_offered(
    trusting: Server, authority: Path, tmp_path: Path, kind: str
) -> None:
    key = keygen(tmp_path / "id", kind)
    certificate = signed(authority, key)
    assert login(trusting, tmp_path, key) == str(certificate)


def test_a_certificate_that_the_config_names_is_offered(
    trusting: Server, authority: Path, tmp_path: Path
) -> None:
    key = keygen(tmp_path / "id")
    certificate = signed(authority, key).rename(tmp_path / "elsewhere.pub")
    assert login(trusting, tmp_path, key, f'CertificateFile "{certificate}"') == str(certificate)


def test_without_its_certificate_the_key_is_refused(trusting: Server, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed):
        login(trusting, tmp_path, keygen(tmp_path / "id"))


def test_a_certificate_for_another_user_is_refused(trusting: Server, authority: Path, tmp_path: Path) -> None:
    key = keygen(tmp_path / "id")
    signed(authority, key, "another-user")
    with pytest.raises(AuthenticationFailed):
        login(trusting, tmp_path, key)


def test_a_certificate_of_another_key_is_skipped(trusting: Server, authority: Path, tmp_path: Path) -> None:
    other = signed(authority, keygen(tmp_path / "other"))
    with pytest.raises(AuthenticationFailed) as caught:
        login(trusting, tmp_path, keygen(tmp_path / "id"), f"CertificateFile {other}")
    assert str(other) not in str(caught.value)


def test_a_key_is_offered_after_its_refused_certificate(
    server: Server, authority: Path, tmp_path: Path
) -> None:
    key = keygen(tmp_path / "id")
    signed(authority, key)
    with (server.folder / "authorized_keys").open("a") as file:
        file.write(key.with_suffix(".pub").read_text())
    assert login(server, tmp_path, key) == str(key)


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_the_agents_certificate_is_offered(
    trusting: Server, authority: Path, tmp_path: Path, agent: None, kind: str
) -> None:
    key = keygen(tmp_path / "id", kind)
    certificate = signed(authority, key)
    subprocess.run(["ssh-add", "-q", key], check=True)
    key.unlink()
    certificate.unlink()
    assert login(trusting, tmp_path, key).endswith(" of the agent")


def test_a_certificate_for_the_agents_key_is_offered(
    trusting: Server, authority: Path, tmp_path: Path, agent: None
) -> None:
    key = keygen(tmp_path / "id")
    subprocess.run(["ssh-add", "-q", key], check=True)
    certificate = signed(authority, key)
    key.unlink()
    assert login(trusting, tmp_path, key, f"CertificateFile {certificate}") == str(certificate)


def test_a_host_certificate_is_left_to_openssh(server: Server, authority: Path, tmp_path: Path) -> None:
    line = f"@cert-authority {server.name} {authority.with_suffix('.pub').read_text()}"
    config = server.config(tmp_path, known=line)
    with pytest.raises(HostKeyError, match=r"has an authority for far.*use --ssh-client openssh"):
        connect(destination("far", config))
