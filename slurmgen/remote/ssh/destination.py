"""Destination: one host, and what a connection to it needs."""

import shlex
from pathlib import Path

from msgspec import Struct

METHODS = ("publickey", "keyboard-interactive", "password")
"The authentication methods of slurmgen, in OpenSSH's order."


class HostSpec(Struct, frozen=True):
    """A host as named in --host or in ProxyJump."""

    alias: str
    user: str = ""
    port: str = ""

    @property
    def options(self) -> list[str]:
        """ssh's options for the user and port, where they are given."""
        return [*(["-l", self.user] if self.user else []), *(["-p", self.port] if self.port else [])]

    def __str__(self) -> str:
        return self.alias + (f":{self.port}" if self.port else "")


class Sharing(Struct, frozen=True):
    """How OpenSSH shares one login to a host among several commands."""

    path: str
    "ControlPath."
    starts: bool
    "Whether `ssh HOST` would keep a shared connection open for the next one."


class Destination(Struct, frozen=True, kw_only=True):
    """One host and all that a login to it needs, except secrets."""

    spec: HostSpec
    "The name, user and port as given."
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool
    "Whether to offer no other keys of the agent than those of identity_files."
    agent: str | None = None
    "The agent's socket, or none; None for the usual one."
    known_hosts: tuple[Path, ...]
    host_key_name: str
    "The name that the host has in known_hosts."
    known_hosts_command: str | None = None
    revoked_host_keys: tuple[Path, ...] = ()
    required_rsa_size: int = 1024
    "The least number of bits of an RSA host key."
    algorithms: dict[str, str] = {}
    "Ciphers and the like, by keyword in lower case."
    methods: tuple[str, ...] = METHODS
    "The authentication methods that may be tried."
    proxy_command: str | None = None
    jump: "Destination | None" = None
    "The host through which this one is reached."
    added_jump: str = ""
    "The value of ProxyJump, where it is not from ssh_config."
    sharing: Sharing | None = None
    config_file: Path | None = None

    @property
    def alias(self) -> str:
        """The name as given."""
        return self.spec.alias

    @property
    def chain(self) -> tuple["Destination", ...]:
        """The jump hosts, the nearest first, then this host."""
        return (*(self.jump.chain if self.jump else ()), self)

    @property
    def ssh(self) -> str:
        """The command that connects to the host by hand."""
        file = ["-F", str(self.config_file)] if self.config_file else []
        jump = ["-J", self.added_jump] if self.added_jump else []
        return shlex.join(["ssh", *file, *jump, *self.spec.options, self.alias])
