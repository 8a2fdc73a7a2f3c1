"""Start and stop a twin. All its processes have pid files, and all its files are in two folders."""

import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from slurmgen.errors import TwinError
from slurmgen.sites.model import Site
from slurmgen.twin import accounting, configuration, daemons, installation, store
from slurmgen.twin.daemons import Daemon
from slurmgen.twin.installation import Installation, installed
from slurmgen.twin.layout import LOCALHOST, Group, Layout, assumptions, groups
from slurmgen.twin.store import Twin

READY_TIMEOUT = 120.0


def up(
    site: Site,
    nodes: int,
    *,
    ssh: bool = False,
    gpu_type: str | None = None,
    slurm: Installation | None = None,
    accounts: Sequence[str] = (),
) -> Twin:
    """Start a twin and wait until all its nodes are idle.

    Args:
        nodes: number of nodes for each kind of node in the site's partitions.
        ssh: also start an sshd, which stands for the login node's.
        gpu_type: give the nodes the GPUs and size of that type, instead of the usual ones.
        slurm: the Slurm to run; by default, that of this machine.
        accounts: the accounts that jobs may be charged to; any if there are none.

    If the twin runs already, only the daemons that have died are restarted; the options have no effect.

    Raises:
        TwinError: it runs already, a program is missing, or it did not start; then nothing of it remains.
    """
    with store.locked():
        old = store.load(site.name)
        if old and old.is_running and old.is_complete:
            return _restarted(old)
        slurm = slurm or installed()
        programs = slurm.programs(*installation.SLURM_PROGRAMS) | installation.programs(
            *(installation.SSH_PROGRAMS if ssh else ())
        )
        wanted = accounting.needed(site, tuple(accounts))
        programs |= _accounting_programs(slurm) if wanted else {}
        shape = groups(site, nodes, gpu_type)
        _clear(site.name)
        with installation.free_ports(3 + sum(group.count for group in shape)) as port:
            layout = _layout(site, shape, slurm, port, tuple(accounts), accounting="slurmdbd" in programs)
            return _start(layout, programs, gpu_type)


def _layout(
    site: Site,
    shape: tuple[Group, ...],
    slurm: Installation,
    port: int,
    accounts: tuple[str, ...],
    *,
    accounting: bool,
) -> Layout:
    hostname = socket.gethostname()
    return Layout(
        site=site,
        groups=shape,
        folder=store.root() / site.name,
        user=installation.user_name(),
        hostname=hostname,
        loopback=installation.loopback(hostname),
        slurm=slurm,
        accounting=accounting,
        accounts=accounts,
        port=port,
        # Not TMPDIR, which may be long: the path of a socket has 108 bytes.
        run=Path(tempfile.mkdtemp(prefix="slurmgen-", dir="/tmp")),
    )


def down(site_name: str) -> None:
    """End a site's twin and its jobs, and remove its files.

    Raises:
        TwinError: the site has none.
    """
    with store.locked():
        if store.load(site_name) is None:
            store.find(site_name)
        _clear(site_name)


def _start(layout: Layout, programs: dict[str, str], gpu_type: str | None) -> Twin:
    twin = _twin(layout, programs, gpu_type)
    try:
        configuration.write_files(layout, programs)
        store.save(structs.replace(twin, is_complete=False))
        for daemon in twin.daemons:
            daemons.start(daemon)
            if daemon.name == "slurmdbd":
                daemons.wait_for_port(daemon, layout.address, layout.dbd_port)
                accounting.manage(twin, accounting.registration(layout))
        if layout.accounting:
            # slurmdbd sends each change once: slurmctld would never know what it could not receive.
            daemons.wait_for_port(_controller(twin), layout.address, layout.port)
            for command in accounting.association(layout):
                accounting.manage(twin, [command])
        _wait_until_idle(twin)
        if layout.accounting:
            accounting.manage(twin, accounting.gpu_limits(layout))
            if layout.loopback not in {None, LOCALHOST}:
                # slurmdbd sends changes to the address from which slurmctld connects, 127.0.0.1.
                _restart_controller(twin)
        store.save(twin)
    except BaseException:
        _end(twin)
        raise
    return twin


def _restart_controller(twin: Twin) -> None:
    daemons.stop(_controller(twin))
    daemons.start(_controller(twin))
    _wait_until_idle(twin)


def _controller(twin: Twin) -> Daemon:
    (controller,) = (daemon for daemon in twin.daemons if daemon.name == "slurmctld")
    return controller


