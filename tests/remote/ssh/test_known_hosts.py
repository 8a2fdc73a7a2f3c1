"""Which host keys are accepted: the same as by the real ssh, for every line that may be in known_hosts."""

import os
import subprocess
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.errors import ConfigError, HostKeyError
from slurmgen.remote.ssh import host_keys
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from tests.remote.ssh.test_authenticate import CONNECT
from tests.support.sshd import Server, keygen

# `name` is `[127.0.0.1]:PORT`, `key` the server's key, `other` a key of another server.
LINES = {
    "plain": "{name} {key}",
    "comment": "{name} {key} a comment # of words",
    "blanks": " \t {name} \t {key}",
    "tabs": "{name}\t{kind}\t{blob}",
    "carriage return": "{name} {key}\r",
    "carriage return after a comment": "{name} {key} me\r",
    "commented": "# {name} {key}",
    "commented later": "{name} # {key}",
    "form feed before": "x\x0c{name} {key}",
    "line separator": "# x\u2028{name} {key}",
    "vertical tab": "# x\x0b{name} {key}",
    "nul before": "x\0{name} {key}",
    "nul behind": "{name} {key}\0{other}",
    "no key": "{name}",
    "no blob": "{name} {kind}",
    "other kind": "{name} ssh-rsa {blob}",
    "capitals in the kind": "{name} SSH-ED25519 {blob}",
    "junk behind the key": "{name} {key}junk",
    "a sign behind the key": "{name} {key}!",
    "padding behind the key": "{name} {key}=",
    "padded text behind the key": "{name} {key}==junk",
    "a dot in the key": "{name} {kind} {blob_with_dot}",
    "bytes behind the key": "{name} {kind} {longer}",
    "bytes missing": "{name} {kind} {shorter}",
    "colon before": ":{name} {key}",
    "unknown marker": "@other {name} {key}",
    "two markers": "@cert-authority @revoked {name} {key}",
    "authority": "@cert-authority {name} {key}",
    "other key": "{name} {other}",
    "several keys": "{name} {other}\n{name} {key}",
    "star": "* {key}",
    "star in brackets": "[*]:* {key}",
    "star for the port": "[127.0.0.1]:* {key}",
    "question marks": "[127.?.?.1]:{port} {key}",
    "a set of characters is none": "[1]27.0.0.1 {key}",
    "without the port": "127.0.0.1 {key}",
    "without the port, another": "127.0.0.1 {other}",
    "with and without the port": "{name} {other}\n127.0.0.1 {key}",
    "with the usual port": "[127.0.0.1]:22 {key}",
    "list": "a,b,{name},c {key}",
    "list with an empty part": ",,{name} {key}",
    "list with blanks": "a, {name} {key}",
    "negated": "!{name},* {key}",
    "negated pattern": "*,![127.*]:* {key}",
    "negated, another": "!other,{name} {key}",
    "only negated": "!other {key}",
    "another": "[127.0.0.1]:1 {key}",
    "hashed": "{hashed} {key}",
    "hashed without the port": "{hashed_alone} {key}",
    "hashed in a list": "a,{hashed} {key}",
    "hashed, then another": "{hashed},a {key}",
    "hashed badly": "|1|bad|bad {key}",
    "hashed shortly": "|1 {key}",
    "hashed otherwise": "|2|{hash_rest} {key}",
    "revoked": "{name} {key}\n@revoked {name} {key}",
    "revoked first": "@revoked {name} {key}\n{name} {key}",
    "revoked everywhere": "{name} {key}\n@revoked * {key}",
    "revoked at any port": "{name} {key}\n@revoked [*]:* {key}",
    "revoked for another": "{name} {key}\n@revoked other {key}",
    "revoked hashed": "{name} {key}\n@revoked {hashed} {key}",
    "revoked, blanks": "{name} {key}\n  @revoked \t {name} {key}",
    "revoked, tabs": "{name} {key}\n@revoked\t*\t{kind}\t{blob}",
    "revoked without the port": "{name} {key}\n@revoked 127.0.0.1 {key}",
    "both without the port": "127.0.0.1 {key}\n@revoked 127.0.0.1 {key}",
    "revoked, junk behind the key": "{name} {key}\n@revoked * {key}junk",
    "revoked, another": "{name} {key}\n@revoked * {other}",
    "revoked in capitals": "{name} {key}\n@REVOKED * {key}",
    "revoked in a comment": "{name} {key}\n#@revoked * {key}",
    "revoked without a key": "{name} {key}\n@revoked *",
}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The key of another server."""
    key = keygen(tmp_path_factory.mktemp("other") / "key").with_suffix(".pub")
    return " ".join(key.read_text().split()[:2])


def hashed(folder: Path, name: str, key: str) -> str:
    (folder / "hashed").write_text(f"{name} {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", folder / "hashed"], check=True, capture_output=True)
    return (folder / "hashed").read_text().split()[0]


def filled(line: str, server: Server, other: str, folder: Path) -> str:
    kind, blob = server.host_key.split()
    raw = b64decode(blob)
    one = hashed(folder, server.name, other)
    return line.format(
        name=server.name,
        port=server.port,
        key=server.host_key,
        kind=kind,
        blob=blob,
        other=other,
        blob_with_dot=f"{blob[:30]}.{blob[30:]}",
        longer=b64encode(raw + b"x").decode(),
        shorter=b64encode(raw[:-1]).decode(),
        hashed=one,
        hashed_alone=hashed(folder, "127.0.0.1", other),
        hash_rest=one.split("|", 2)[2],
    )


def ssh_accepts(config: str) -> bool:
    argv = ["ssh", "-F", config, "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "far", "true"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def slurmgen_accepts(config: str) -> bool:
    try:
        with connect(destination("far", config)) as transport:
            return transport.run(["true"], timeout=60).returncode == 0
    except HostKeyError:
        return False


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_line_means_what_it_means_to_ssh(server: Server, other: str, tmp_path: Path, line: str) -> None:
    config = server.config(tmp_path, known=filled(line, server, other, tmp_path))
    assert slurmgen_accepts(config) == ssh_accepts(config)


@pytest.mark.parametrize(
    "line", ["gate {key}", "GATE {key}", "gat? {key}", "{hashed} {key}", "127.0.0.1 {key}", "{name} {key}"]
)
@pytest.mark.parametrize("alias", ["gate", "Gate"])
def test_a_host_key_alias_means_what_it_means_to_ssh(
    server: Server, other: str, tmp_path: Path, line: str, alias: str
) -> None:
    text = filled(line.replace("{hashed}", hashed(tmp_path, "gate", other)), server, other, tmp_path)
    config = server.config(tmp_path, known=text, more=f"HostKeyAlias {alias}")
    assert slurmgen_accepts(config) == ssh_accepts(config)


CLIENTS = pytest.mark.parametrize("client", CONNECT)


def let_in(client: str, server: Server, folder: Path, known_hosts: str, more: str = "") -> bool:
    config = server.config(folder, known=known_hosts, more=more)
    with CONNECT[client](destination("far", config)) as transport:
        return transport.run(["true"], timeout=20).returncode == 0


def fingerprint(key: Path) -> str:
    reply = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True)
    return reply.stdout.split()[1]


@CLIENTS
def test_an_unknown_host_is_refused_with_its_fingerprint_and_the_line_to_add(
    server: Server, tmp_path: Path, client: str
) -> None:
    with pytest.raises(HostKeyError, match="is not known: ssh-ed25519 SHA256:") as caught:
        let_in(client, server, tmp_path, "")
    message = str(caught.value)
    assert fingerprint(server.folder / "host_key.pub") in message
    assert f"run `ssh -F {tmp_path}/ssh_config far` once" in message
    assert str(tmp_path / "known_hosts") in message
    line = message.splitlines()[-1]
    assert line == f"{server.name} {server.host_key}"
    assert (tmp_path / "known_hosts").read_text() == ""
    assert let_in(client, server, tmp_path, line)


@CLIENTS
def test_nothing_makes_an_unknown_host_known(server: Server, tmp_path: Path, client: str) -> None:
    for more in ("StrictHostKeyChecking no", "NoHostAuthenticationForLocalhost yes"):
        with pytest.raises(HostKeyError):
            let_in(client, server, tmp_path, "", more)
    assert (tmp_path / "known_hosts").read_text() == ""


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_changed_key_is_refused_loudly_with_both_fingerprints(
    server: Server, tmp_path: Path, kind: str
) -> None:
    other = keygen(tmp_path / "other", kind)
    line = f"{server.name} {other.with_suffix('.pub').read_text()}"
    with pytest.raises(HostKeyError, match="HAS CHANGED"):
        let_in("openssh", server, tmp_path, line)
    with pytest.raises(HostKeyError, match="HAS CHANGED") as caught:
        let_in("paramiko", server, tmp_path, line)
    for part in (fingerprint(other), fingerprint(server.folder / "host_key.pub"), "ssh-keygen -R"):
        assert part in str(caught.value)


def test_a_revoked_key_is_reported_as_revoked(server: Server, tmp_path: Path) -> None:
    with pytest.raises(HostKeyError, match="is revoked"):
        let_in("paramiko", server, tmp_path, f"{server.known_line}@revoked {server.known_line}")


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
def test_a_name_with_the_usual_port_is_a_pattern(
    server: Server, tmp_path: Path, names: str, host: str, is_known: bool
) -> None:
    (tmp_path / "known").write_text(f"# mine\n\n{names}  {server.host_key} a comment\n")
    assert bool(list(host_keys.known_entries(tmp_path / "known", host))) == is_known


def test_the_types_of_known_keys_are_requested_first(server: Server, tmp_path: Path) -> None:
    rsa = keygen(tmp_path / "rsa", "rsa").with_suffix(".pub").read_text()
    to = destination("far", server.config(tmp_path, known=f"{server.name} {rsa}"))
    available = paramiko.Transport._preferred_keys
    assert host_keys.known(to).algorithms(available)[:2] == ["rsa-sha2-512", "rsa-sha2-256"]


def test_every_file_counts(server: Server, tmp_path: Path) -> None:
    (tmp_path / "system").write_text(f"@revoked * {server.host_key}\n")
    config = Path(server.config(tmp_path))
    text = config.read_text()
    for files, expected in {"/dev/null": True, f"/dev/null {tmp_path}/system": False}.items():
        config.write_text(text.replace("GlobalKnownHostsFile /dev/null", f"GlobalKnownHostsFile {files}"))
        assert (slurmgen_accepts(str(config)), ssh_accepts(str(config))) == (expected, expected)


def test_without_any_file_no_host_is_known(server: Server, tmp_path: Path) -> None:
    config = Path(server.config(tmp_path))
    config.write_text(config.read_text().replace(f'"{tmp_path}/known_hosts"', "none"))
    assert (slurmgen_accepts(str(config)), ssh_accepts(str(config))) == (False, False)


@pytest.mark.parametrize("kind", ["fifo", "huge"])
def test_a_file_that_is_too_large_or_not_regular_is_refused(
    server: Server, tmp_path: Path, kind: str
) -> None:
    config = server.config(tmp_path)
    (tmp_path / "known_hosts").unlink()
    if kind == "fifo":
        os.mkfifo(tmp_path / "known_hosts")
    else:
        with (tmp_path / "known_hosts").open("wb") as file:
            file.truncate(host_keys.KNOWN_HOSTS_LIMIT + 1)
    with pytest.raises(ConfigError, match=r"cannot read .*known_hosts: it is "):
        slurmgen_accepts(config)


@given(st.binary(max_size=200))
def test_invalid_bytes_are_not_a_key(blob: bytes) -> None:
    assert host_keys.public_key("ssh-ed25519", b64encode(blob).decode()) is None
    prefixed = b"\0\0\0\x07ssh-rsa" + blob
    assert host_keys.public_key("ssh-ed25519", b64encode(prefixed).decode()) is None


@given(
    st.lists(st.sampled_from(["far", "@revoked", "|1|", "*", "ssh-rsa", "AAAA", " ", "\t", "\0", "\n", ","]))
)
def test_no_file_is_too_odd_to_be_read(words: list[str]) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("".join(words))
        file.flush()
        assert list(host_keys.known_entries(Path(file.name), "far")) == []
