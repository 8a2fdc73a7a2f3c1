"""The files of a twin: Slurm's, SSH's and its stand-ins."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from slurmgen.containers import ENGINES
from slurmgen.containers.base import bind_variables
from slurmgen.twin import accounting
from slurmgen.twin.layout import (
    DEFAULT_PARTITIONS,
    LOCALHOST,
    Group,
    Layout,
    features,
    licenses,
    partitions,
    temporary_disk,
)

STAND_INS = {
    "module": "module.sh",
    "ml": "module.sh",
    "apptainer": "engines.py",
    "singularity": "engines.py",
    "podman-hpc": "engines.py",
    "shifter": "engines.py",
    "shifterimg": "engines.py",
    "enroot": "srun.py",
    "twin-nvidia-smi": "nvidia_smi.sh",
}
"They come last in PATH."
SRUN = "srun.py"
"It comes first in PATH, where a plug-in of Slurm runs the containers."
EXECUTABLE = 0o700


def write_files(layout: Layout, programs: Mapping[str, str]) -> None:
    """Make a twin's two folders and their content."""
    layout.folder.mkdir(mode=0o700)
    (layout.folder / "state").mkdir()
    for name, text in SLURM_FILES.items():
        (layout.folder / name).write_text(text(layout))
    if layout.daemons_conf.name not in SLURM_FILES:
        layout.daemons_conf.write_text(DAEMONS_CONF)
    (layout.folder / "task_prolog").chmod(EXECUTABLE)
    if layout.bash_env:
        layout.bash_env.write_text(bash_env(layout))
    _write_stand_ins(layout.folder / "stand_ins", STAND_INS)
    if plugins := plugin_folder(layout):
        _write_stand_ins(plugins, {"srun": SRUN})
    _write_run(layout)
    if layout.accounting:
        _write_accounting(layout, programs)
    if "sshd" in programs:
        _write_ssh(layout)


def _write_accounting(layout: Layout, programs: Mapping[str, str]) -> None:
    (layout.folder / "job_submit.lua").write_text(accounting.job_submit_lua(layout))
    (layout.folder / "slurmdbd.conf").touch(mode=0o600)  # slurmdbd refuses one that others may read
    (layout.folder / "slurmdbd.conf").write_text(accounting.slurmdbd_conf(layout))
    (layout.run / "slurmdbd").symlink_to(programs["slurmdbd"])
    accounting.create_database(layout, programs["mariadbd"], programs["mariadb-install-db"])


def _write_stand_ins(folder: Path, names: dict[str, str]) -> None:
    folder.mkdir()
    for name, source in names.items():
        shutil.copyfile(Path(__file__).parent / "stand_ins" / source, folder / name)
        (folder / name).chmod(EXECUTABLE)


def _write_run(layout: Layout) -> None:
    run = layout.run
    for node in layout.nodes:
        (run / "spool" / node).mkdir(parents=True)
    for number in range(max(group.shape.gpus for group in layout.groups)):
        # Slurm counts GPUs by character devices, which it does not open; it follows links.
        (run / f"gpu{number}").symlink_to("/dev/null")
    (run / "munge.key").touch(mode=0o600)
    (run / "munge.key").write_bytes(os.urandom(1024))


def _write_ssh(layout: Layout) -> None:
    folder = layout.folder
    for name in ("host_key", "id"):
        argv = [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "slurmgen twin",
            "-f",
            f"{folder}/{name}",
        ]
        subprocess.run(argv, check=True, timeout=60)
    (folder / "sshd_config").write_text(sshd_config(layout))
    (folder / "ssh_config").write_text(ssh_config(layout))
    (folder / "known_hosts").write_text(known_hosts(layout, (folder / "host_key.pub").read_text()))
    if os.getuid() == 0:
        # The folder for sshd's privilege separation; Debian's service makes it when it starts.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


# Without it, on every address of the machine.
_LISTENS_ON_HOST_NAME = "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"
# For slurmctld and slurmd if the host name resolves to an address such as 127.0.1.1. srun must not listen
# there: slurmd would reply to 127.0.0.1, from where srun connects.
DAEMONS_CONF = f"Include slurm.conf\n{_LISTENS_ON_HOST_NAME}\n"
_MANY_LICENSES = 1000
"Of each license that the profile names; how many the site has is not known."


