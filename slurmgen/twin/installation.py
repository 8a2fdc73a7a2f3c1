"""Installation: the Slurm programs that a twin runs, of this machine or of another release."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import TwinError
from slurmgen.paths import cache_folder, make_private
from slurmgen.twin import debian, machine


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
            return machine.programs(*names)
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
    return Installation(_version(machine.programs("slurmctld")["slurmctld"]))


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
    if release not in debian.RELEASES:
        known = sorted({*debian.RELEASES, *([str(here)] if here else [])})
        raise TwinError(f"a twin cannot run Slurm {release}", f"Give one of {', '.join(known)}.")
    folder = make_private(cache_folder() / "slurm") / f"{release}-{os.uname().machine}"
    if not folder.is_dir():
        debian.install(release, folder, report)
    return _of(folder, release)


def _here() -> Installation | None:
    try:
        return installed()
    except TwinError:
        return None


def _of(folder: Path, release: str) -> Installation:
    found = Installation(_version(str(folder / "bin/slurmctld")), folder / "bin", folder / debian.PLUGINS)
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
