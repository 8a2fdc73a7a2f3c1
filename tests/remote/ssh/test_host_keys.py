"""Which host keys are accepted: with a real sshd, and with every form of a known_hosts line."""

import subprocess
from pathlib import Path

import paramiko
import pytest

from slurmgen.errors import HostKeyError
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.host_keys import known
from slurmgen.remote.ssh.paramiko import connect
from tests.support.sshd import Server, keygen


def let_in(server: Server, folder: Path, known_hosts: str, more: str = "") -> bool:
    with connect(destination("far", server.config(folder, known=known_hosts, more=more))) as transport:
        return transport.run(["true"], timeout=20).returncode == 0


def fingerprint(key: Path) -> str:
    reply = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True)
    return reply.stdout.split()[1]


def hashed(folder: Path, line: str) -> str:
    (folder / "hashed").write_text(line)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", folder / "hashed"], check=True, capture_output=True)
    return (folder / "hashed").read_text()


def test_an_unknown_host_is_refused_with_its_fingerprint_and_the_line_to_add(
    server: Server, tmp_path: Path
) -> None:
    with pytest.raises(HostKeyError) as caught:
        let_in(server, tmp_path, "")
    message = str(caught.value)
    assert fingerprint(server.folder / "host_key.pub") in message
    assert f"run `ssh -F {tmp_path}/ssh_config far` once" in message
    assert str(tmp_path / "known_hosts") in message
    line = message.splitlines()[-1]
    assert line == f"{server.name} {server.host_key}"
    assert let_in(server, tmp_path, line)


def test_nothing_makes_an_unknown_host_known(server: Server, tmp_path: Path) -> None:
    with pytest.raises(HostKeyError):
        let_in(server, tmp_path, "", "StrictHostKeyChecking no")
    assert (tmp_path / "known_hosts").read_text() == ""


def test_a_changed_key_is_refused_loudly_with_both_fingerprints(server: Server, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other")
    line = f"{server.name} {other.with_suffix('.pub').read_text()}"
    with pytest.raises(HostKeyError, match="HAS CHANGED") as caught:
        let_in(server, tmp_path, line)
    message = str(caught.value)
    assert fingerprint(other) in message
    assert fingerprint(server.folder / "host_key.pub") in message
    assert "ssh-keygen -R" in message


def test_a_key_of_another_type_does_not_make_a_host_known(server: Server, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other", "ecdsa")
    with pytest.raises(HostKeyError, match="HAS CHANGED"):
        let_in(server, tmp_path, f"{server.name} {other.with_suffix('.pub').read_text()}")


def test_a_hashed_name_is_known(server: Server, tmp_path: Path) -> None:
    line = hashed(tmp_path, f"{server.name} {server.host_key}\n")
    assert line.startswith("|1|")
    assert let_in(server, tmp_path, line)


def test_a_revoked_key_is_refused_although_it_is_known(server: Server, tmp_path: Path) -> None:
    line = f"{server.name} {server.host_key}\n"
    with pytest.raises(HostKeyError, match="is revoked"):
        let_in(server, tmp_path, f"{line}@revoked {line}")


def test_one_of_several_keys_of_a_type_is_enough(server: Server, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text()
    assert let_in(server, tmp_path, f"{server.name} {other}{server.name} {server.host_key}\n")


def test_a_host_key_alias_is_looked_up(server: Server, tmp_path: Path) -> None:
    assert let_in(server, tmp_path, f"cluster {server.host_key}\n", "HostKeyAlias cluster")


@pytest.mark.parametrize(
    ("names", "host", "is_known"),
    [
        ("login.site.org", "login.site.org", True),
        ("login.site.org", "login2.site.org", False),
        ("*.site.org", "login.site.org", True),
        ("login?.site.org", "login1.site.org", True),
        ("*.site.org,!bad.site.org", "bad.site.org", False),
        ("other,login.site.org", "login.site.org", True),
        ("[login.site.org]:22", "login.site.org", False),
        ("|1|bad|bad", "login.site.org", False),
    ],
)
def test_a_name_in_known_hosts_is_a_pattern(
    server: Server, tmp_path: Path, names: str, host: str, is_known: bool
) -> None:
    (tmp_path / "known").write_text(f"# mine\n\n{names}  {server.host_key} a comment\n")
    (tmp_path / "config").write_text(
        f"Host *\n UserKnownHostsFile {tmp_path}/known\n GlobalKnownHostsFile /dev/null\n"
    )
    assert bool(known(destination(host, str(tmp_path / "config"))).trusted) == is_known


@pytest.mark.parametrize(
    "line", ["nonsense", "a b", "far ssh-ed25519 !!!!", "far ssh-ed25519 AAAA", "far ssh-dss AAAA"]
)
def test_an_invalid_line_is_skipped(tmp_path: Path, line: str) -> None:
    (tmp_path / "known").write_text(line)
    (tmp_path / "config").write_text(
        f"Host *\n UserKnownHostsFile {tmp_path}/known\n GlobalKnownHostsFile /dev/null\n"
    )
    assert known(destination("far", str(tmp_path / "config"))).trusted == ()


def test_the_types_of_known_keys_are_requested_first(server: Server, tmp_path: Path) -> None:
    rsa = keygen(tmp_path / "rsa", "rsa").with_suffix(".pub").read_text()
    to = destination("far", server.config(tmp_path, known=f"{server.name} {rsa}"))
    available = paramiko.Transport._preferred_keys
    assert known(to).algorithms(available)[:2] == ["rsa-sha2-512", "rsa-sha2-256"]