def slurm_conf(layout: Layout) -> str:
    """slurm.conf: the cluster, its nodes and its partitions."""
    default = layout.site.default_partition if layout.site.partitions else next(iter(DEFAULT_PARTITIONS))
    by_name = {name: group for group in layout.groups for name in group.partitions}
    return "\n".join(
        [
            _cluster(layout),
            *(_nodes(layout, group) for group in layout.groups),
            *(
                _partition(layout, name, by_name[name], is_default=name == default)
                for name in partitions(layout.site)
            ),
            "",
        ]
    )


def gres_conf(layout: Layout) -> str:
    """gres.conf: the GPUs, each a character device that is never opened."""
    lines = ["AutoDetect=off"]
    for group in layout.groups:
        if group.shape.gpus:
            kind = f" Type={group.shape.gpu_type}" if group.shape.gpu_type else ""
            last = group.shape.gpus - 1
            files = f"{layout.run}/gpu{f'[0-{last}]' if last else '0'}"
            lines.append(f"NodeName={group.hostlist} Name=gpu{kind} File={files}")
    return "\n".join([*lines, ""])


def cgroup_conf(layout: Layout) -> str:
    """cgroup.conf: no use of cgroups, which containers and ordinary users cannot change."""
    # CgroupPlugin=disabled came with 23.11; CgroupAutomount is gone from 24.05's manual page.
    return "CgroupPlugin=disabled\n" if layout.slurm.version >= (23, 11) else "CgroupAutomount=no\n"


def plugin_folder(layout: Layout) -> Path | None:
    """The folder of an srun with the options of the site's containers; None if they add none."""
    container = layout.site.container
    engines = (container.engine, *container.engines) if container else ()
    return layout.folder / "plugins" if any(ENGINES[name].srun_option for name in engines) else None


def task_prolog(layout: Layout) -> str:
    """Slurm's TaskProlog: what it prints becomes the environment of batch scripts and steps alike."""
    stand_ins = layout.folder / "stand_ins"
    container = layout.site.container
    set_by_modules = "".join(
        f'echo "export {name}=${{{name}:-{stand_ins}}}"\n'
        for name in (bind_variables(container) if container else ())
    )
    first = f"{folder}:" if (folder := plugin_folder(layout)) else ""
    path = first + layout.slurm.path("${PATH:-/usr/local/bin:/usr/bin:/bin}")
    bash_env = f'echo "export BASH_ENV={layout.bash_env}"\n' if layout.bash_env else ""
    return f"""#!/bin/sh
# Stand-ins come last in PATH, so that installed programs are used.
case ":$PATH:" in
  *":{stand_ins}:"*) ;;
  *) echo "export PATH={path}:{stand_ins}" ;;
esac
# Many CPUs of a node may exist in name only: one thread per rank, unless the job sets another number.
echo "export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-1}}"
# Its GPUs exist in name only too; without this, accelerate would start processes without a group.
echo "export ACCELERATE_USE_CPU=${{ACCELERATE_USE_CPU:-true}}"
# Not that of the daemons.
echo "export SLURM_CONF={layout.folder}/slurm.conf"
{bash_env}{set_by_modules}"""


def bash_env(layout: Layout) -> str:
    """The file for BASH_ENV: Bash reads it after a login shell's profile, which may set PATH anew."""
    return f"""case ":$PATH:" in
  ":{layout.slurm.bin}:"*) ;;
  *) export PATH="{layout.slurm.path("$PATH")}" ;;
esac
"""


SLURM_FILES: dict[str, Callable[[Layout], str]] = {
    "slurm.conf": slurm_conf,
    "gres.conf": gres_conf,
    "cgroup.conf": cgroup_conf,
    "task_prolog": task_prolog,
}


