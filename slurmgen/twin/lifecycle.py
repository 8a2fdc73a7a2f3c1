"""Start and stop a twin. All it starts has a pid file, and all it writes is in two folders."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from slurmgen.errors import TwinError
from slurmgen.site import Site
from slurmgen.twin import daemons, machine, processes, store
from slurmgen.twin.layout import Layout, groups
from slurmgen.twin.shape import assumptions
from slurmgen.twin.slurm_config import SLURM_FILES
from slurmgen.twin.ssh_config import known_hosts, ssh_config, sshd_config
from slurmgen.twin.store import Twin

READY_TIMEOUT = 30.0
STAND_INS = Path(__file__).parent / "stand_ins"
EXECUTABLE = 0o700


def up(site: Site, nodes: int, *, ssh: bool = False, gpu_type: str | None = None) -> Twin:
    """Start a twin and wait until all its nodes are idle.

    Args:
        site: the cluster whose shape it takes.
        nodes: how many nodes, for each different kind of node that the site's partitions have.
        ssh: start an sshd too, so that it can be reached as the login node is.
        gpu_type: give the nodes that type's GPUs and size, instead of the site's usual ones.

    Raises:
        TwinError: one runs already, a program is missing, or it did not start; then nothing is left of it.
    """
    with store.locked():
        old = store.load(site.name)
        if old and old.is_running:
            raise TwinError(f"a twin of {site.name} runs already", f"End it: slurmgen twin down --site {site.name}")
        _clear(site.name)
        return _start(site, nodes, ssh, gpu_type)


def down(site_name: str) -> None:
    """End a site's twin, the jobs on it, and all it wrote.

    Raises:
        TwinError: there is none.
    """
    with store.locked():
        if store.load(site_name) is None:
            store.find(site_name)
        _clear(site_name)


def _start(site: Site, nodes: int, ssh: bool, gpu_type: str | None) -> Twin:
    wanted = machine.SLURM_PROGRAMS + (machine.SSH_PROGRAMS if ssh else ())
    programs = machine.programs(*wanted)
    shapes = groups(site, nodes, gpu_type)
    folder = store.root() / site.name
    layout = Layout(
        site=site,
        groups=shapes,
        folder=folder,
        # Not TMPDIR, which may be long or private: a socket's path has 108 bytes, and munge wants
        # a folder that all may enter, below folders that nobody else may change.
        run=Path(tempfile.mkdtemp(prefix="slurmgen-", dir="/tmp")),  # noqa: S108
        user=machine.user_name(),
        hostname=socket.gethostname(),
        slurm_version=machine.slurm_version(programs["slurmctld"]),
        port=machine.free_ports(2 + sum(group.count for group in shapes)),
    )
    twin = _twin(layout, programs, gpu_type)
    try:
        _write(layout, ssh)
        store.save(twin)
        for daemon in twin.daemons:
            daemons.start(daemon)
        _wait_until_idle(twin, programs["sinfo"])
    except BaseException:
        _end(twin)
        raise
    return twin


def _twin(layout: Layout, programs: dict[str, str], gpu_type: str | None) -> Twin:
    has_ssh = "sshd" in programs
    return Twin(
        site=layout.site.name,
        folder=layout.folder,
        run=layout.run,
        nodes=layout.nodes,
        daemons=(
            daemons.munged(layout, programs["munged"]),
            *daemons.slurm(layout, programs["slurmctld"], programs["slurmd"]),
            *([daemons.sshd(layout, programs["sshd"])] if has_ssh else []),
        ),
        shapes={name: str(group.shape) for group in layout.groups for name in group.partitions},
        assumptions=tuple(assumptions(layout.site, gpu_type)),
        ssh_config=layout.folder / "ssh_config" if has_ssh else None,
        ssh_host=layout.ssh_hosts[0] if has_ssh else None,
    )


def _write(layout: Layout, ssh: bool) -> None:
    """Put everything in place that the daemons read."""
    folder, run = layout.folder, layout.run
    run.chmod(0o711)
    folder.mkdir(mode=0o700)
    (folder / "state").mkdir()
    for node in layout.nodes:
        (run / "spool" / node).mkdir(parents=True)
    for number in range(max(group.shape.gpus for group in layout.groups)):
        # Slurm wants a character device to number each GPU by, and follows a link to one.
        (run / f"gpu{number}").symlink_to("/dev/null")
    for name, text in SLURM_FILES.items():
        (folder / name).write_text(text(layout))
    (folder / "task_prolog").chmod(EXECUTABLE)
    shutil.copytree(STAND_INS, folder / "stand_ins", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "stand_ins").iterdir():
        path.chmod(EXECUTABLE)
    (run / "munge.key").touch(mode=0o600)
    (run / "munge.key").write_bytes(os.urandom(1024))
    if ssh:
        _write_ssh(layout)


def _write_ssh(layout: Layout) -> None:
    folder = layout.folder
    for name in ("host_key", "id"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "slurmgen twin", "-f", str(folder / name)]
        subprocess.run(argv, check=True, timeout=10, stdout=subprocess.DEVNULL)
    (folder / "sshd_config").write_text(sshd_config(layout))
    (folder / "ssh_config").write_text(ssh_config(layout))
    (folder / "known_hosts").write_text(known_hosts(layout, (folder / "host_key.pub").read_text()))
    if os.getuid() == 0:
        # Where root's sshd keeps its unprivileged half; Debian makes it when the service starts.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def _wait_until_idle(twin: Twin, sinfo: str) -> None:
    deadline = time.monotonic() + READY_TIMEOUT
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        for daemon in twin.daemons:
            if daemon.pid is None:
                raise daemons.failure(daemon)
        states = _node_states(twin, sinfo)
        if set(twin.nodes) == {name for name, state in states.items() if state == "idle"}:
            return
        time.sleep(0.1)
    told = ", ".join(f"{name} is {states.get(name, 'unknown')}" for name in twin.nodes)
    raise TwinError(f"the twin of {twin.site} was not ready after {READY_TIMEOUT:.0f} s: {told}")


def _node_states(twin: Twin, sinfo: str) -> dict[str, str]:
    argv = [sinfo, "--noheader", "--Node", "--format=%N %T"]
    reply = subprocess.run(
        argv, env={**os.environ, **twin.environ()}, capture_output=True, text=True, timeout=READY_TIMEOUT,
        check=False,
    )  # fmt: skip
    return dict(pair for line in reply.stdout.splitlines() if len(pair := line.split()) == 2)


def _clear(site_name: str) -> None:
    """End what is left of a site's twin, if anything is."""
    twin = store.load(site_name)
    if twin:
        _end(twin)
    shutil.rmtree(store.root() / site_name, ignore_errors=True)


def _end(twin: Twin) -> None:
    """End the jobs and daemons of a twin and remove what it wrote."""
    ours, others = [], []
    for daemon in twin.daemons:
        (ours if daemon.name.startswith("slurm") else others).append(daemon)
    daemons.stop(*ours)
    # Steps outlive their slurmd. Each listens on a socket in the spool folder, which tells its process.
    steps = [pid for path in twin.run.glob("spool/*/*") if (pid := processes.listener(path))]
    processes.end([member for pid in steps for member in processes.family(pid)], grace=0)
    daemons.stop(*others)
    for folder in (twin.run, twin.folder):
        shutil.rmtree(folder, ignore_errors=True)