def _restarted(twin: Twin) -> Twin:
    dead = [daemon for daemon in twin.daemons if daemon.pid is None]
    if not dead:
        hint = f"End it: slurmgen twin down --site {twin.site}"
        raise TwinError(f"a twin of {twin.site} runs already", hint)
    for daemon in dead:
        daemons.start(daemon)
        if daemon.name == "slurmdbd":
            accounting.wait_for_replies(twin)
    _wait_until_idle(twin)
    return twin


def _twin(layout: Layout, programs: dict[str, str], gpu_type: str | None) -> Twin:
    ssh = "sshd" in programs
    return Twin(
        site=layout.site.name,
        folder=layout.folder,
        programs=layout.slurm.bin,
        run=layout.run,
        nodes=layout.nodes,
        daemons=(
            daemons.munged(layout, programs["munged"]),
            *(
                [accounting.mariadbd(layout, programs["mariadbd"]), accounting.slurmdbd(layout)]
                if layout.accounting
                else []
            ),
            *daemons.slurm(layout, programs["slurmctld"], programs["slurmd"]),
            *([daemons.sshd(layout, programs["sshd"])] if ssh else []),
        ),
        shapes={name: str(group.shape) for group in layout.groups for name in group.partitions},
        assumptions=(
            *assumptions(layout.site, gpu_type, enforced=layout.accounting),
            *_lacks_accounting(layout),
            *_listens(layout),
        ),
        ssh_config=layout.folder / "ssh_config" if ssh else None,
        ssh_host=layout.ssh_hosts[0] if ssh else None,
    )


def _lacks_accounting(layout: Layout) -> list[str]:
    if layout.accounting or not accounting.needed(layout.site, layout.accounts):
        return []
    return [
        "accounts, QoS and limits are not enforced without slurmdbd and MariaDB; "
        f"on Debian or Ubuntu, as root: {installation.INSTALL_ACCOUNTING}"
    ]


def _accounting_programs(slurm: Installation) -> dict[str, str]:
    try:
        return slurm.programs(*installation.ACCOUNTING_PROGRAMS) | installation.programs(
            *installation.DATABASE_PROGRAMS
        )
    except TwinError:
        return {}


def _listens(layout: Layout) -> list[str]:
    """A note if the twin listens on more than the loopback, and how to prevent it."""
    if layout.loopback == LOCALHOST:
        return []
    who = "srun listens, while it runs," if layout.loopback else "its Slurm listens"
    return [
        f"{who} on every address of this machine, since its name {layout.hostname} is not {LOCALHOST}; "
        f"a first line `{LOCALHOST} {layout.hostname}` in /etc/hosts keeps it on the loopback"
    ]


def _wait_until_idle(twin: Twin) -> None:
    deadline = time.monotonic() + READY_TIMEOUT
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        for daemon in twin.daemons:
            if daemon.pid is None:
                raise daemons.failure(daemon)
        with suppress(TwinError):  # the controller does not reply yet
            reply = store.slurm(twin, "sinfo", "--noheader", "--Node", "--format=%N %T")
            states = dict(line.split(maxsplit=1) for line in reply.splitlines())
        if set(twin.nodes) == {name for name, state in states.items() if state == "idle"}:
            return
        time.sleep(0.1)
    not_ready = ", ".join(f"{name} is {states.get(name, 'unknown')}" for name in twin.nodes)
    raise TwinError(f"the twin of {twin.site} was not ready after {READY_TIMEOUT:.0f} s: {not_ready}")


def _clear(site_name: str) -> None:
    twin = store.load(site_name)
    if twin:
        _end(twin)
    shutil.rmtree(store.root() / site_name, ignore_errors=True)


def _end(twin: Twin) -> None:
    # These would first write what is removed next; with accounting that takes one to two seconds.
    writers = [daemon for daemon in twin.daemons if daemon.name in {"slurmctld", "slurmdbd", "mariadbd"}]
    daemons.stop(*writers, grace=0)
    daemons.stop(*twin.daemons)
    # One that was interrupted in its start may have no pid file yet.
    daemons.end(daemons.with_any(daemon.mark for daemon in twin.daemons), grace=0)
    # Steps outlive their slurmd. Each listens on a socket in the spool folder, which identifies its process.
    steps = [pid for path in twin.run.glob("spool/*/*") if (pid := daemons.listener(path))]
    daemons.end([member for pid in steps for member in daemons.family(pid)], grace=0)
    for folder in (twin.run, twin.folder):
        shutil.rmtree(folder, ignore_errors=True)