def _cluster(layout: Layout) -> str:
    folder, run = layout.folder, layout.run
    communication = f"\n{_LISTENS_ON_HOST_NAME}" if layout.loopback == LOCALHOST else ""
    plugins = f'\nPluginDir="{layout.slurm.plugins}"' if layout.slurm.plugins else ""
    size, names = layout.site.max_array_size, licenses(layout.site)
    further = f"\nMaxArraySize={size}" if size else ""
    further += f"\nLicenses={','.join(f'{name}:{_MANY_LICENSES}' for name in names)}" if names else ""
    return f"""# A twin of {layout.site.name}, written by slurmgen.
ClusterName={layout.site.name}
SlurmctldHost={layout.hostname}({layout.address})
SlurmctldPort={layout.port}{communication}
SlurmUser={layout.user}
SlurmdUser={layout.user}
AuthType=auth/munge
AuthInfo=socket={run}/munge.socket{plugins}
StateSaveLocation="{folder}/state"
SlurmdSpoolDir={run}/spool/%n
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd-%n.pid
SlurmctldLogFile="{folder}/slurmctld.log"
SlurmdLogFile="{folder}/slurmd-%n.log"
TaskProlog="{folder}/task_prolog"
# Job ids of several twins differ, and with them the MASTER_PORT that scripts derive from them:
# a thousand ids for each port, and twins are at least three ports apart.
FirstJobId={layout.port}000
# A day, not minutes: without accounting only slurmctld knows the state of an ended job.
MinJobAge=86400
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
# A job that no partition would ever run is refused, not left pending.
EnforcePartLimits=ANY
SlurmdParameters=config_overrides
# The backfill scheduler starts the first job; until three seconds have passed the other one does not.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
GresTypes=gpu{further}{accounting.slurm_conf(layout) if layout.accounting else ""}"""


def _nodes(layout: Layout, group: Group) -> str:
    size = group.shape
    kind = f"{size.gpu_type}:" if size.gpu_type else ""
    feature = f" Feature={','.join(names)}" if (names := features(layout.site)) else ""
    gres = f" Gres=gpu:{kind}{size.gpus}" if size.gpus else ""
    disk = f" TmpDisk={mebibytes}" if (mebibytes := temporary_disk(layout.site)) else ""
    return (
        f"NodeName={group.hostlist} NodeHostname={layout.hostname} NodeAddr={layout.address}"
        f" Port={layout.node_ports(group)} CPUs={size.cpus} RealMemory={size.memory}{disk}{feature}{gres}"
    )


def _partition(layout: Layout, name: str, group: Group, *, is_default: bool) -> str:
    partition, every = partitions(layout.site)[name], layout.site.limits
    most = partition.max_nodes or every.max_nodes
    nodes = f" MaxNodes={most}" if most else ""
    least = f" MinNodes={partition.min_nodes}" if partition.min_nodes else ""
    whole = " OverSubscribe=EXCLUSIVE" if partition.whole_nodes else ""
    qos = accounting.partition_qos(name, partition) if layout.accounting else None
    limits = f" QOS={qos}" if qos else ""
    default = " Default=YES" if is_default else ""
    limit = partition.max_time or every.max_time or "UNLIMITED"
    return (
        f"PartitionName={name} Nodes={group.hostlist} MaxTime={limit}{nodes}{least}{whole}{limits}{default}"
    )


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sshd_config(layout: Layout) -> str:
    """A server for one user on the loopback, which accepts only a key."""
    variables: dict[str, Path | str] = {"SLURM_CONF": layout.folder / "slurm.conf"}
    if layout.bash_env:
        variables |= {"PATH": layout.slurm.path(_PATH), "BASH_ENV": layout.bash_env}
    # StrictModes checks the folders above, such as /tmp or a group-writable home; this one is private.
    return f"""Port {layout.ssh_port}
ListenAddress 127.0.0.1
PidFile {layout.run}/sshd.pid
HostKey {quoted(layout.folder / "host_key")}
AuthorizedKeysFile {quoted(layout.folder / "id.pub")}
StrictModes no
UsePAM no
AuthenticationMethods publickey
PermitRootLogin prohibit-password
AllowUsers {layout.user}
PrintMotd no
Subsystem sftp internal-sftp
SetEnv {" ".join(f"{name}={quoted(value)}" for name, value in variables.items())}
"""


def ssh_config(layout: Layout) -> str:
    """A file for `ssh -F` that connects to the twin by the name of the real login host."""
    return f"""Host {" ".join(layout.ssh_hosts)}
  HostName 127.0.0.1
  Port {layout.ssh_port}
  User {layout.user}
  IdentityFile {quoted(layout.folder / "id")}
  IdentitiesOnly yes
  UserKnownHostsFile {quoted(layout.folder / "known_hosts")}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""


def known_hosts(layout: Layout, host_key: str) -> str:
    """The server's key for the address that ssh looks up."""
    kind, key, *_ = host_key.split()
    return f"[127.0.0.1]:{layout.ssh_port} {kind} {key}\n"


def quoted(path: Path | str) -> str:
    """A path that both ssh and paramiko read; in quotes if it has a space."""
    return f'"{path}"' if " " in str(path) else str(path)
