"""A twin's accounting: MariaDB and slurmdbd."""

import hashlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from slurmgen.errors import TwinError
from slurmgen.files import cache_folder, make_private, publish
from slurmgen.sites.model import Limits, Partition, Qos, Site
from slurmgen.twin import store
from slurmgen.twin.daemons import Daemon
from slurmgen.twin.layout import Layout, partitions
from slurmgen.twin.store import Twin

USUAL_ACCOUNT = "twin"
"The account that all jobs are charged to if the twin accepts any account."
USUAL_QOS = "normal"
"The QoS of Slurm itself, which jobs have that name none."
_ACCOUNT = re.compile(r"\w[\w.@+-]*")
_REPLACES = ("OverPartQOS", "PartitionTimeLimit", "PartitionMaxNodes", "PartitionMinNodes")
_INVALID_ACCOUNT = 2045
"Slurm's error number."


def needed(site: Site, accounts: tuple[str, ...] = ()) -> bool:
    """Whether a twin needs accounting to refuse the jobs that the site refuses.

    Raises:
        TwinError: an account has no valid name.
    """
    for account in accounts:
        if not _ACCOUNT.fullmatch(account):
            raise TwinError(f"{account!r} is not a valid account", "Use letters, digits and _ . @ + - in it.")
    return bool(
        (accounts or site.qos or site.qos_required or site.limits.max_gpus)
        or any(part.has_gpus and (part.max_gpus or part.min_gpus) for part in partitions(site).values())
    )


def partition_qos(name: str, partition: Partition) -> str | None:
    """The QoS with a partition's limits that slurm.conf cannot have; None if it has none."""
    limited = partition.has_gpus and (partition.max_gpus or partition.min_gpus)
    return f"partition_{name}" if limited or partition.max_jobs else None


def slurm_conf(layout: Layout) -> str:
    """The lines of slurm.conf."""
    return f"""
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={layout.address}
AccountingStoragePort={layout.dbd_port}
# Not a password, but the munged that vouches to slurmdbd.
AccountingStoragePass={layout.run}/munge.socket
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobSubmitPlugins=lua"""


def slurmdbd_conf(layout: Layout) -> str:
    """slurmdbd.conf: a database that is reached through a socket file."""
    plugins = f'PluginDir="{layout.slurm.plugins}"\n' if layout.slurm.plugins else ""
    listens = "CommunicationParameters=NoInAddrAny\n" if layout.loopback else ""
    return f"""AuthType=auth/munge
AuthInfo=socket={layout.run}/munge.socket
DbdHost={layout.hostname}
DbdAddr={layout.address}
DbdPort={layout.dbd_port}
SlurmUser={layout.user}
Parameters=PreserveCaseUser
PidFile={layout.run}/slurmdbd.pid
LogFile="{layout.folder}/slurmdbd.log"
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
{plugins}{listens}"""


def job_submit_lua(layout: Layout) -> str:
    """job_submit.lua: what sites check with such a script too, since Slurm has no option for it."""
    if not layout.accounts:
        check = f'  job.account = "{USUAL_ACCOUNT}" -- any account is accepted\n'
    elif layout.site.account.required:
        message = f"{layout.site.name}: a job must name its account (--account)"
        check = f"""  if job.account == nil then
    slurm.log_user("{message}")
    return {_INVALID_ACCOUNT}
  end
"""
    else:
        check = ""
    return f"""function slurm_job_submit(job, partitions, uid)
{check}  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
"""


def registration(layout: Layout) -> Iterator[str]:
    """The commands for sacctmgr before slurmctld starts: it needs its cluster and the QoS of partitions."""
    yield f"add cluster {layout.site.name}"
    yield from (_qos(name, limits) for name, limits in _all_qos(layout.site).items())


def association(layout: Layout) -> Iterator[str]:
    """The commands for sacctmgr that let this user submit jobs, one after the other."""
    accounts = ",".join(layout.accounts or (USUAL_ACCOUNT,))
    yield f"add account {accounts} {' '.join(_limits_of_accounts(layout.site))}"
    yield f"add user {layout.user} Account={accounts}"


def gpu_limits(layout: Layout) -> Iterator[str]:
    """The commands for sacctmgr once slurmctld has registered GPUs, which can be limited only then."""
    site = layout.site
    for name, limits in _all_qos(site).items():
        if settings := [*_tres("gres/gpu", limits.max_gpus, limits.min_gpus)]:
            yield f"modify qos where name={name} set {' '.join(settings)}"
    if site.limits.max_gpus:
        accounts = ",".join(layout.accounts or (USUAL_ACCOUNT,))
        yield f"modify account where name={accounts} set MaxTRESPerJob=gres/gpu={site.limits.max_gpus}"


def _all_qos(site: Site) -> dict[str, Limits]:
    own = {
        qos: Limits(max_gpus=part.max_gpus, min_gpus=part.min_gpus, max_jobs=part.max_jobs)
        for name, part in partitions(site).items()
        if (qos := partition_qos(name, part))
    }
    return {USUAL_QOS: Limits(), **site.qos, **own}


def _qos(name: str, limits: Limits) -> str:
    # Without DenyOnLimit a job over a limit would stay pending.
    replaces = isinstance(limits, Qos) and limits.replaces_partition_limits
    settings = [
        f"Flags={','.join(('DenyOnLimit', *(_REPLACES if replaces else ())))}",
        *([f"MaxWall={limits.max_time}"] if limits.max_time else []),
        *([f"MaxSubmitJobsPerUser={limits.max_jobs}"] if limits.max_jobs else []),
        *_tres("node", limits.max_nodes, limits.min_nodes),
    ]
    verb = f"modify qos where name={name} set" if name == USUAL_QOS else f"add qos {name}"
    return f"{verb} {' '.join(settings)}"


def _limits_of_accounts(site: Site) -> Iterator[str]:
    usual = () if site.qos_required or site.default_qos or USUAL_QOS in site.qos else (USUAL_QOS,)
    yield f"QOS={','.join([*site.qos, *usual])}"
    yield from (f"DefaultQOS={name}" for name in site.default_qos[:1])
    if site.limits.max_jobs:
        yield f"MaxSubmitJobs={site.limits.max_jobs}"


def _tres(kind: str, most: int | None, least: int | None) -> Iterator[str]:
    if most:
        yield f"MaxTRESPerJob={kind}={most}"
    if least:
        yield f"MinTRESPerJob={kind}={least}"


_TIMEOUT = 120.0
_SMALL = ("--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M")
_SMALL_AND_FAST = (
    *_SMALL,
    *("--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M", "--performance-schema=OFF"),
    # Its data need not outlive the machine.
    *("--innodb-use-native-aio=0", "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"),
)


def create_database(layout: Layout, server: str, installer: str) -> None:
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
            store.slurm(twin, "sacctmgr", "--noheader", "show", "cluster")
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
            pool.submit(store.slurm, twin, "sacctmgr", "--immediate", *line.split()) for line in lines
        ]:
            reply.result()
