"""Install another Slurm release from Debian's packages, beside that of this machine and without root.

The packages are unpacked, not installed: no script of theirs runs and no file outside the folder changes.
Their programs are then set to use the C library and the libraries that came with them, by absolute path. So
daemons and commands run directly in this machine's file system, and jobs find the project, the Python
environment and the programs that they find under the machine's own Slurm; in a chroot they would not.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from slurmgen.errors import TwinError
from slurmgen.paths import publish

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


def install(release: str, folder: Path, report: Callable[[str], None]) -> None:
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
    """The address of the Debian packages that this machine uses."""
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
    """Download the packages with all they depend on, as if nothing were installed here."""
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
    """Unpack the packages with a twin's programs into one folder, and those that they need into another."""
    for package in packages:
        kind = "slurm" if package.name.partition("_")[0] in _SLURM else "needed"
        _run("dpkg-deb", "--extract", str(package), str(scratch / kind))


def _arrange(scratch: Path) -> Path:
    """The programs in `bin` and the libraries in `lib`."""
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
