"""A twin with accounting: its own MariaDB and slurmdbd, which end with the block.

with twin("generic") as testbed, accounting(testbed):
    testbed.run("sacct", "--jobs=12")

The database listens on a socket file in a private folder and nowhere else; slurmdbd on a loopback port.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from getpass import getuser
from pathlib import Path
from socket import create_connection

from slurmgen.twin import daemons
from slurmgen.twin.machine import SBIN
from tests.support.sshd import free_port
from tests.support.twins import Testbed, eventually

ACCOUNT = "ours"
"The account that our user is charged to when none is named."
REMEMBERED = 10
"Seconds for which slurmctld remembers a job that ended; after that, only accounting does."
FEW_GPUS = "few"
"A QoS with one GPU a user."
CONFIGURATION = f"""AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={{port}}
# Not a password, but the munged that vouches to slurmdbd.
AccountingStoragePass={{munge}}
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
MinJobAge={REMEMBERED}
"""
SMALL = (
    *("--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M", "--key-buffer-size=1M"),
    *("--aria-pagecache-buffer-size=1M", "--performance-schema=OFF", "--innodb-use-native-aio=0"),
    *("--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"),
)


@contextmanager
def accounting(testbed: Testbed) -> Iterator[None]:
    """Add accounting to a running twin: associations, limits and QoS that Slurm enforces."""
    with (
        tempfile.TemporaryDirectory(prefix="slurmdbd-", dir="/tmp") as name,
        _database(Path(name)) as socket,
        _slurmdbd(testbed, socket, free_port()) as port,
    ):
        _configure(testbed, port)
        _register(testbed)
        _restart(testbed)
        _limit(testbed)
        yield


def add(testbed: Testbed, *words: str) -> None:
    """Have sacctmgr add something; it shows no prompt."""
    testbed.run("sacctmgr", "--immediate", "add", *words)


@contextmanager
def _database(folder: Path) -> Iterator[Path]:
    """A MariaDB in `folder` whose root needs no password: only we can reach its socket."""
    data, socket = folder / "data", folder / "socket"
    install = [
        *("mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={getuser()}"),
        *("--auth-root-authentication-method=normal", "--skip-test-db", *SMALL[:2]),
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=60)
    files = [f"--datadir={data}", f"--socket={socket}", f"--pid-file={folder}/pid"]
    server = [
        _program("mariadbd"),
        "--no-defaults",
        *files,
        "--skip-networking",
        f"--user={getuser()}",
        *SMALL,
    ]
    with _running(server, folder / "mariadbd.log", dict(os.environ)):
        ping = ["mariadb-admin", "--no-defaults", "--user=root", f"--socket={socket}", "ping"]
        eventually(lambda: subprocess.run(ping, capture_output=True, timeout=10).returncode == 0)
        yield socket


@contextmanager
def _slurmdbd(testbed: Testbed, socket: Path, port: int) -> Iterator[int]:
    """A slurmdbd with that database, which authenticates with the twin's munged."""
    twin = testbed.twin
    conf = twin.folder / "slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(
        f"AuthType=auth/munge\nAuthInfo=socket={twin.run}/munge.socket\n"
        f"DbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort={port}\nSlurmUser={getuser()}\n"
        f"PidFile={twin.run}/slurmdbd.pid\nLogFile={twin.folder}/slurmdbd.log\n"
        "StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=root\nStorageLoc=accounts\n"
    )
    # It has no option for the socket; its client library takes this variable.
    environ = testbed.environ | {"MYSQL_UNIX_PORT": str(socket)}
    with _running([_program("slurmdbd"), "-D"], twin.folder / "slurmdbd.err", environ):
        # Not sacctmgr, which would wait long for who does not answer yet.
        eventually(lambda: _answers(port))
        yield port


def _register(testbed: Testbed) -> None:
    """One cluster, and one account for this user."""
    add(testbed, "cluster", testbed.twin.site)
    add(testbed, "account", ACCOUNT)
    add(testbed, "user", getuser(), f"Account={ACCOUNT}", f"DefaultAccount={ACCOUNT}")


def _limit(testbed: Testbed) -> None:
    """A QoS for one GPU at a time; GPUs can be limited once slurmctld has registered them."""
    add(testbed, "qos", FEW_GPUS, "MaxTRESPerUser=gres/gpu=1")
    testbed.run("sacctmgr", "--immediate", "modify", "account", ACCOUNT, "set", f"QOS=normal,{FEW_GPUS}")


def _restart(testbed: Testbed) -> None:
    """Restart the twin's controller and nodes, which read the accounting options at their start."""
    slurm = [one for one in testbed.twin.daemons if one.name.startswith("slurm")]
    daemons.stop(*slurm)
    for daemon in slurm:
        daemons.start(daemon)
    nodes = set(testbed.twin.nodes)
    eventually(
        lambda: (
            nodes
            == set(testbed.tried("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N").split())
        )
    )


def _configure(testbed: Testbed, port: int) -> None:
    conf = testbed.twin.slurm_conf
    kept = [line for line in conf.read_text().splitlines() if not line.startswith("MinJobAge=")]
    conf.write_text(
        "\n".join([*kept, CONFIGURATION.format(port=port, munge=f"{testbed.twin.run}/munge.socket")])
    )


@contextmanager
def _running(argv: Sequence[str], log: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """A process that ends with the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environ)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _answers(port: int) -> bool:
    with suppress(OSError), create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _program(name: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])
    found = shutil.which(name, path=path)
    assert found, f"{name} is not installed"
    return found
