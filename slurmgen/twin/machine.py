"""Facts about this machine: programs, free ports, and the user."""

import os
import pwd
import random
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path

from slurmgen.errors import TwinError
from slurmgen.paths import cache_folder

INSTALL = "apt-get install --no-install-recommends slurm-wlm slurmctld slurmd munge openssh-server"
INSTALL_ACCOUNTING = "apt-get install --no-install-recommends slurmdbd mariadb-server"
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
SLURM_PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo")
SSH_PROGRAMS = ("sshd", "ssh-keygen")
DATABASE_PROGRAMS = ("mariadbd", "mariadb-install-db")
ACCOUNTING_PROGRAMS = ("slurmdbd", "sacctmgr")

# Below the ephemeral ports (32768 and up) and below the MASTER_PORTs that scripts use (20000 and up).
FIRST_PORT, LAST_PORT = 10000, 19999


def programs(*names: str) -> dict[str, str]:
    """The paths of programs.

    Raises:
        TwinError: some are not installed.
    """
    found = installed(*names)
    missing = [name for name in names if name not in found]
    if missing:
        raise TwinError(
            f"a twin needs programs that are not installed here: {', '.join(missing)}",
            f"On Debian or Ubuntu, as root: {INSTALL}",
        )
    return found


def installed(*names: str) -> dict[str, str]:
    """The paths of those programs that are installed; an ordinary user's PATH often lacks sbin."""
    path = os.pathsep.join([own_path(), *SBIN])
    found = {name: shutil.which(name, path=path) for name in names}
    return {name: place for name, place in found.items() if place}


def own_path() -> str:
    """PATH without the releases that slurmgen installed, which `twin up` has users put first."""
    others = cache_folder() / "slurm"
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not Path(folder).is_relative_to(others))


def user_name() -> str:
    """The name of this user; Slurm needs one.

    Raises:
        TwinError: the user has none.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise TwinError(
            f"user id {os.getuid()} has no name on this machine", "Slurm needs a line in /etc/passwd."
        ) from None


def loopback(host: str) -> str | None:
    """The loopback address to which Slurm's daemons resolve a host name; None if it is another address."""
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
    except OSError:
        return None
    address = str(found[0][4][0])
    return address if ip_address(address).is_loopback else None


@contextmanager
def free_ports(count: int) -> Iterator[int]:
    """The first of `count` consecutive free ports, which no other twin takes until the block ends.

    The daemons can listen there at once, since they set SO_REUSEADDR.

    Raises:
        TwinError: there are none.
    """
    last = LAST_PORT - count + 1
    start = random.randint(FIRST_PORT, last)  # noqa: S311  (only spreads twins of several users)
    candidates: list[int] = [*range(start, last + 1, count), *range(FIRST_PORT, start, count)]
    with ExitStack() as reserved:
        for first in candidates:
            if _reserve(range(first, first + count), reserved):
                yield first
                return
            reserved.close()
    raise TwinError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT}")


def _reserve(ports: range, reserved: ExitStack) -> bool:
    """Bind a socket to each port; whether all of them were free."""
    for port in ports:
        one = reserved.enter_context(socket.socket())
        try:
            one.bind(("", port))
        except OSError:
            return False
        # Not before: two sockets with this option can be bound to one port.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return True
