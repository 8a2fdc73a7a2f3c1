"""The twins of this machine: their folders, and Slurm's commands in them."""

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from slurmgen.errors import TwinError
from slurmgen.files import make_private, read_bytes, require_private, state_folder
from slurmgen.twin.daemons import Daemon, clean_environ
from slurmgen.twin.installation import own_path, path_with


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A real Slurm on this machine in the shape of a site; stored as `twin.json` in its folder."""

    site: str
    folder: Path
    run: Path
    "Its folder under /tmp for sockets and pid files."
    nodes: tuple[str, ...]
    daemons: tuple[Daemon, ...]
    programs: Path | None = None
    "The folder of its Slurm's programs; None for the Slurm of this machine."
    shapes: dict[str, str] = {}
    "What a node of each partition has, in words."
    assumptions: tuple[str, ...] = ()
    "What was assumed because the profile does not say it."
    is_complete: bool = True
    "Whether its start reached its end."
    ssh_config: Path | None = None
    ssh_host: str | None = None
    "The host name for `ssh -F ssh_config`: the site's login host, or the site's name."

    @property
    def slurm_conf(self) -> Path:
        """Its slurm.conf."""
        return self.folder / "slurm.conf"

    @property
    def is_running(self) -> bool:
        """Whether its controller runs."""
        return any(daemon.pid for daemon in self.daemons if daemon.name == "slurmctld")

    def environ(self) -> dict[str, str]:
        """The environment variables with which the ordinary Slurm commands use it."""
        path = path_with(self.programs, own_path())
        own = {"BASH_ENV": str(self.folder / "bash_env")} if self.programs else {}
        return {"SLURM_CONF": str(self.slurm_conf), "PATH": path, **own}


def root() -> Path:
    """The folder of all twins."""
    return state_folder() / "twin"


def save(twin: Twin) -> None:
    """Write twin.json."""
    (twin.folder / "twin.json").write_bytes(msgspec.json.encode(twin, enc_hook=str))


def load(site_name: str) -> Twin | None:
    """The stored facts about a site's twin, running or not; None if there are none, or they are not valid.

    Raises:
        ConfigError: another user may change the file, which names programs to run.
    """
    path = root() / site_name / "twin.json"
    try:
        require_private(path.parent)
        return msgspec.json.decode(read_bytes(path), type=Twin, dec_hook=_path)
    except (OSError, msgspec.MsgspecError):
        return None


def stored() -> list[str]:
    """The sites of all twins of this user, running or not."""
    return sorted(path.parent.name for path in root().glob("*/twin.json"))


def running() -> list[Twin]:
    """All running twins of this user, by site name."""
    return [twin for name in stored() if (twin := load(name)) and twin.is_running]


def find(site_name: str) -> Twin:
    """The running twin of a site.

    Raises:
        TwinError: it does not run.
    """
    twin = load(site_name)
    if twin is None or not twin.is_running:
        raise TwinError(f"no twin of {site_name} runs", f"Start one: slurmgen twin up --site {site_name}")
    return twin


@contextmanager
def locked() -> Iterator[None]:
    """Let only one twin start or stop at a time; the lock of a process that dies is released."""
    with (make_private(root()) / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _path(kind: type, value: Any) -> Any:
    return kind(value)


TIMEOUT = 60.0


def slurm(twin: Twin, *argv: str) -> str:
    """The output of a Slurm command.

    Raises:
        TwinError: it failed.
    """
    environ = {**clean_environ(), **twin.environ()}
    try:
        reply = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TwinError(f"{argv[0]} on the twin of {twin.site}: {error}") from error
    if reply.returncode:
        raise TwinError(f"{argv[0]} on the twin of {twin.site}: {reply.stderr.strip()}")
    return reply.stdout.rstrip("\n")
