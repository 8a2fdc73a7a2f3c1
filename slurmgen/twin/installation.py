"""The Slurm that a twin uses: this machine's, or another release from Debian."""

import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import TwinError
from slurmgen.files import cache_folder, make_private, publish


class Installation(Struct, frozen=True):
    """The programs of one Slurm release; without folders, those that this machine's PATH has."""

    version: tuple[int, int]
    "Year and month of the release, such as (24, 11)."
    bin: Path | None = None
    "The folder of its programs: daemons and commands."
    plugins: Path | None = None
    "The folder of its plugins, for slurm.conf."

    def __str__(self) -> str:
        return "{}.{:02}".format(*self.version)

    def programs(self, *names: str) -> dict[str, str]:
        """The paths of its programs.

        Raises:
            TwinError: some are not installed.
        """
        if self.bin is None:
            return programs(*names)
        return {name: str(self.bin / name) for name in names}

    def path(self, others: str) -> str:
        """The PATH with its programs before those in `others`."""
        return path_with(self.bin, others)


def path_with(folder: Path | None, others: str) -> str:
    """The PATH with a folder, if any, before those in `others`."""
    return f"{folder}{os.pathsep}{others}" if folder else others


def installed() -> Installation:
    """The Slurm of this machine.

    Raises:
        TwinError: it is not installed.
    """
    return Installation(_version(programs("slurmctld")["slurmctld"]))


def find(release: str | None = None, report: Callable[[str], None] = lambda _: None) -> Installation:
    """The installation of a release such as `24.11`; by default, that of this machine.

    A release that this machine lacks is installed from Debian's packages into the user's cache folder, once.

    Args:
        release: year and month of the release.
        report: called with a line about an installation that takes a while.

    Raises:
        TwinError: the release is not known, or cannot be installed.
        ConfigError: another user may write to the cache folder.
    """
    if release is None:
        return installed()
    here = _here()
    if here and str(here) == release:
        return here
    if release not in RELEASES:
        known = sorted({*RELEASES, *([str(here)] if here else [])})
        raise TwinError(f"a twin cannot run Slurm {release}", f"Give one of {', '.join(known)}.")
    folder = make_private(cache_folder() / "slurm") / f"{release}-{os.uname().machine}"
    if not folder.is_dir():
        install_debian(release, folder, report)
    return _of(folder, release)


def _here() -> Installation | None:
    try:
        return installed()
    except TwinError:
        return None


def _of(folder: Path, release: str) -> Installation:
    found = Installation(_version(str(folder / "bin/slurmctld")), folder / "bin", folder / PLUGINS)
    if str(found) != release:
        raise TwinError(f"{folder} has Slurm {found}, not {release}", "Remove the folder, and try again.")
    return found


