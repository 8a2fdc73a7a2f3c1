"""The database of a twin's accounting: slurmdbd, and a MariaDB that only this user reaches."""

import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from slurmgen.errors import TwinError
from slurmgen.paths import cache_folder, make_private, publish
from slurmgen.twin import commands
from slurmgen.twin.daemons import Daemon
from slurmgen.twin.layout import Layout
from slurmgen.twin.store import Twin

_TIMEOUT = 120.0
_SMALL = ("--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M")
_SMALL_AND_FAST = (
    *_SMALL,
    *("--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M", "--performance-schema=OFF"),
    # Its data need not outlive the machine.
    *("--innodb-use-native-aio=0", "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"),
)


def create(layout: Layout, server: str, installer: str) -> None:
    """Make the database, whose root needs no password: only this user can reach its socket.

    It is a copy of an empty one in the user's cache: making one takes 0.6 to 2 s, a copy 0.05 s.

    Raises:
        TwinError: it failed.
        ConfigError: another user may write to the cache folder.
    """
    cache = make_private(cache_folder() / "twin")
    version = hashlib.sha256(_run(server, "--version").encode()).hexdigest()[:16]
    empty = cache / f"database-{version}"
    if not empty.is_dir():
        with TemporaryDirectory(prefix=".unfinished-", dir=cache) as name:
            _initialize(Path(name) / "data", layout.user, installer)
            publish(Path(name) / "data", empty)
        for other in set(cache.glob("database-*")) - {empty}:
            shutil.rmtree(other)
    shutil.copytree(empty, layout.run / "database")


def _initialize(data: Path, user: str, installer: str) -> None:
    _run(
        *(installer, "--no-defaults", f"--datadir={data}", f"--user={user}"),
        *("--auth-root-authentication-method=normal", "--skip-test-db", f"--tmpdir={data.parent}", *_SMALL),
    )


def _run(*argv: str) -> str:
    try:
        reply = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TwinError(f"{argv[0]}: {error}") from error
    if reply.returncode:
        raise TwinError(f"{argv[0]} failed: {(reply.stderr or reply.stdout).strip()}")
    return reply.stdout


def mariadbd(layout: Layout, program: str) -> Daemon:
    """The database server, which does not go into the background by itself."""
    run, log = layout.run, layout.folder / "mariadbd.log"
    argv = (
        *(program, "--no-defaults", f"--datadir={run}/database", f"--socket={run}/database.socket"),
        *(f"--pid-file={run}/mariadbd.pid", f"--log-error={log}", f"--user={layout.user}"),
        *("--skip-networking", f"--tmpdir={run}", *_SMALL_AND_FAST),
    )
    return Daemon(
        name="mariadbd",
        argv=("sh", "-c", 'setsid "$@" </dev/null >/dev/null 2>&1 &', "sh", *argv),
        mark=f"{run}/mariadbd.pid",
        pid_file=f"{run}/mariadbd.pid",
        log_file=str(log),
    )


def slurmdbd(layout: Layout) -> Daemon:
    """Slurm's database daemon."""
    run = layout.run
    return Daemon(
        name="slurmdbd",
        argv=(f"{run}/slurmdbd",),  # a link, since no argument of slurmdbd names its files
        mark=f"{run}/slurmdbd",
        pid_file=f"{run}/slurmdbd.pid",
        log_file=str(layout.folder / "slurmdbd.log"),
        # It has no option for the socket; its client library reads this variable.
        environ={"SLURM_CONF": str(layout.daemons_conf), "MYSQL_UNIX_PORT": f"{run}/database.socket"},
    )


def wait_for_replies(twin: Twin) -> None:
    """Wait until slurmdbd replies to a command.

    Raises:
        TwinError: it does not.
    """
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            commands.slurm(twin, "sacctmgr", "--noheader", "show", "cluster")
            return
        except TwinError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.1)


def manage(twin: Twin, lines: Iterable[str]) -> None:
    """Run commands of sacctmgr at the same time: each waits about 0.4 s, nearly all of it for replies.

    Raises:
        TwinError: one failed.
    """
    with ThreadPoolExecutor() as pool:
        for reply in [
            pool.submit(commands.slurm, twin, "sacctmgr", "--immediate", *line.split()) for line in lines
        ]:
            reply.result()