def _version(slurmctld: str) -> tuple[int, int]:
    """Year and month of the release, such as (22, 5).

    Raises:
        TwinError: the program does not print it.
    """
    try:
        reply = subprocess.run([slurmctld, "-V"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TwinError(f"{slurmctld} -V: {error}") from error
    match = re.search(r"(\d+)\.(\d+)", reply.stdout)
    if not match:
        raise TwinError(f"{slurmctld} -V does not print its version: {reply.stdout or reply.stderr}")
    return int(match[1]), int(match[2])


RELEASES = {"22.05": "bookworm", "24.11": "trixie"}
"The Debian release that has a Slurm release."
PLUGINS = "lib/slurm-wlm"
_SLURM = ("slurmctld", "slurmd", "slurmdbd", "slurm-client", "munge")
"The packages with the programs of a twin."
_MORE = ("slurm-wlm-mysql-plugin", "patchelf")
_NEEDED = ("apt-get", "dpkg-deb")
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_INDEX = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
_ARCHIVE = "Debian|Debian|"
"How apt lists Debian's own archive; its security archive has another label."
_TIMEOUT = 600.0
_LOG_LINES = 5


def install_debian(release: str, folder: Path, report: Callable[[str], None]) -> None:
    """Install a release of `RELEASES` into `folder`, which appears once it is complete.

    Raises:
        TwinError: this machine has no Debian packages, or a step failed; then there is no folder.
    """
    suite = RELEASES[release]
    source = _source(release)
    report(f"installing Slurm {release} from Debian's packages ({suite}) into {folder}, once")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder.parent) as name:
        scratch = Path(name)
        packages = _download(f"deb [signed-by={_KEYS}] {source} {suite} main\n", scratch)
        _unpack(packages, scratch)
        built = _arrange(scratch)
        _relink(scratch, built, folder)
        publish(built, folder)
    report(f"installed in {time.monotonic() - start:.0f} s")


def _source(release: str) -> str:
    missing = [name for name in _NEEDED if not shutil.which(name)]
    if missing:
        raise TwinError(
            f"Slurm {release} cannot be installed here without {', '.join(missing)}",
            f"Install Slurm {release} on this machine, or use a machine with Debian.",
        )
    listed = _run("apt-get", "indextargets", "--format", _INDEX, "Created-By: Packages")
    for line in listed.splitlines():
        if line.startswith(_ARCHIVE):
            return line.removeprefix(_ARCHIVE)
    raise TwinError(
        f"Slurm {release} cannot be installed here: apt has no package source of Debian",
        f"Install Slurm {release} on this machine, or use a machine with Debian.",
    )


def _download(source: str, scratch: Path) -> list[Path]:
    apt = scratch / "apt"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text(source)
    (apt / "status").touch()
    options = {
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Acquire::Languages": "none",
        "APT::Install-Recommends": "false",
        # Whatever apt.conf of this machine allows: only packages that Debian signed.
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::AllowInsecureRepositories": "false",
        "Acquire::AllowWeakRepositories": "false",
        "APT::Sandbox::User": "root",  # its own user may not enter the private folder
        "APT::Update::Error-Mode": "any",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    _run("apt-get", "-q", *words, "update")
    _run("apt-get", "-q", "--yes", *words, "install", "--download-only", *_SLURM, *_MORE)
    return sorted((apt / "cache/archives").glob("*.deb"))


def _unpack(packages: Iterable[Path], scratch: Path) -> None:
    for package in packages:
        kind = "slurm" if package.name.partition("_")[0] in _SLURM else "needed"
        _run("dpkg-deb", "--extract", str(package), str(scratch / kind))


def _arrange(scratch: Path) -> Path:
    built = scratch / "built"
    (built / "bin").mkdir(parents=True)
    for program in scratch.glob("slurm/usr/*bin/*"):
        # Debian's alternatives would name slurmd-wlm slurmd.
        shutil.copy(program, built / "bin" / program.name.removesuffix("-wlm"))
    for libraries in (*scratch.glob("*/lib/*-linux-gnu*"), *scratch.glob("*/usr/lib/*-linux-gnu*")):
        shutil.copytree(libraries, built / "lib", symlinks=True, dirs_exist_ok=True)
    return built


def _relink(scratch: Path, built: Path, folder: Path) -> None:
    """Have programs and plugins load the libraries of `folder`, where they will be."""
    loader = next((built / "lib").glob("ld-linux*.so.*"))
    patchelf = (
        str(loader),
        *("--library-path", str(built / "lib")),
        str(scratch / "needed/usr/bin/patchelf"),
        # Unlike RUNPATH, RPATH holds also for what the libraries load.
        *("--force-rpath", "--set-rpath", f"{folder / PLUGINS}:{folder / 'lib'}"),
    )
    _run(*patchelf, *map(str, (built / PLUGINS).glob("*.so")))
    interpreter = str(folder / "lib" / loader.name)
    _run(*patchelf, "--set-interpreter", interpreter, *map(str, (built / "bin").iterdir()))


def _run(*argv: str) -> str:
    """The output of a command.

    Raises:
        TwinError: it failed; the message ends with the last lines of its output.
    """
    try:
        reply = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TwinError(f"installing Slurm: {error}") from error
    if reply.returncode:
        lines = reply.stderr.strip().splitlines()[-_LOG_LINES:]
        end = "".join(f"\n  {line}" for line in lines)
        raise TwinError(
            f"installing Slurm: {Path(argv[0]).name} failed{':' if end else ''}{end}",
            "Check the network and apt's package sources, then run the command again.",
        )
    return reply.stdout


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
    found = installed_programs(*names)
    missing = [name for name in names if name not in found]
    if missing:
        raise TwinError(
            f"a twin needs programs that are not installed here: {', '.join(missing)}",
            f"On Debian or Ubuntu, as root: {INSTALL}",
        )
    return found


def installed_programs(*names: str) -> dict[str, str]:
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
